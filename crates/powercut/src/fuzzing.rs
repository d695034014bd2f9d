//! Entry point of the fuzz target `witness`: the bytes of a peer, read as those of an unproven one, of a false witness and of
//! one that knows the token.
//!
//! Invariants that are asserted: no peer gets in without the token; what is said of a peer is one bounded line without
//! control characters; a message means the same after it was encoded again; a ledger takes any message without a panic.

use std::io;

use seawall_sys::text::printable;

use crate::error::Error;
use crate::ledger;
use crate::message::Message;
use crate::token::Token;
use crate::wire::{HEADER_BYTES, Wire, read_header};

/// The longest error about a peer: its text of 400 bytes and the words around it.
const ERROR_BYTES_MAX: usize = 1024;

fn is_harmless(error: &Error) {
    let text = error.to_string();
    assert!(text.len() <= ERROR_BYTES_MAX, "{} bytes about a peer", text.len());
    assert_eq!(printable(&text), text, "a terminal would obey it");
}

/// Each line that is a message.
fn messages(lines: &[&[u8]]) -> Vec<Message> {
    let mut messages = Vec::new();
    for line in lines {
        match Message::decode(line) {
            Ok(message) => {
                assert_eq!(Message::decode(&message.encode()).expect("was one"), message);
                messages.push(message);
            }
            Err(error) => is_harmless(&error),
        }
    }
    messages
}

/// Gives `input` to everything that reads what a peer sends.
///
/// # Panics
/// One of the assertions above does not hold.
pub fn peer(input: &[u8]) {
    let wire = || Wire::new(input, io::sink(), "peer".to_owned());
    let token = Token::of(b"sixteen bytes ok");
    // Whatever arrives, neither side greets a peer that does not know the token.
    is_harmless(&wire().welcome(&token, || {}).expect_err("it does not know the token"));
    is_harmless(&wire().greet(&token).expect_err("it does not know the token"));
    if let Some(header) = input.first_chunk::<HEADER_BYTES>()
        && let Err(error) = read_header(header)
    {
        is_harmless(&error);
    }
    let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    for refused in ledger::take(&messages(&lines), &lines) {
        is_harmless(&refused);
    }
}

#[cfg(test)]
mod tests {
    use super::{messages, peer};

    #[test]
    fn the_seeds_of_the_fuzz_target_and_each_of_their_prefixes_hold() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../log/fuzz/corpus/witness");
        let (mut seeds, mut found) = (0, 0);
        for seed in std::fs::read_dir(corpus).expect("is there") {
            let seed = std::fs::read(seed.expect("is readable").path()).expect("is readable");
            (0..=seed.len()).for_each(|end| peer(&seed[..end]));
            found += messages(&seed.split(|byte| *byte == b'\n').collect::<Vec<_>>()).len();
            seeds += 1;
        }
        assert!(seeds >= 4 && found >= 8, "{seeds} seeds with {found} messages");
    }
}
