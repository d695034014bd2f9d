//! Reads a destination from its beginning to its end, and takes an epoch there, which fences the old writer: what every restore and
//! standby does at each place ([`crate::restore`]).
//!
//! Invariants: what is read up to the epoch is what the destination holds, so that everything acknowledged is there; of two that take
//! over at once one gets the epoch and the other fails.

use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::manifest::{Manifest, begins_segment};
use crate::message::{Chain, Header, Kind, Owner, Verdict, is_message};
use crate::note::{Note, random};
use crate::writer::{Action, Bounds, Ground, Outcome, Writer, WriterId};
use seawall_sys::clock::monotonic_ns;
use seawall_sys::planted;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// How long the outcome of one request may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How often a request is tried.
const TRIES_MAX: u32 = 30;
/// How long it waits before it looks again for what is missing.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What was read from a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Read {
    /// Messages, including those left over from races.
    pub messages: u64,
    /// Of these, those left over.
    pub ignored: u64,
    /// Of these, those that are not messages of a log.
    pub strays: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long it took.
    pub time: Duration,
}

/// Takes whole pieces, and when the message that ends with them was sent, 0 if it does not say; returns whether more are wanted.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&[u8], u64) -> Result<bool>;

/// Takes messages apart: whole pieces for `sink`, parts put together.
pub(crate) struct Intake {
    pub(crate) chain: Chain,
    parts: Vec<u8>,
    pub(crate) read: Read,
    /// How many messages a writer may have in flight.
    in_flight: u64,
    /// The last position that is read.
    pub(crate) until: u64,
    /// A position that is known to hold a message, 0 for none.
    pub(crate) known: u64,
    /// The manifest that each segment should have, if wanted.
    pub(crate) segments: Option<Vec<Manifest>>,
    /// The first position after the last message of the chain that holds no message: a damaged one looks the same.
    stray: Option<u64>,
}

impl Intake {
    /// Goes on in `from` after `chain`.
    pub(crate) fn new(chain: Chain, from: &dyn Destination) -> Self {
        let in_flight = from.facts().in_flight_max as u64;
        Self {
            chain,
            parts: Vec::new(),
            read: Read::default(),
            in_flight,
            until: u64::MAX,
            known: 0,
            segments: None,
            stray: None,
        }
    }

    /// The next message.
    pub(crate) fn take(&mut self, bytes: &[u8], sink: Sink<'_>) -> Result<bool> {
        self.read.messages += 1;
        self.read.bytes += bytes.len() as u64;
        let verdict = self.chain.take(bytes)?;
        if let (Some(segments), Verdict::Next(header, payload)) = (&mut self.segments, &verdict)
            && begins_segment(header, payload)
        {
            segments.push(Manifest::in_front_of(self.chain.position, header));
        }
        if let Verdict::Next(..) = &verdict {
            self.stray = None;
        }
        match verdict {
            Verdict::Ignored if !is_message(bytes) => {
                self.read.ignored += 1;
                self.read.strays += 1;
                self.stray.get_or_insert(self.chain.position);
            }
            Verdict::Ignored => {
                self.read.ignored += 1;
                let position = self.stray.unwrap_or(self.chain.position);
                let damaged = |what: String| Error::Damaged { position, what };
                let (header, _) = Header::open(bytes).map_err(|what| damaged(what.to_owned()))?;
                if self.chain.has_lost(&header, self.in_flight) {
                    let (due, number) = (self.chain.number, header.number);
                    let what = format!(
                        "it is message {number} of the log, and message {due} before it is missing or was replaced"
                    );
                    return Err(damaged(what));
                }
            }
            Verdict::Next(header, _) if header.kind == Kind::Epoch => self.parts.clear(),
            Verdict::Next(header, payload) if header.part.1 == 1 => return sink(&payload, header.sent_us),
            Verdict::Next(header, payload) => {
                self.parts.extend_from_slice(&payload);
                if header.part.0 + 1 == header.part.1 {
                    return sink(&std::mem::take(&mut self.parts), header.sent_us);
                }
            }
        }
        Ok(true)
    }

