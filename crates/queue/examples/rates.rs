//! Measures a queue beside the log's own commits, in turns on one disk: operations a second, and their ratio to one thread that commits.
//!
//! ```text
//! rates DIR             DIR must be on the disk in question
//! ```
#![expect(clippy::disallowed_methods, reason = "an example takes the clock that programs have")]

use std::path::Path;
use std::time::{Duration, Instant};

use seawall::Log;
use seawall_queue::{Options, Queue};

const ROUNDS: usize = 7;
/// For this long each of them runs in a round.
const TURN: Duration = Duration::from_millis(500);
const BODY: [u8; 256] = [7; 256];

/// Operations a second by this many threads.
fn rate(threads: usize, work: impl Fn(usize) + Sync) -> f64 {
    let until = Instant::now() + TURN;
    let count = |thread: usize| {
        let mut count = 0_u64;
        while Instant::now() < until {
            work(thread);
            count += 1;
        }
        count
    };
    let total: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || count(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("works")).sum()
    });
    total as f64 / TURN.as_secs_f64()
}

fn main() {
    let dir = std::env::args().nth(1).expect("rates DIR");
    let dir = Path::new(&dir);
    let log = Log::open(dir.join("log"), seawall::Options::default()).expect("opens");
    // The second one asks the first by its socket, as another process does.
    let open = || Queue::open(dir.join("queue"), Options::default()).expect("opens");
    let (owner, other) = (open(), open());
    let put = |queue: &Queue| {
        queue.put(&BODY).expect("puts");
    };
    let job = |queue: &Queue| {
        put(queue);
        queue.get(None).expect("gets").ack().expect("acknowledges");
    };
    let hundred = |queue: &Queue| {
        queue.put_many(vec![BODY.to_vec(); 100], Duration::ZERO).expect("puts");
        let messages = queue.get_many(100, None).expect("gets");
        queue.ack_many(messages).expect("acknowledges");
    };
    let commit = |_| {
        log.append_commit(&BODY).expect("commits");
    };
    let rows: [(&str, f64, &dyn Fn() -> f64); 8] = [
        ("log: append, commit; 1 thread", 1.0, &|| rate(1, commit)),
        ("log: append, commit; 16 threads", 1.0, &|| rate(16, commit)),
        ("put; 1 thread of the owner", 1.0, &|| rate(1, |_| put(&owner))),
        ("put; 1 thread of another handle", 1.0, &|| rate(1, |_| put(&other))),
        ("put; 16 threads of both", 1.0, &|| rate(16, |at| put([&owner, &other][at % 2]))),
        ("put, get, ack; 1 thread of the owner", 1.0, &|| rate(1, |_| job(&owner))),
        ("put, get, ack; 16 threads of both", 1.0, &|| rate(16, |at| job([&owner, &other][at % 2]))),
        ("put, get, ack of 100; 1 thread of another handle", 100.0, &|| rate(1, |_| hundred(&other))),
    ];
    let mut found = vec![Vec::new(); rows.len()];
    for _ in 0..ROUNDS {
        for ((_, times, measure), found) in rows.iter().zip(&mut found) {
            found.push(measure() * times);
            owner.purge().expect("purges");
        }
    }
    let floors = found[0].clone();
    for ((name, ..), rates) in rows.iter().zip(&mut found) {
        let mut ratios: Vec<f64> = rates.iter().zip(&floors).map(|(rate, floor)| rate / floor).collect();
        rates.sort_by(f64::total_cmp);
        ratios.sort_by(f64::total_cmp);
        let (low, high) = (ratios[0], ratios[ROUNDS - 1]);
        println!("{name:50} {:9.0}/s  {low:.2} - {high:.2}", rates[ROUNDS / 2]);
    }
}
