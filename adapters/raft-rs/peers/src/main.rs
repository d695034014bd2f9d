//! Measures proposals of 64 clients to a Raft group of one node: Openraft and raft-rs, each over the log and over another store.
//!
//! ```text
//! seawall-raft-peers DIR ROUNDS OTHER   all of them in turns; OTHER is this program with the feature `rocksdb`, DIR on the disk in question
//! seawall-raft-peers DIR NAME           one of them for two seconds, the second one measured: for `strace -fc`
//! ```
//!
//! A proposal of 100 bytes is answered when it is applied. Nothing is compacted. The group has one node: the flush of its store is what a
//! proposal waits for, as it does with more nodes.
#![expect(clippy::disallowed_methods, reason = "it takes the clock that programs have")]

mod on_openraft;
#[cfg(feature = "log")]
mod on_raft_rs;

use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error + Send + Sync>;
/// Proposes 100 bytes; ready when they are applied.
type Propose = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

const CLIENTS: usize = 64;
const TURN: Duration = Duration::from_secs(1);
const NAMES: [&str; 4] = ["openraft-log", "openraft-rocksdb", "raft-rs-log", "raft-rs-engine"];

async fn open(name: &str, dir: &Path) -> Result<Propose, Failure> {
    match name {
        #[cfg(feature = "log")]
        "openraft-log" => on_openraft::over_the_log(dir).await,
        #[cfg(feature = "rocksdb")]
        "openraft-rocksdb" => on_openraft::over_rocksdb(dir).await,
        #[cfg(feature = "log")]
        "raft-rs-log" => on_raft_rs::over_the_log(dir),
        #[cfg(feature = "log")]
        "raft-rs-engine" => on_raft_rs::over_raft_engine(dir),
        other => Err(format!("{other}: one of {NAMES:?}, each built with its feature").into()),
    }
}

/// How long each proposal of all clients took in one turn.
async fn turn(propose: &Propose) -> Result<Vec<Duration>, Failure> {
    let until = Instant::now() + TURN;
    let client = |_| {
        let propose = Arc::clone(propose);
        tokio::spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < until {
                let began = Instant::now();
                propose().await;
                took.push(began.elapsed());
            }
            took
        })
    };
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    let mut took = Vec::new();
    for client in clients {
        took.append(&mut client.await?);
    }
    Ok(took)
}

/// Prints what one second gave: proposals, and the median and 99th percentile of their times in microseconds.
async fn one(dir: &str, name: &str) -> Result<(), Failure> {
    let dir = tempfile::tempdir_in(dir)?;
    let propose = open(name, dir.path()).await?;
    // The first ones make files.
    turn(&propose).await?;
    let mut took = turn(&propose).await?;
    took.sort();
    let (p50, p99) = (took[took.len() / 2].as_micros(), took[took.len() * 99 / 100].as_micros());
    println!("{} {p50} {p99}", took.len());
    // The node runs until the process ends.
    drop(dir);
    std::process::exit(0)
}

fn all(dir: &str, rounds: usize, other: &str) -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let mut figures = NAMES.map(|_| [const { Vec::new() }; 3]);
    for _ in 0..rounds {
        for (name, figures) in NAMES.iter().zip(&mut figures) {
            let program = if name.ends_with("rocksdb") { Path::new(other) } else { &own };
            let said = Command::new(program).args([dir, name]).stderr(Stdio::inherit()).output()?.stdout;
            for (word, figures) in String::from_utf8(said)?.split_whitespace().zip(figures) {
                figures.push(word.parse::<u64>()?);
            }
        }
    }
    for (name, mut figures) in NAMES.iter().zip(figures) {
        let [rates, p50, p99] = figures.each_mut().map(|figures| {
            figures.sort_unstable();
            figures[rounds / 2]
        });
        let (least, most) = (figures[0][0], figures[0][rounds - 1]);
        println!("{name:<17} {rates:>8}/s ({least} to {most})  p50 {p50:>6} us  p99 {p99:>6} us");
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [dir, name] => {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(one(dir, name))
        }
        [dir, rounds, other] => all(dir, rounds.parse()?, other),
        _ => Err("seawall-raft-peers DIR ROUNDS OTHER | seawall-raft-peers DIR NAME".into()),
    }
}
