//! Counts commits of several writers for some seconds: the yardstick of front ends in other languages.
//!
//! `commits DIR WRITERS BYTES SECONDS [power-loss | process-crash]` prints how many records were appended and committed one by one
//! for what they have to outlive, and the seconds that took. The log in DIR promises power loss, and is opened with
//! [`RETENTION_BYTES`], so that it does not fill the disk.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use seawall::{Durability, Log, Options, Retention};
use seawall_sys::clock::monotonic_ns;

/// The log is trimmed to this many bytes.
const RETENTION_BYTES: u64 = 256 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: commits DIR WRITERS BYTES SECONDS [power-loss | process-crash]";
    let [dir, writers, bytes, seconds, outlive @ ..] = &arguments[..] else {
        return Err(usage.into());
    };
    let class = match outlive {
        [] => Durability::PowerLoss,
        [word] if word == "power-loss" => Durability::PowerLoss,
        [word] if word == "process-crash" => Durability::ProcessCrash,
        _ => return Err(usage.into()),
    };
    let (writers, bytes): (usize, usize) = (writers.parse()?, bytes.parse()?);
    let time = Duration::from_secs_f64(seconds.parse()?);
    let retention = Retention::default().bytes(RETENTION_BYTES);
    let log = Log::open(dir, Options::default().retention(retention))?;
    let (committed, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let began_ns = monotonic_ns();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|_| {
                scope.spawn(|| {
                    let record = vec![b'x'; bytes];
                    while !over.load(Ordering::Relaxed) {
                        let lsn = log.append(&record)?.end;
                        log.commit_as(lsn, class)?;
                        committed.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok::<(), seawall::Error>(())
                })
            })
            .collect();
        std::thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    let took = Duration::from_nanos(monotonic_ns() - began_ns);
    println!("{} {}", committed.into_inner(), took.as_secs_f64());
    log.close()?;
    Ok(())
}
