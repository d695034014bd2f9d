//! Measures a durable put of 100 bytes, one after the other: by the log alone, on a thread and as a task, by SlateDB over the log, and by
//! SlateDB as it comes, in turns on one disk.
//!
//! ```text
//! latency DIR           DIR must be on the disk in question; the object store is a folder in it
//! ```
#![expect(clippy::disallowed_methods, reason = "an example takes the clock that programs have")]

use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use seawall::Log;
use seawall_slatedb::{Options, Wals};
use slatedb::Db;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::local::LocalFileSystem;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const ROUNDS: usize = 9;
/// For this long each of them runs in a round.
const TURN: Duration = Duration::from_millis(600);

/// How long each `put` of one turn took.
async fn turn<F: Future<Output = Result<(), Failure>>>(
    put: impl Fn() -> F,
) -> Result<Vec<Duration>, Failure> {
    let (until, mut took) = (Instant::now() + TURN, Vec::new());
    while Instant::now() < until {
        let began = Instant::now();
        put().await?;
        took.push(began.elapsed());
    }
    Ok(took)
}

async fn put(db: &Db) -> Result<(), Failure> {
    Ok(db.put(b"key", [7; 100]).await?.await_durable().await?)
}

fn commit(log: &Log) -> Result<(), Failure> {
    Ok(log.append_commit(&[7; 100]).map(drop)?)
}

async fn awaited_commit(log: &Log) -> Result<(), Failure> {
    Ok(log.commit_async(log.append(&[7; 100])?.end).await.map(drop)?)
}

async fn run(dir: &Path) -> Result<(), Failure> {
    let folder = dir.join("store");
    std::fs::create_dir_all(&folder)?;
    let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true));
    let log = Log::open(dir.join("log"), Options::default())?;
    let wals = Wals::new(dir.join("wal"), Options::default(), Arc::clone(&store));
    let over = Db::builder("over", Arc::clone(&store)).with_wal_writer(Box::new(wals.wal("over")?));
    let (over, own) = (over.build().await?, Db::builder("own", store).build().await?);
    println!("both logs commit by {} ({})", log.opened().method, log.opened().engine);
    let names = ["append, commit", "append, commit_async", "SlateDB over the log", "SlateDB as it comes"];
    let mut took: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS {
        took[0].extend(turn(|| ready(commit(&log))).await?);
        took[1].extend(turn(|| awaited_commit(&log)).await?);
        took[2].extend(turn(|| put(&over)).await?);
        took[3].extend(turn(|| put(&own)).await?);
    }
    let mut first = None;
    for (name, mut took) in names.into_iter().zip(took) {
        took.sort();
        let (p50, p99) = (took[took.len() / 2], took[took.len() * 99 / 100]);
        let ratio = p50.as_secs_f64() / first.get_or_insert(p50).as_secs_f64();
        println!("{name:<22} p50 {p50:>10.1?}  p99 {p99:>10.1?}  {ratio:>7.2}  ({} puts)", took.len());
    }
    over.close().await?;
    own.close().await?;
    Ok(log.close()?)
}

fn main() -> Result<(), Failure> {
    let dir = std::env::args().nth(1).ok_or("latency DIR")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // As the tasks of a server, on a thread of the runtime.
    runtime.block_on(async move { tokio::spawn(async move { run(Path::new(&dir)).await }).await? })
}
