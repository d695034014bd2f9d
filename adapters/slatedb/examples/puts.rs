//! Writes numbered keys to a database and prints each number when it is durable, or checks that what was printed is there.
//!
//! ```text
//! puts DIR write N      the next N keys, several at a time: for kill -9, and for `seawall crash-test DIR --run`
//! puts DIR take-over N  the same with a restored log
//! puts DIR check FILE   exit code 1 if a number in FILE has no key, or a key below another one is missing
//! ```
//!
//! The object store is a folder, DIR/store, and the log is below DIR/wal.

use std::path::Path;
use std::sync::Arc;

use seawall_slatedb::{Durability, Options, Wals};
use slatedb::Db;
use slatedb::config::{CloseOptions, Settings};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::local::LocalFileSystem;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// So many puts wait for durability at the same time.
const TOGETHER: u64 = 4;

async fn open(dir: &Path, class: Durability, takes_over: bool) -> Result<Db, Failure> {
    let folder = dir.join("store");
    std::fs::create_dir_all(&folder)?;
    let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true));
    let options = Options::default().segment_bytes(1 << 20).durability(class);
    let wals = Wals::new(dir.join("wal"), options, Arc::clone(&store));
    // A small memtable is flushed to the store now and then.
    let settings = Settings { l0_sst_size_bytes: 32 << 10, ..Settings::default() };
    let wal = wals.wal("db")?;
    let wal = if takes_over { wal.take_over() } else { wal };
    Ok(Db::builder("db", store).with_settings(settings).with_wal_writer(Box::new(wal)).build().await?)
}

fn key(number: u64) -> String {
    format!("{number:012}")
}

fn value(number: u64) -> String {
    format!("value of {number} ").repeat(8)
}

/// How many keys there are, from 0 on without a gap.
async fn count(db: &Db) -> Result<u64, Failure> {
    let mut all = db.scan(..).await?;
    let mut count = 0;
    while let Some(found) = all.next().await? {
        if found.key != key(count).as_bytes() || found.value != value(count).as_bytes() {
            return Err(format!("instead of key {count} there is {:?}", found.key).into());
        }
        count += 1;
    }
    Ok(count)
}

async fn write(db: &Db, keys: u64) -> Result<(), Failure> {
    let start = count(db).await?;
    for first in (start..start + keys).step_by(usize::try_from(TOGETHER)?) {
        let mut written = Vec::new();
        for number in first..(start + keys).min(first + TOGETHER) {
            written.push((number, db.put(key(number), value(number)).await?));
        }
        for (number, put) in written {
            put.await_durable().await?;
            println!("{number}");
        }
    }
    Ok(())
}

async fn check(db: &Db, printed: &Path) -> Result<(), Failure> {
    let count = count(db).await?;
    let printed = std::fs::read_to_string(printed)?;
    let acknowledged = printed.lines().filter_map(|line| line.parse::<u64>().ok()).max();
    match acknowledged {
        Some(last) if last >= count => {
            Err(format!("{last} was acknowledged, and {count} keys are there").into())
        }
        _ => Ok(()),
    }
}

async fn run(arguments: &[String]) -> Result<(), Failure> {
    let [dir, what, with] = arguments else {
        return Err("puts DIR write N | puts DIR take-over N | puts DIR check FILE".into());
    };
    // What is only checked may lie in memory, as a state of `seawall crash-test` does.
    let class = if what == "check" { Durability::ProcessCrash } else { Durability::PowerLoss };
    let db = open(Path::new(dir), class, what == "take-over").await?;
    match what.as_str() {
        "write" | "take-over" => write(&db, with.parse()?).await?,
        "check" => check(&db, Path::new(with)).await?,
        other => return Err(format!("{other}: write, take-over or check").into()),
    }
    // What is in the log stays there.
    Ok(db.close_with_options(CloseOptions::default().with_flush_type(None)).await?)
}

pub(crate) fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(&arguments))
}