    /// Whether messages are missing that the chain `known` has. Compares numbers too: after a message that was replaced by another valid
    /// one, readers ignore all others.
    ///
    /// # Errors
    /// [`Error::Lost`]; [`Error::Damaged`] where something lies that is no message.
    pub(crate) fn holds(&self, known: &Chain) -> Result<()> {
        if known.position <= self.chain.position && known.number <= self.chain.number {
            return Ok(());
        }
        Err(match self.stray {
            Some(position) => Error::Damaged {
                position,
                what: "it is not a message of a log, and one is missing at this position".to_owned(),
            },
            None => Error::Lost { position: known.position },
        })
    }

    /// Everything from here to the end, and up to the position that is known to hold a message, or until `sink` wants no more.
    pub(crate) fn read_all(&mut self, from: &mut dyn Destination, sink: Sink<'_>) -> Result<bool> {
        let begun = monotonic_ns();
        let mut outcome = self.read_to(from, None, sink);
        if matches!(outcome, Ok(true)) && self.known > self.chain.position {
            // What is acknowledged may not be shown for a moment, while the destination changes its leader.
            outcome = match self.read_to(from, Some(self.known), sink) {
                Err(Error::Damaged { position, .. }) if position == self.chain.position + 1 => Ok(true),
                read => read,
            };
        }
        self.read.time += Duration::from_nanos(monotonic_ns() - begun);
        outcome
    }

