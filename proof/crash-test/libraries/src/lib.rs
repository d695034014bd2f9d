//! What the drivers share: `DRIVER write DIR` stores 0, 1, 2 … and prints each; `DRIVER check DIR ACKS` looks for them.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;

/// Records that a driver stores.
pub const RECORDS: u64 = 30;

/// A record: its number, and so much more that it lies in two sectors at least, of which a power cut may keep one.
#[must_use]
pub fn record(number: u64) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[b'.'; 592]].concat()
}

/// The number of a record, if all of it is there.
#[must_use]
pub fn number(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(*bytes.first_chunk()?);
    (bytes == record(number)).then_some(number)
}

/// Runs a driver: `open` gives what stores a record, `read` gives what is there. A record that could not be stored is tried
/// once more, and standard error says what came of it: a log that has failed for good ends the run.
pub fn drive<Put: FnMut(u64) -> Result<(), Box<dyn Error>>>(
    open: impl FnOnce(&Path) -> Put,
    read: impl FnOnce(&Path) -> Vec<u64>,
) {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", directory] => {
            let mut put = open(directory.as_ref());
            for number in 0..RECORDS {
                if let Err(error) = put(number) {
                    eprint!("record {number}: {error}; tried again: ");
                    if let Err(error) = put(number) {
                        return eprintln!("{error}");
                    }
                    eprintln!("stored");
                }
                println!("{number}");
                std::io::stdout().flush().expect("stdout is open");
            }
        }
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
