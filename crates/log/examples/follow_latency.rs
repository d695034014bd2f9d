//! Measures how soon a follower sees a commit, and what it costs while nothing happens.
//!
//! `follow_latency [DIR [COMMITS [PAUSE_US]]]` commits records of 256 bytes one by one, with a pause after each (1 ms unless
//! said otherwise), while a [`ViewFollower`] waits for them on a thread of its own. It reads by the way of any other
//! process: the log's files and the page that the writer shares. Both threads are in one process, so that they have one
//! clock. Then both idle for ten seconds. The folder, by default a temporary one, must not hold a log.
//!
//! Printed: from the return of the commit to the return of `next_record`, in µs (0 where the follower was first); the same
//! commits without a follower; looks, wake-ups and the share of a CPU while idle.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seawall::{Log, Lsn, Options, View, ViewFollower};
use seawall_host::thread::process_cpu_ns;
use seawall_sys::clock::monotonic_ns;

const RECORD: [u8; 256] = [7; 256];
const IDLE: Duration = Duration::from_secs(10);

fn quantiles(what: &str, mut values: Vec<u64>) {
    values.sort_unstable();
    let at = |of_1000: usize| {
        let value = values.get((values.len().saturating_sub(1)) * of_1000 / 1000).copied().unwrap_or(0);
        value as f64 / 1000.0
    };
    println!(
        "{what:34} p50 {:8.1}  p99 {:8.1}  p99.9 {:8.1}  max {:8.1} us",
        at(500),
        at(990),
        at(999),
        at(1000)
    );
}

/// Commits one record after the other; returns when each commit returned and how long it took, in nanoseconds.
fn commits(log: &Log, count: usize, pause: Duration) -> seawall::Result<Vec<(u64, u64)>> {
    let commit = |_| {
        let began = monotonic_ns();
        log.append_commit(&RECORD)?;
        let ended = monotonic_ns();
        std::thread::sleep(pause);
        Ok((ended, ended - began))
    };
    (0..count).map(commit).collect()
}

fn arrivals(follower: &mut ViewFollower, count: usize) -> seawall::Result<Vec<u64>> {
    let arrival = |_| follower.next_record().map(|_| monotonic_ns());
    (0..count).map(arrival).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let temporary = tempfile::tempdir()?;
    let dir = arguments.next().map_or_else(|| temporary.path().to_path_buf(), PathBuf::from);
    let count: usize = arguments.next().map_or(Ok(2000), |count| count.parse())?;
    let pause = Duration::from_micros(arguments.next().map_or(Ok(1000), |pause| pause.parse())?);
    let log = Log::open(&dir, Options::default())?;
    println!("{} commits by {}, a pause of {pause:?} after each", count, log.opened().method);
    let alone = commits(&log, count, pause)?;
    quantiles("commit without a follower", alone.iter().map(|(_, took)| *took).collect());

    let mut follower = View::open(&dir)?.follow(log.durable_lsn())?;
    println!(
        "the follower {}",
        follower.polls().map_or("is woken".to_owned(), |why| format!("polls: {why}"))
    );
    let (committed, arrived) = std::thread::scope(|scope| {
        let arrived = scope.spawn(|| arrivals(&mut follower, count));
        let committed = commits(&log, count, pause);
        (committed, arrived.join())
    });
    let (committed, arrived) = (committed?, arrived.map_err(|_| "the follower panicked")??);
    quantiles("commit with a follower", committed.iter().map(|(_, took)| *took).collect());
    let visible = committed.iter().zip(&arrived).map(|((ended, _), arrived)| arrived.saturating_sub(*ended));
    quantiles("from commit to visible", visible.collect());
    println!("wake-ups by the writer: {}", log.stats().follower_wakes);

    let (looks, cpu) = (follower.looks(), AtomicU64::new(0));
    let began = process_cpu_ns().unwrap_or(0);
    follower.next_record_timeout(IDLE)?;
    cpu.store(process_cpu_ns().unwrap_or(0).saturating_sub(began), Ordering::Relaxed);
    let share = cpu.into_inner() as f64 / IDLE.as_nanos() as f64;
    println!("idle for {IDLE:?}: {} looks, {:.4} % of a CPU", follower.looks() - looks, share * 100.0);
    assert!(follower.lsn() > Lsn::ZERO);
    log.close()?;
    Ok(())
}
