//! Which command was given?

use std::process::ExitCode;
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
    /// F.
    Faults { #[arg(long, default_value_t=1)] seed: u64 },
    /// F.
    Kills { #[arg(long, default_value_t=1)] seed: u64 },
    /// Try.
    Block { fs: usize, #[arg(long, default_value_t=1)] seed: u64, #[arg(long, default_value_t=0)] hold: u64, #[arg(long, default_value="direct+fdatasync")] method: String, #[arg(long, value_enum, default_value_t = Sabotage::None)] sabotage: Sabotage, #[arg(long, default_value_t=1000)] states: u64, #[arg(long, default_value_t=40)] transactions: u64, #[arg(long, value_enum, default_value_t = victim::Engine::Core)] engine: victim::Engine},
    /// Try.
    Try { #[arg(long, default_value_t=1)] seed: u64, #[arg(long, default_value_t=0)] hold: u64, #[arg(long, default_value="direct+fdatasync")] method: String, #[arg(long, value_enum, default_value_t = Sabotage::None)] sabotage: Sabotage, #[arg(long)] dump: bool, #[arg(long, value_enum, default_value_t = victim::Engine::Core)] engine: victim::Engine },
}

pub(crate) fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Victim(orders) => victim::run(&orders),
        Command::Faults { seed } => { for fs in &crate::blocks::volume::FILE_SYSTEMS {
          println!("{:?}", crate::faults::fsync_table(fs));
          println!("{} {:?}", fs.name, crate::faults::full_disk(fs));
          println!("{} {:?}", fs.name, crate::faults::dead_disk(fs));
          let tally = Default::default();
          println!("{} {:?} {:?}", fs.name, crate::faults::failed_then_cut(fs, seed, "target/release/seawall".as_ref(), &tally), tally); } Ok(()) },
        Command::Kills { seed } => { for e in crate::kill::VICTIMS { let d = tempfile::tempdir().unwrap(); println!("{:?}", crate::kill::cycles(&crate::scene::Scene::honest(e, "direct+dsync", seed, 0, 1000), "target/release/seawall".as_ref(), d.path(), 50)); } 
            let d = tempfile::tempdir().unwrap(); println!("{:?}", crate::kill::cycles(&crate::scene::Scene{ sabotage: Sabotage::EarlyAck, ..crate::scene::Scene::honest(victim::Engine::Core, "direct+dsync", seed, 0, 1000)}, "target/release/seawall".as_ref(), d.path(), 50));  Ok(()) }
        Command::Block { fs, seed, hold, method, sabotage, states, transactions, engine } => block(fs, seed, hold, method, sabotage, states, transactions, engine),
        Command::Try { seed, hold, method, sabotage, dump, engine } => attempt(seed, hold, method, sabotage, dump, engine),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn attempt(seed: u64, hold: u64, method: String, sabotage: Sabotage, dump: bool, engine: victim::Engine) -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let directory = Arc::new(Directory::default());
    let mount = Mount::new(dir.path(), Arc::clone(&directory) as Arc<_>, seed)?;
    mount.hold_back(hold);
    let orders = Orders { dir: dir.path().into(), marks: Some(dir.path().join(MARKS)), seed, life: engine.life(), transactions: 60, method, sabotage, engine, start: 0 };
    let clock = seawall_sys::clock::monotonic_ns();
    let status = orders.spawn("target/release/seawall".as_ref())?.wait()?;
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

fn block(fs: usize, seed: u64, hold: u64, method: String, sabotage: Sabotage, states: u64, transactions: u64, engine: victim::Engine) -> Result<(), Box<dyn std::error::Error>> {
    use crate::blocks::{campaign, volume, event::Event};
    crate::interrupt::listen()?;
    let clock = seawall_sys::clock::monotonic_ns();
    let scene = crate::scene::Scene { seed, held_in_1000: hold, method, sabotage, transactions, engine };
    let recording = campaign::record(&volume::FILE_SYSTEMS[fs], &scene, "target/release/seawall".as_ref())?;
    println!("{} events, {} flushes, {} marks, {} pages, {} ms", recording.events.len(), recording.events.iter().filter(|e| matches!(e, Event::Flush{..})).count(), recording.events.iter().filter(|e| matches!(e, Event::Mark(_))).count(), recording.start.len(), (seawall_sys::clock::monotonic_ns() - clock)/1_000_000);
    let mut all = 0; let w = crate::blocks::window::walk(&recording, |_| {all+=1; true})?;
    println!("{w} windows {all} states");
    let tally = campaign::Tally::default();
    let clock = seawall_sys::clock::monotonic_ns();
    let found = campaign::Search { recording: &recording, file_system: &volume::FILE_SYSTEMS[fs], jobs: 2, states_max: states, only: None, nested: true, tally: &tally }.run()?;
    println!("{tally:?} {found:?} {} ms", (seawall_sys::clock::monotonic_ns() - clock)/1_000_000);
    Ok(())
}
