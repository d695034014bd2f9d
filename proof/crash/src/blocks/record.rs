//! Records what is sent to a disk, in the form that the enumerator of its states takes.
//!
//! Invariants: while nothing is recorded nothing is kept; a mark is entered before whatever arrives after it.

use std::io::Read;
use std::os::unix::net::UnixStream;

use super::event::{Event, Payload};

/// The record of a disk.
#[derive(Debug, Default)]
pub(crate) struct Record {
    events: Option<Vec<Event>>,
    numbers: u64,
    marks: Option<UnixStream>,
    /// The start of a mark whose end has not arrived.
    rest: Vec<u8>,
}

impl Record {
    pub(crate) fn start(&mut self) {
        self.events = Some(Vec::new());
    }

    /// Takes marks from here: lines, which were sent before the requests that follow them.
    pub(crate) fn marks(&mut self, stream: UnixStream) -> std::io::Result<()> {
        stream.set_nonblocking(true)?;
        self.marks = Some(stream);
        Ok(())
    }

    /// Ends it; gives what was recorded.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        self.read_marks();
        self.events.take().unwrap_or_default()
    }

    /// Enters a mark of this process.
    pub(crate) fn mark(&mut self, text: String) {
        if let Some(events) = &mut self.events {
            events.push(Event::Mark(text));
        }
    }

    /// Enters the marks that have arrived.
    pub(crate) fn read_marks(&mut self) {
        let Some(stream) = &mut self.marks else { return };
        let mut buffer = [0; 4096];
        // It ends with what has not arrived yet, or with the machine.
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            self.rest.extend(&buffer[..bytes]);
        }
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line).trim().to_owned();
            self.mark(text);
        }
    }

    fn note(&mut self, event: impl FnOnce(u64) -> Event) -> Option<u64> {
        self.events.as_ref()?;
        self.read_marks();
        self.numbers += 1;
        let number = self.numbers;
        self.events.as_mut()?.push(event(number));
        Some(number)
    }

    /// A write has arrived; its number.
    pub(crate) fn write(
        &mut self,
        offset: u64,
        payload: impl FnOnce() -> Payload,
        forced: bool,
    ) -> Option<u64> {
        let number = self.note(|number| Event::Write { number, offset, payload: payload() })?;
        if forced && let Some(events) = &mut self.events {
            events.push(Event::Forced { number });
        }
        Some(number)
    }

    /// A flush has arrived; its number.
    pub(crate) fn flush(&mut self) -> Option<u64> {
        self.note(|number| Event::Flush { number })
    }

    /// What has this number is answered.
    pub(crate) fn done(&mut self, number: u64) {
        if let Some(events) = &mut self.events {
            events.push(Event::Done { number });
        }
    }
}
