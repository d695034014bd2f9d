//! The witness: records acknowledgements durably on another host, for the run at the other end of two pipes.
//!
//! Acknowledgements that have arrived together are entered in the ledger together, made durable by one commit, and only
//! then confirmed.
//!
//! Invariants: a message that breaks the rules ends the witness, and it says the reason; a check only reads, so it waits
//! for no other witness, not even for that of a run whose host lost its power and whose connection is still open.

use std::io::{Read, Write};
use std::path::Path;

use crate::error::{Error, Result};
use crate::ledger::{self, Ledger};
use crate::message::{Ack, Message, PROTOCOL, shown};
use crate::wire::{Lines, write};

/// Serves one run or check until the end of `input`, with the ledger in the folder `dir`, which is made when a run begins;
/// whether no message was refused. The reason of a refusal is the last message to `output`.
///
/// # Errors
/// [`Error::Io`] if the other side cannot be told.
pub fn serve(input: impl Read, mut output: impl Write, dir: &Path) -> Result<bool> {
    let Err(error) = converse(&mut Lines::new(input), &mut output, dir) else { return Ok(true) };
    let why = match &error {
        Error::Refused { text } => text.clone(),
        other => other.to_string(),
    };
    say(&mut output, &Message::Refused(shown(&why))).map_or(Err(error), |()| Ok(false))
}

fn say(output: &mut impl Write, message: &Message) -> Result<()> {
    write(output, message).map_err(|error| Error::io("write to", "the other side", error))
}

fn unexpected(wanted: &str) -> Error {
    Error::Protocol { what: format!("the other side did not say {wanted} where it should") }
}

fn converse(lines: &mut Lines<impl Read>, output: &mut impl Write, dir: &Path) -> Result<()> {
    say(output, &Message::Witness(PROTOCOL))?;
    while let Some(message) = lines.next()? {
        match message {
            Message::Begin(begin) => follow(lines, output, Ledger::begin(dir, &begin)?)?,
            Message::Ask(run) => say(output, &Message::Run(ledger::find(dir, run)?))?,
            _ => return Err(unexpected("what it wants")),
        }
    }
    Ok(())
}

