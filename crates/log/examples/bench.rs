//! What does the log cost beside the raw disk? `bench [DIR] [ROUNDS] [WORKLOAD]`

use seawall::bench::{Plan, run, table};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().map_or(".", String::as_str);
    let rounds = arguments.get(1).map_or(Ok(3), |rounds| rounds.parse())?;
    let plan = Plan { rounds, only: arguments.get(2).cloned(), ..Plan::default() };
    let rows = run(dir.as_ref(), &plan, |_, _| {})?;
    print!("{}", table(&rows));
    Ok(())
}
