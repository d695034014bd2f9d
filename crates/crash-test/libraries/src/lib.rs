//! What the drivers share: `DRIVER write DIR` stores 0, 1, 2 … and prints each; `DRIVER check DIR ACKS` looks for them.

use std::io::Write as _;
use std::path::Path;

/// Records that a driver stores.
pub const RECORDS: u64 = 30;

/// Runs a driver: `write` calls its function after each record, `read` gives what is there.
pub fn drive(write: impl FnOnce(&Path, &mut dyn FnMut(u64)), read: impl FnOnce(&Path) -> Vec<u64>) {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", directory] => write(directory.as_ref(), &mut |record| {
            println!("{record}");
            std::io::stdout().flush().expect("stdout is open");
        }),
        ["check", directory, acks] => {
            let acks = std::fs::read_to_string(acks).expect("the lines that were printed");
            // Before anything was promised, a folder may not even open.
            if acks.is_empty() {
                return;
            }
            let there = read(directory.as_ref());
            let gone: Vec<&str> =
                acks.lines().filter(|line| !there.contains(&line.parse().expect("a number"))).collect();
            if let [first, ..] = gone[..] {
                println!("record {first} is gone, with {} others", gone.len() - 1);
                std::process::exit(1);
            }
        }
        _ => panic!("use: DRIVER write DIR, or DRIVER check DIR ACKS"),
    }
}
