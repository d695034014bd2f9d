//! Puts numbered jobs into a queue, works on them, or checks that the queue has what was printed.
//!
//! ```text
//! jobs DIR put FIRST N   puts jobs and prints `put NUMBER` when one is durable
//! jobs DIR work          gets jobs, several at a time: prints `got ID NUMBER ATTEMPT BEFORE`, and `done ID NUMBER AFTER` when it is durable
//! jobs DIR both N        puts N jobs and does two of three: for `seawall crash-test DIR --run`
//! jobs DIR check FILE    exit code 1 if a job that FILE says was put and not got is missing, or one that was done is there
//! ```
//!
//! Any number of them may run at once. BEFORE and AFTER are times of one clock of the machine, in microseconds.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use seawall_queue::{Message, Options, Queue};

type Failure = Box<dyn std::error::Error>;

/// Prints a line at once, in one piece.
fn say(line: &str) -> Result<(), Failure> {
    Ok(std::io::stdout().write_all(format!("{line}\n").as_bytes())?)
}

fn number(message: &Message) -> Result<u64, Failure> {
    Ok(std::str::from_utf8(message.body())?.trim_end_matches('.').parse()?)
}

fn put(queue: &Queue, first: u64, count: u64) -> Result<(), Failure> {
    for number in first..first + count {
        // Of various lengths.
        let body = format!("{number}{}", ".".repeat(usize::try_from(number * 37 % 501)?));
        queue.put(body.as_bytes())?;
        say(&format!("put {number}"))?;
    }
    Ok(())
}

fn work(queue: &Queue) -> Result<(), Failure> {
    loop {
        let before = seawall_sys::clock::unix_us();
        let messages = queue.get_many(3, Some(Duration::from_millis(50)))?;
        for message in &messages {
            say(&format!("got {} {} {} {before}", message.id(), number(message)?, message.attempt()))?;
        }
        for message in messages {
            let done = format!("done {} {}", message.id(), number(&message)?);
            message.ack()?;
            say(&format!("{done} {}", seawall_sys::clock::unix_us()))?;
        }
    }
}

fn both(queue: &Queue, count: u64) -> Result<(), Failure> {
    for first in (0..count).step_by(3) {
        put(queue, first, 3)?;
        for message in queue.get_many(2, Some(Duration::from_secs(10)))? {
            let (id, number) = (message.id(), number(&message)?);
            say(&format!("got {id} {number}"))?;
            message.ack()?;
            say(&format!("done {id} {number}"))?;
        }
    }
    Ok(())
}

fn check(queue: &Queue, printed: &Path) -> Result<(), Failure> {
    let printed = std::fs::read_to_string(printed)?;
    let numbers = |what: &str, at: usize| -> BTreeSet<u64> {
        let lines = printed.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        lines.filter(|line| line[0] == what).filter_map(|line| line.get(at)?.parse().ok()).collect()
    };
    // One that was got is acknowledged next, and may be done.
    let (put, got, done) = (numbers("put", 1), numbers("got", 2), numbers("done", 2));
    let mut there = BTreeSet::new();
    for message in queue.get_many(u32::MAX, Some(Duration::ZERO))? {
        if !there.insert(number(&message)?) {
            return Err(format!("{} is there twice", number(&message)?).into());
        }
    }
    match (put.difference(&got).find(|number| !there.contains(number)), done.intersection(&there).next()) {
        (Some(lost), _) => Err(format!("{lost} was put, not got, and is missing").into()),
        (None, Some(again)) => Err(format!("{again} was done, and comes again").into()),
        (None, None) => Ok(()),
    }
}

pub(crate) fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [dir, what @ ..] = &arguments[..] else { return Err("jobs DIR put|work|both|check …".into()) };
    let mut log = seawall::Options::default().segment_bytes(1 << 20).crash_memory_bytes(1 << 20);
    if what[0] == "check" {
        // What is only checked may lie in memory, as a state of `seawall crash-test` does.
        log = log.durability(seawall::Durability::ProcessCrash);
    }
    let queue = Queue::open(dir, Options { log, ..Options::default() })?;
    match what {
        ["put", first, count] => put(&queue, first.parse()?, count.parse()?)?,
        ["work"] => work(&queue)?,
        ["both", count] => both(&queue, count.parse()?)?,
        ["check", printed] => check(&queue, Path::new(printed))?,
        _ => return Err("jobs DIR put FIRST N | work | both N | check FILE".into()),
    }
    Ok(queue.close()?)
}
