//! Entry point of the fuzz target `witness`: the bytes of a peer, read as those of an unproven one, of a false witness and of
//! one that knows the token.
//!
//! Invariants that are asserted: no peer gets in without the token; what is said of a peer is one bounded line without
//! control characters; a message means the same after it was encoded again; a ledger takes any message without a panic.

use std::io;

use seawall_sys::text::printable;

use crate::error::Error;
use crate::ledger;
use crate::message::{HEADER_BYTES, Message, read_header};
use crate::token::Token;
use crate::wire::{Side, Wire};

/// The longest error about a peer: its text of 400 bytes and the words around it.
const ERROR_BYTES_MAX: usize = 1024;

fn is_harmless(error: &Error) {
    let text = error.to_string();
    assert!(text.len() <= ERROR_BYTES_MAX, "{} bytes about a peer", text.len());
    assert_eq!(printable(&text), text, "a terminal would obey it");
}

/// Whatever arrives, neither side greets a peer that does not know the token.
fn greet(input: &[u8], side: Side) {
    let mut wire = Wire::new(input, io::sink(), "peer".to_owned());
    let refused = wire.greet(&Token::of(b"sixteen bytes ok"), side).expect_err("it does not know the token");
    is_harmless(&refused);
}

/// The messages in `input`: of each frame a byte of kind, one of length and that many bytes of payload.
fn messages(mut input: &[u8]) -> Vec<Message> {
    let mut messages = Vec::new();
    while let [kind, length, rest @ ..] = input {
        let (payload, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        input = rest;
        match Message::decode(*kind, payload) {
            Ok(message) => {
                let mut again = Vec::new();
                message.payload(&mut again);
                assert_eq!(Message::decode(message.kind(), &again).expect("was one"), message);
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
    greet(input, Side::Witness);
    greet(input, Side::Runner);
    if let Some(header) = input.first_chunk::<HEADER_BYTES>()
        && let Err(error) = read_header(header)
    {
        is_harmless(&error);
    }
    for refused in ledger::take(&messages(input)) {
        is_harmless(&refused);
    }
}

#[cfg(test)]
mod tests {
    use super::{messages, peer};
    use crate::message::{Ack, Message};

    #[test]
    fn the_seeds_of_the_fuzz_target_and_each_of_their_prefixes_hold() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../log/fuzz/corpus/witness");
        let mut seeds = 0;
        for seed in std::fs::read_dir(corpus).expect("is there") {
            let seed = std::fs::read(seed.expect("is readable").path()).expect("is readable");
            (0..=seed.len()).for_each(|end| peer(&seed[..end]));
            seeds += 1;
        }
        assert!(seeds >= 4, "{seeds} seeds");
    }

    #[test]
    fn messages_are_found_behind_each_other() {
        let acks = [Ack::default(), Ack { stream: 1, acknowledged: u64::MAX, trimmed: u64::MAX }];
        let mut input = Vec::new();
        for ack in acks {
            let mut payload = Vec::new();
            Message::Ack(ack).payload(&mut payload);
            input.extend([7, 24]);
            input.extend(payload);
        }
        assert_eq!(messages(&input), acks.map(Message::Ack));
    }
}
