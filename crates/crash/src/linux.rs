//! Which command was given?

use std::process::{Command as Child, ExitCode};
use std::sync::Arc;

use clap::{Parser, Subcommand};

use crate::files::campaign::{Search, Tally, search};
use crate::files::Rule;
use crate::files::directory::{Directory, MARKS};
use crate::fuse::Mount;
use crate::victim::{self, Orders};
use crate::directory_disk::Sabotage;
use crate::workload::Timeline;

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs as the child that is recorded, cut off or killed.
    Victim(Orders),
    /// Try.
    Try { #[arg(long, default_value_t=1)] seed: u64, #[arg(long, default_value_t=0)] hold: u64, #[arg(long, default_value="direct+fdatasync")] method: String, #[arg(long, value_enum, default_value_t = Sabotage::None)] sabotage: Sabotage, #[arg(long)] dump: bool },
}

pub(crate) fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Victim(orders) => victim::run(&orders),
        Command::Try { seed, hold, method, sabotage, dump } => attempt(seed, hold, method, sabotage, dump),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn attempt(seed: u64, hold: u64, method: String, sabotage: Sabotage, dump: bool) -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let directory = Arc::new(Directory::default());
    let mount = Mount::new(dir.path(), Arc::clone(&directory) as Arc<_>, seed)?;
    mount.hold_back(hold);
    let orders = Orders { dir: dir.path().into(), marks: Some(dir.path().join(MARKS)), seed, life: 1, transactions: 60, method, sabotage };
    let clock = seawall_sys::clock::monotonic_ns();
    let status = Child::new(std::env::current_exe()?).args(orders.arguments()).status()?;
    println!("{status} {} ms", (seawall_sys::clock::monotonic_ns() - clock)/1_000_000);
    let events = directory.events();
    if dump { for e in &events { let t = format!("{e:?}"); println!("{}", &t[..t.len().min(150)]); } }
    println!("{} events", events.len());
    for rule in [Rule::Strict, Rule::Journal] {
        let mut tally = Tally::default();
        let clock = seawall_sys::clock::monotonic_ns();
        let found = search(&events, Timeline::new(seed, 60), Search { seed, rule, images_per_event: 8, only: None }, &mut tally)?;
        println!("{rule:?} {tally:?} {found:?} {} ms", (seawall_sys::clock::monotonic_ns() - clock)/1_000_000);
    }
    Ok(())
}
