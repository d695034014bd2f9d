//! Runs the log benchmark against the raw disk and prints its tables: `bench [DIR] [ROUNDS] [WORKLOAD …]`.

use seawall::bench::{Plan, run, table};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().map_or_else(|| ".".into(), std::path::PathBuf::from);
    let rounds = arguments.get(1).map_or(Ok(3), |rounds| rounds.parse())?;
    let plan = Plan { rounds, only: arguments.into_iter().skip(2).collect(), ..Plan::default() };
    let rows = run(&dir, &plan, |_, _| {})?;
    print!("{}", table(&rows));
    Ok(())
}
