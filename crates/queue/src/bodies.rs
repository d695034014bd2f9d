//! Keeps the messages that are handed out next in memory: those that were put a moment ago, or that were read ahead.
//!
//! A log that is written past the page cache is read from the disk, which takes as long as a commit.
//!
//! Invariant: what is kept is in line, and never handed out; it takes a bounded number of bytes.

use std::collections::BTreeMap;

use seawall::Log;

use crate::error::{Error, Result};
use crate::record::{MESSAGES, read_message};
use crate::state::State;

const BYTES_MAX: usize = 1 << 20;
/// Read ahead: this many bytes, and this many messages.
const AHEAD_BYTES: usize = 256 << 10;
const AHEAD_MESSAGES: usize = 256;
/// What keeping one takes besides its body.
const OVERHEAD: usize = 64;

/// The ID and the body of a message.
pub(crate) type Body = (u64, Vec<u8>);

#[derive(Debug, Default)]
pub(crate) struct Bodies {
    kept: BTreeMap<u64, Body>,
    bytes: usize,
}

impl Bodies {
    /// Keeps the message `seq`, if there is room: those that came before are handed out before.
    pub(crate) fn keep(&mut self, seq: u64, id: u64, body: &[u8]) {
        if self.bytes + body.len() + OVERHEAD <= BYTES_MAX
            && self.kept.insert(seq, (id, body.to_vec())).is_none()
        {
            self.bytes += body.len() + OVERHEAD;
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The message `seq`, which is kept no more; read if it was not, with those after it if it is in line.
    pub(crate) fn take(&mut self, log: &Log, seq: u64, state: &State) -> Result<Body> {
        if let Some(body) = self.kept.remove(&seq) {
            self.bytes -= body.1.len() + OVERHEAD;
            return Ok(body);
        }
        if !state.is_in_line(seq) {
            return read(log, seq);
        }
        let mut records = log.stream(MESSAGES).read(seq)?;
        let first = records.next_record()?.ok_or(Error::NoMessage { seq })?;
        let (id, body) = read_message(&first.payload)?;
        let found = (id, body.to_vec());
        let mut bytes = body.len();
        for seq in (seq + 1..).take(AHEAD_MESSAGES) {
            // An error is that of the call that needs it.
            let Ok(Some(record)) = records.next_record() else { break };
            let Ok((id, body)) = read_message(&record.payload) else { break };
            bytes += body.len();
            if bytes > AHEAD_BYTES {
                break;
            }
            if state.is_in_line(seq) {
                self.keep(seq, id, body);
            }
        }
        Ok(found)
    }
}

/// The message `seq`, which is durable.
pub(crate) fn read(log: &Log, seq: u64) -> Result<Body> {
    let record = log.stream(MESSAGES).get(seq)?;
    let (id, body) = read_message(&record.payload)?;
    Ok((id, body.to_vec()))
}