    /// The same, and at least up to `goal`, if that is known. The end moves while a log is shipped; what the destination does not
    /// answer, or does not show, counts as missing only when it stays so for as long as it says that this may take.
    fn read_to(&mut self, from: &mut dyn Destination, mut goal: Option<u64>, sink: Sink<'_>) -> Result<bool> {
        let (patience, mut stalled_ns) = (from.settles_within(), None);
        loop {
            let before = self.chain.position;
            let mut more = true;
            let mut looked = Ok(());
            if before < self.until {
                looked = read_ahead(from, before + 1, &mut |bytes| {
                    more = self.take(bytes, sink)?;
                    Ok(more && self.chain.position < self.until)
                });
            }
            if !more || self.chain.position >= self.until {
                return Ok(more);
            }
            // One that is missing in the middle would look like the end.
            let knew = goal.is_some();
            let known = looked.and_then(|()| match goal {
                Some(goal) => Ok(goal),
                None if self.until < u64::MAX => Ok(self.until),
                None => from.last(),
            });
            let missing = match known {
                Ok(known) if known <= self.chain.position => return Ok(true),
                Ok(known) => {
                    goal = Some(known);
                    let what = format!("it is missing, but message {known} exists");
                    Error::Damaged { position: self.chain.position + 1, what }
                }
                Err(error) if error.is_passing() => error,
                Err(error) => return Err(error),
            };
            if self.chain.position > before {
                stalled_ns = None;
                continue;
            }
            let now = monotonic_ns();
            // Once more in any case: it may have been added between the two looks.
            let is_news = goal.is_some() && !knew;
            match stalled_ns {
                None => stalled_ns = Some(now),
                Some(_) if is_news => {}
                Some(since) if Duration::from_nanos(now - since) >= patience => return Err(missing),
                Some(_) => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }
}

/// Reads the messages from `position` on as [`Destination::read_on`] does, while `visit` works on those before: as many wait for it as
/// their writer has in flight.
fn read_ahead(
    from: &mut dyn Destination,
    position: u64,
    visit: &mut dyn FnMut(&[u8]) -> Result<bool>,
) -> Result<()> {
    let (ahead, messages) = mpsc::sync_channel(from.facts().in_flight_max);
    let read = move || from.read_on(position, &mut |_, bytes| Ok(ahead.send(bytes.to_vec()).is_ok()));
    std::thread::scope(|scope| {
        let named = std::thread::Builder::new().name("seawall-ahead".to_owned());
        let reading = named.spawn_scoped(scope, read);
        let reading = reading.map_err(|source| Error::unavailable("cannot start a thread", source))?;
        let visited = messages.into_iter().try_for_each(|bytes| match visit(&bytes) {
            Ok(true) => Ok(()),
            Ok(false) => Err(None),
            Err(error) => Err(Some(error)),
        });
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match visited {
            Err(Some(error)) => Err(error),
            Err(None) => Ok(()),
            Ok(()) => read.map(drop),
        }
    })
}

/// Takes the next epoch for `owner` and reads up to it: from `writers` alone if they are named; `sink` gets what `intake` had not
/// read. Returns the note for the new owner.
pub(crate) fn claim(
    from: &mut dyn Destination,
    intake: &mut Intake,
    (owner, writers): (Owner, Option<&[Owner]>),
    sink: Sink<'_>,
) -> Result<Note> {
    let is_named = |chain: &Chain| writers.is_some_and(|writers| writers.contains(&chain.owner));
    let mine = |chain: &Chain| {
        let other = writers.is_some() && !is_named(chain) && chain.owner != owner;
        let refused = planted!(StandbyTakesFromAnyone, other);
        if planted!(SourcesTakeFromAnyone, refused) {
            Err(Error::Replaced { epoch: chain.epoch })
        } else {
            Ok(())
        }
    };
    mine(&intake.chain)?;
    let chain = loop {
        let end = intake.chain.clone();
        let taken = take_epoch(from, owner, end, &mut |position, bytes| {
            if position == intake.chain.position + 1 {
                intake.take(bytes, sink)?;
            }
            mine(&intake.chain)
        });
        match taken {
            // One of them was faster: take the epoch from that one.
            Err(Error::Replaced { .. }) if !planted!(SourcesTakeFromAnyone, !is_named(&intake.chain)) => {}
            taken => break taken?,
        }
    };
    intake.until = chain.position;
    intake.read_all(from, sink)?;
    Note::new(from, owner, chain)
}

/// Takes the next epoch after `end`, or after what was added since; returns the chain with the epoch at its end.
fn take_epoch(
    from: &mut dyn Destination,
    owner: Owner,
    end: Chain,
    seen: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<Chain> {
    let log_id = end.log_id.ok_or_else(|| empty(from))?;
    let base = (end.lsn, end.link);
    let me = WriterId { log_id, owner, nonce: random()?, ground: Ground::TakeOver, base };
    let message_bytes_max = from.facts().message_bytes_max;
    let bounds = Bounds { message_bytes_max, in_flight_max: 1, queue_bytes_max: 1, compresses: false };
    let mut writer = Writer::new(me, bounds, end);
    drive(&mut writer, from, seen)?;
    Ok(writer.known().clone())
}

/// The note of the log in `dir` on `from`, which says what must be there.
///
/// # Errors
/// As [`Note::read`]; [`Error::Unfit`] if there is none.
pub(crate) fn noted(dir: &Path, from: &mut dyn Destination) -> Result<Note> {
    let address = from.address();
    let missing = || {
        Error::unfit(format!(
            "{} has no hold on {address}, so that it does not say what must be there: name the folder of the log that is shipped there, or \
             drill without one",
            dir.display(),
        ))
    };
    // A hold of another address is followed too.
    let note = Note::read(dir, from)?;
    note.ok_or_else(missing)
}

pub(crate) fn empty(from: &dyn Destination) -> Error {
    Error::unfit(format!("{} holds no log", from.address()))
}

/// Does what `writer` decides until it has the right to write; `seen` gets what is read on the way.
fn drive(
    writer: &mut Writer,
    destination: &mut dyn Destination,
    seen: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let (mut tries, mut why) = (0, String::new());
    while !writer.is_shipping() {
        if let Some(end) = writer.ended() {
            return Err(end.error());
        }
        match writer.next_action() {
            Some(Action::Read { position }) => match destination.read(position) {
                Ok(found) => {
                    if let Some(bytes) = &found {
                        seen(position, bytes)?;
                    }
                    writer.read(position, found.as_deref());
                }
                Err(error) if error.is_passing() && tries < TRIES_MAX => {
                    tries += 1;
                    writer.unread(position);
                    std::thread::sleep(Duration::from_millis(200));
                }
                Err(error) => return Err(error),
            },
            Some(Action::Append { position, number, bytes }) => {
                let (answer, answers) = mpsc::channel();
                let say = move |outcome| {
                    let _ = answer.send(outcome);
                };
                destination.append(position, bytes, Box::new(say));
                let silent = || Outcome::unknown(format!("no answer within {} s", ANSWER.as_secs()));
                let outcome = answers.recv_timeout(ANSWER).unwrap_or_else(|_| silent());
                if let Some(reason) = outcome.why() {
                    why = reason.to_string();
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(200));
                }
                if tries > TRIES_MAX {
                    return Err(Error::unavailable("no epoch was taken", why));
                }
                writer.outcome(position, number, outcome);
            }
            None => {}
        }
    }
    Ok(())
}
