//! Counts commits of several writers for some seconds: the yardstick of front ends in other languages.
//!
//! `commits DIR WRITERS BYTES SECONDS [power-loss | process-crash | tasks]` prints how many records were appended and committed one by one
//! for what they have to outlive, the seconds that took, and those of CPU that the writers took. Writers are threads, or tasks of one
//! thread, each of which awaits a commit that outlives power loss. The log in DIR promises power loss, and is opened with
//! [`RETENTION_BYTES`], so that it does not fill the disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall::{Durability, Log, Options, Result, Retention};
use seawall_host::thread::cpu_ns;
use seawall_sys::clock::monotonic_ns;

/// The log is trimmed to this many bytes.
const RETENTION_BYTES: u64 = 256 << 20;
/// Commits that do not count, so that no segment is being prepared when the others begin.
const WARM: u32 = 200;

/// What each thread does until the time is over: how many records it committed.
type Work<'a> = dyn Fn(&AtomicBool) -> Result<u64> + Sync + 'a;

fn thread(log: &Log, record: &[u8], class: Durability, over: &AtomicBool) -> Result<u64> {
    let mut committed = 0;
    while !over.load(Ordering::Relaxed) {
        let lsn = log.append(record)?.end;
        log.commit_as(lsn, class)?;
        committed += 1;
    }
    Ok(committed)
}

fn tasks(log: &Log, record: &[u8], writers: usize, over: &AtomicBool) -> Result<u64> {
    let executor = async_executor::LocalExecutor::new();
    let write = async || {
        let mut committed = 0;
        while !over.load(Ordering::Relaxed) {
            log.commit_async(log.append(record)?.end).await?;
            committed += 1;
        }
        Ok::<u64, seawall::Error>(committed)
    };
    let running: Vec<_> = (0..writers).map(|_| executor.spawn(write())).collect();
    futures_lite::future::block_on(executor.run(async {
        let mut committed = 0;
        for task in running {
            committed += task.await?;
        }
        Ok(committed)
    }))
}

/// What threads have committed after so long, and the nanoseconds of CPU that they took.
fn run(threads: usize, time: Duration, work: &Work<'_>) -> Result<(u64, u64)> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let timed = || {
            let began_ns = cpu_ns().unwrap_or(0);
            let committed = work(&over)?;
            Ok::<_, seawall::Error>((committed, cpu_ns().unwrap_or(0) - began_ns))
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(timed)).collect();
        std::thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        threads.into_iter().try_fold((0, 0), |(committed, cpu), thread| {
            let own = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((committed + own.0, cpu + own.1))
        })
    })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: commits DIR WRITERS BYTES SECONDS [power-loss | process-crash | tasks]";
    let [dir, writers, bytes, seconds, how @ ..] = &arguments[..] else {
        return Err(usage.into());
    };
    let how = how.first().map_or("power-loss", String::as_str);
    let (writers, record) = (writers.parse()?, vec![b'x'; bytes.parse()?]);
    let time = Duration::try_from_secs_f64(seconds.parse()?)?;
    let retention = Retention::default().bytes(RETENTION_BYTES);
    let log = Log::open(dir, Options::default().retention(retention))?;
    (0..WARM).try_for_each(|_| log.append_commit(&record).map(drop))?;
    let began_ns = monotonic_ns();
    let (committed, cpu_ns) = match how {
        "power-loss" => run(writers, time, &|over| thread(&log, &record, Durability::PowerLoss, over))?,
        "process-crash" => run(writers, time, &|over| thread(&log, &record, Durability::ProcessCrash, over))?,
        "tasks" => run(1, time, &|over| tasks(&log, &record, writers, over))?,
        _ => return Err(usage.into()),
    };
    let took = Duration::from_nanos(monotonic_ns() - began_ns);
    let cpu = Duration::from_nanos(cpu_ns);
    println!("{committed} {} {}", took.as_secs_f64(), cpu.as_secs_f64());
    log.close()?;
    Ok(())
}