/// Follows a run to its end, or to the end of the input.
fn follow(lines: &mut Lines<impl Read>, output: &mut impl Write, mut ledger: Ledger) -> Result<()> {
    say(output, &Message::Done)?;
    // What has arrived together, and is entered together.
    let mut held: Vec<Ack> = Vec::new();
    while let Some(message) = lines.next()? {
        let ended = match message {
            Message::Ack(ack) => {
                let now = ledger.ack(&ack)?;
                held.retain(|before| before.stream != now.stream);
                held.push(now);
                false
            }
            Message::End => ledger.end().map(|()| true)?,
            _ => return Err(unexpected("an acknowledgement")),
        };
        if lines.has_more() && !ended {
            continue;
        }
        ledger.commit()?;
        held.drain(..).try_for_each(|ack| say(output, &Message::Ack(ack)))?;
        if ended {
            return say(output, &Message::Done);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::io::{self, Read, Write};

    use super::serve;
    use crate::ledger::find;
    use crate::message::{Ack, Begin, MESSAGE_BYTES_MAX, Message, PROTOCOL, RunId};
    use crate::stream::{Stream, StreamKind};
    use crate::test_folder;

    const RUN: RunId = RunId([3; 16]);

    fn begin(place: &str) -> Message {
        let streams = [0, 1].map(|number| Stream::sample(number, StreamKind::Log)).to_vec();
        Message::Begin(Begin { run: RUN, window: 4, place: place.to_owned(), streams })
    }

    fn ack(stream: u16, acknowledged: u64) -> Message {
        Message::Ack(Ack { stream, acknowledged, trimmed: 0 })
    }

    fn lines(messages: &[Message]) -> Vec<u8> {
        messages.iter().flat_map(|message| [message.encode(), b"\n".to_vec()].concat()).collect()
    }

    /// What a witness answers to these bytes, without its greeting.
    fn answers(dir: &std::path::Path, input: impl Read) -> (Vec<Message>, bool) {
        let mut output = Vec::new();
        let fine = serve(input, &mut output, dir).expect("is told");
        let said = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut said: Vec<Message> = said.map(|line| Message::decode(line).expect("a message")).collect();
        assert_eq!(said.remove(0), Message::Witness(PROTOCOL));
        (said, fine)
    }

    #[test]
    fn what_arrived_together_is_confirmed_together_and_an_end_is_the_end() {
        let dir = test_folder();
        let run = [begin("here"), ack(0, 1), ack(1, 2), ack(0, 3), Message::End, Message::Ask(None)];
        let (said, fine) = answers(dir.path(), &lines(&run)[..]);
        let held = find(dir.path(), Some(RUN)).expect("is there");
        assert_eq!(said, [Message::Done, ack(1, 2), ack(0, 3), Message::Done, Message::Run(held.clone())]);
        assert!(fine && held.ended && held.last_stream == 0);
    }

    /// Gives one piece a read, and looks at the ledger before each of them and at each write.
    struct Side<'a> {
        dir: &'a std::path::Path,
        pieces: VecDeque<Vec<u8>>,
        confirmed: &'a RefCell<u64>,
    }

    impl Read for Side<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let piece = self.pieces.pop_front().unwrap_or_default();
            into[..piece.len()].copy_from_slice(&piece);
            Ok(piece.len())
        }
    }

    impl Write for Side<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            for line in bytes.split(|byte| *byte == b'\n') {
                if let Ok(Message::Ack(ack)) = Message::decode(line) {
                    let held = find(self.dir, Some(RUN)).expect("a check reads beside the writer").held;
                    assert!(held[0].acknowledged >= ack.acknowledged, "confirmed before it was durable");
                    *self.confirmed.borrow_mut() = ack.acknowledged;
                }
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nothing_is_confirmed_before_another_process_would_read_it_from_the_ledger() {
        let dir = test_folder();
        let confirmed = RefCell::new(0);
        let mut pieces = vec![lines(&[begin("here")])];
        // Alone, two together, and one whose line comes in two parts.
        pieces.push(lines(&[ack(0, 1)]));
        pieces.push(lines(&[ack(0, 2), ack(0, 3)]));
        let (first, second) = (lines(&[ack(0, 4)]), lines(&[ack(0, 5)]));
        let (half, rest) = second.split_at(second.len() / 2);
        pieces.push([&first[..], half].concat());
        pieces.push(rest.to_vec());
        // A cut leaves a line without its end, which is none.
        let mut cut = lines(&[ack(0, 6)]);
        cut.pop();
        pieces.push(cut);
        let side = || Side { dir: dir.path(), pieces: pieces.clone().into(), confirmed: &confirmed };
        assert!(serve(side(), side(), dir.path()).expect("is told"));
        assert_eq!(*confirmed.borrow(), 5);
        let held = find(dir.path(), None).expect("is there");
        assert_eq!((held.held[0].acknowledged, held.ended), (5, false));
    }

    const OBEYED: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}]52;c;eA==\u{7}\nrun 00 broke no promise\u{202e}";

    #[test]
    fn what_breaks_the_rules_ends_the_witness_with_the_reason_and_is_shown_and_not_obeyed() {
        let dir = test_folder();
        let mut long = vec![b' '; MESSAGE_BYTES_MAX + 1];
        long.push(b'\n');
        let tail = |sent: &[Message], more: &[u8]| [&lines(sent)[..], more].concat();
        for (sent, said) in [
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "GET / HTTP"),
            (tail(&[], &[&OBEYED.as_bytes()[..20], b"\n"].concat()), "cannot be read"),
            (long, "more than 32768 bytes"),
            (lines(&[ack(0, 1)]), "what it wants"),
            (lines(&[Message::Refused(OBEYED.to_owned())]), "what it wants"),
            (lines(&[Message::Ask(None)]), "no run yet"),
            (lines(&[Message::Ask(Some(RUN))]), "no run 0303"),
            (lines(&[begin(OBEYED), ack(0, 1), ack(0, 6)]), "ahead of its window"),
            (lines(&[begin("again")]), "already"),
        ] {
            let (answers, fine) = answers(dir.path(), &sent[..]);
            let Some(Message::Refused(why)) = answers.last() else { panic!("{answers:?}") };
            assert!(why.contains(said) && !fine, "{said:?} in {why:?}");
            assert!(why.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{why}");
        }
        let (known, _) = answers(dir.path(), &lines(&[Message::Ask(Some(RUN))])[..]);
        let [Message::Run(run)] = &known[..] else { panic!("{known:?}") };
        assert!(run.begin.place.starts_with("\\u{1b}[2J"), "{}", run.begin.place);
    }
}
