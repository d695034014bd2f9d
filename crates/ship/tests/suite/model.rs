//! Tests the protocol in a model: writers, a destination that loses, repeats, delays and reorders requests and answers, crashes,
//! lost machines, two that take over at once, copies of a machine, trims, a destination that was set back, and what is no message.
//! The destination refuses what comes for another position, keeps it where it is, as Kafka does, or takes any free name, as a store of
//! objects does.
//!
//! The writer and the reader's rule are those that ship; everything around them is the model. It is walked at random by many
//! seeds, and exhaustively for a small world. After each step:
//!
//! * no acknowledged batch is missing from what a reader of the destination finds, whatever becomes of the machine;
//! * what the reader finds is one line of batches, each following the one before it, none twice;
//! * the log still has what the next writer needs;
//! * after a destination that was set back, whatever is acknowledged again can be read;
//! * no epoch is sent by a log that does not continue the chain; a writer is told that it was replaced, or that something was lost, only if
//!   it was; nothing counts as damaged, because nothing is.
//!
//! After each walk the network is calm, and every writer either ends or has everything acknowledged.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use seawall::{LogId, Lsn};
use seawall_ship::guess::{Guess, was_right};
use seawall_ship::message::{Chain, HEADER_BYTES, Header, Kind, Owner, Verdict, is_message};
use seawall_ship::writer::{Action, Bounds, End, Ground, Outcome, Parcel, Writer, WriterId};

/// What a batch is made of: the machine that made it, a number that no other batch has, and the link before it.
const BATCH_BYTES: u64 = 12;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Batch {
    lsn: u64,
    link_before: u32,
    link: u32,
    bytes: Vec<u8>,
}

impl Batch {
    fn new(lsn: u64, link_before: u32, machine: usize, serial: u32) -> Self {
        let mut bytes = serial.to_le_bytes().to_vec();
        bytes.extend(u32::try_from(machine).expect("few").to_le_bytes());
        bytes.extend(link_before.to_le_bytes());
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let link = u32::try_from(hasher.finish() & 0x7FFF_FFFF).expect("31 bits");
        Self { lsn, link_before, link, bytes }
    }

    fn end(&self) -> u64 {
        self.lsn + BATCH_BYTES
    }

    fn parcel(&self) -> Parcel {
        Parcel {
            lsn: Lsn::new(self.lsn),
            end: Lsn::new(self.end()),
            link_before: self.link_before,
            link: self.link,
            records: 1,
            time_us: 0,
            sent_us: 0,
            bytes: self.bytes.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is true of a machine or not, whatever the others are"
)]
struct Machine {
    /// Who its directory is: a copy is the same.
    mark: u8,
    writer: Option<Writer>,
    /// Answers to an earlier writer reach nobody.
    incarnation: u32,
    log: Vec<Batch>,
    /// Where the log ends, if it has no batch any more.
    end: (u64, u32),
    /// What a restart begins with, and what was trimmed by it.
    note: Chain,
    has_log: bool,
    lost: bool,
    takes_over: bool,
    /// It looks for the end of the chain by the last messages.
    guesses: bool,
    /// How many messages were stored when it first sent its epoch.
    took_at: Option<usize>,
    promised: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Request {
    machine: usize,
    incarnation: u32,
    action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Append(u64, u64, Outcome),
    Read(u64, Option<Arc<[u8]>>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    stored: Vec<Arc<[u8]>>,
    /// Names after a hole.
    beyond: Vec<(u64, Arc<[u8]>)>,
    reader: Reader,
    requests: Vec<Request>,
    answers: Vec<(usize, u32, Answer)>,
    machines: Vec<Machine>,
    /// Acknowledged to users.
    promised: Vec<Batch>,
    serial: u32,
    /// How often the network and the machines may still do harm.
    harm: u32,
    batches_max: usize,
    in_flight: usize,
    kind: Kept,
    /// Machines are copied, the destination is set back, strays arrive.
    is_wide: bool,
    /// It was set back, or an old copy was read: then something may be missing.
    may_lack: bool,
}

/// What a destination does with what comes for another position than the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kept {
    /// It refuses it.
    Next,
    /// It keeps it at the next one.
    All,
    /// It keeps it there, if nothing lies there.
    Names,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Append(usize),
    Offer(usize),
    Act(usize),
    Note(usize),
    Crash(usize),
    Start(usize),
    TakeOver(usize),
    /// The machine is gone with its log.
    Lose(usize),
    /// A log that promised less than what happened loses its last batch.
    CutTail(usize),
    Arrive(usize),
    ArriveAndStay(usize),
    /// No answer comes; the request may still arrive.
    TimeOut(usize),
    /// As long as a read is on its way, an old copy may answer it.
    ArriveStale(usize),
    Answer(usize),
    LoseAnswer(usize),
    /// The machine's directory is copied, as it is.
    Copy(usize),
    /// The destination is set back by this many messages, while nothing is on its way.
    SetBack(usize),
    /// Something arrives that is no message.
    Stray,
}

impl Event {
    /// Which kind of harm it is, if it is one.
    fn harm(self) -> Option<u32> {
        match self {
            Self::Append(_)
            | Self::Offer(_)
            | Self::Act(_)
            | Self::Note(_)
            | Self::Start(_)
            | Self::Arrive(_)
            | Self::Answer(_) => None,
            Self::Crash(_) => Some(0),
            Self::TakeOver(_) => Some(1),
            Self::Lose(_) => Some(2),
            Self::CutTail(_) => Some(3),
            Self::ArriveAndStay(_) => Some(4),
            Self::TimeOut(_) => Some(5),
            Self::ArriveStale(_) => Some(6),
            Self::LoseAnswer(_) => Some(7),
            Self::Copy(_) => Some(8),
            Self::SetBack(_) => Some(9),
            Self::Stray => Some(10),
        }
    }
}

impl World {
    fn new(machines: usize, harm: u32, batches_max: usize, in_flight: usize, kind: Kept) -> Self {
        let machine = |index| Machine {
            mark: u8::try_from(index).expect("few") + 1,
            writer: None,
            incarnation: 0,
            log: Vec::new(),
            end: (0, 0),
            note: Chain::default(),
            has_log: index == 0,
            lost: false,
            takes_over: false,
            guesses: false,
            took_at: None,
            promised: 0,
        };
        Self {
            stored: Vec::new(),
            beyond: Vec::new(),
            reader: Reader::default(),
            requests: Vec::new(),
            answers: Vec::new(),
            machines: (0..machines).map(machine).collect(),
            promised: Vec::new(),
            serial: 0,
            harm,
            batches_max,
            // Objects are created one after the other.
            in_flight: if kind == Kept::Names { 1 } else { in_flight },
            kind,
            is_wide: true,
            may_lack: false,
        }
    }

    fn writer(&self, machine: usize, ground: Ground) -> Writer {
        let it = &self.machines[machine];
        let mark = it.mark;
        let mut nonce = [u8::try_from(machine).expect("few"); 16];
        nonce[0] = u8::try_from(it.incarnation % 250).expect("small");
        let me = WriterId { log_id: LogId([9; 16]), owner: [mark; 16], nonce, ground, base: (Lsn::ZERO, 0) };
        // Two parts for each batch.
        let bytes_max = HEADER_BYTES + 8;
        let bounds = Bounds {
            message_bytes_max: bytes_max,
            in_flight_max: self.in_flight,
            queue_bytes_max: bytes_max * 4,
            compresses: false,
        };
        let known = match ground {
            Ground::TakeOver if it.guesses => self.guess(),
            Ground::TakeOver => Chain::default(),
            Ground::Continue => it.note.clone(),
        };
        Writer::new(me, bounds, known)
    }

    /// Where the chain ends by the last messages: fewer than what may be left over, so that it is wrong at times.
    fn guess(&self) -> Chain {
        let mut guess = Guess::default();
        let last = self.stored.len().saturating_sub(self.in_flight + 1);
        for (position, bytes) in (1..).zip(&self.stored).skip(last) {
            guess.look_at(position, bytes).expect("sound");
        }
        guess.end().unwrap_or_default()
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (index, it) in self.machines.iter().enumerate() {
            let runs = it.writer.as_ref().is_some_and(|writer| writer.ended().is_none());
            if it.lost {
                continue;
            }
            if it.has_log && usize::try_from(self.serial).expect("few") < self.batches_max {
                events.push(Event::Append(index));
            }
            if runs {
                events.extend([Event::Offer(index), Event::Act(index)]);
            }
            if runs && it.has_log {
                events.push(Event::Note(index));
            }
            if it.has_log && !runs {
                events.push(Event::Start(index));
            }
            if self.harm == 0 {
                continue;
            }
            if self.is_wide && it.has_log && self.machines.len() < 4 {
                events.push(Event::Copy(index));
            }
            if it.writer.is_some() {
                events.push(Event::Crash(index));
            }
            if index > 0 && !it.has_log && !runs {
                events.push(Event::TakeOver(index));
            }
            if it.has_log {
                events.push(Event::CutTail(index));
            }
            if it.has_log && index == 0 {
                events.push(Event::Lose(index));
            }
        }
        if self.is_wide && self.harm > 0 {
            let by = 1 + usize::try_from(self.serial % 3).expect("small");
            events.extend((by <= self.stored.len()).then_some(Event::SetBack(by)));
            events.push(Event::Stray);
        }
        for index in 0..self.requests.len() {
            events.push(Event::Arrive(index));
            if self.harm > 0 {
                events.extend([
                    Event::ArriveAndStay(index),
                    Event::TimeOut(index),
                    Event::ArriveStale(index),
                ]);
            }
        }
        for index in 0..self.answers.len() {
            events.push(Event::Answer(index));
            if self.harm > 0 {
                events.push(Event::LoseAnswer(index));
            }
        }
        events
    }

    fn apply(&mut self, event: Event) -> Result<(), String> {
        self.harm -= u32::from(event.harm().is_some());
        match event {
            Event::Append(index) => self.append(index),
            Event::Offer(index) => self.offer(index)?,
            Event::Act(index) => self.act(index)?,
            Event::Note(index) => self.note(index),
            Event::Crash(index) => self.crash(index),
            Event::Start(index) => {
                self.machines[index].incarnation += 1;
                self.machines[index].writer = Some(self.writer(index, Ground::Continue));
            }
            Event::TakeOver(index) => {
                self.machines[index].incarnation += 1;
                self.machines[index].takes_over = true;
                self.machines[index].guesses = true;
                self.machines[index].took_at = None;
                self.machines[index].writer = Some(self.writer(index, Ground::TakeOver));
            }
            Event::Lose(index) => {
                self.crash(index);
                self.machines[index].lost = true;
            }
            Event::CutTail(index) => self.cut_tail(index),
            Event::Copy(index) => {
                let it = self.machines[index].clone();
                self.machines.push(Machine { writer: None, takes_over: false, ..it });
            }
            Event::SetBack(by) => self.set_back(by)?,
            Event::Stray => self.stored.push(Arc::from(*b"no message")),
            Event::Arrive(index) => {
                let request = self.requests.swap_remove(index);
                self.arrive(&request, false);
            }
            Event::ArriveAndStay(index) => {
                let request = self.requests[index].clone();
                // A second answer may be from before.
                self.may_lack |= matches!(request.action, Action::Read { .. });
                self.arrive(&request, false);
            }
            Event::ArriveStale(index) => {
                self.may_lack = true;
                let request = self.requests.swap_remove(index);
                self.arrive(&request, true);
            }
            Event::TimeOut(index) => {
                let Request { machine, incarnation, action } = self.requests[index].clone();
                match action {
                    Action::Append { position, number, .. } => {
                        self.answers.push((
                            machine,
                            incarnation,
                            Answer::Append(position, number, Outcome::unknown("lost")),
                        ));
                    }
                    Action::Read { position } => self.unread(machine, incarnation, position),
                }
            }
            Event::Answer(index) => {
                let answer = self.answers.swap_remove(index);
                self.answer(answer);
            }
            Event::LoseAnswer(index) => {
                let (machine, incarnation, answer) = self.answers.swap_remove(index);
                match answer {
                    Answer::Append(position, number, _) => {
                        self.answer((
                            machine,
                            incarnation,
                            Answer::Append(position, number, Outcome::unknown("lost")),
                        ));
                    }
                    Answer::Read(position, _) => self.unread(machine, incarnation, position),
                }
            }
        }
        self.promise();
        self.judge()
    }

    fn unread(&mut self, machine: usize, incarnation: u32, position: u64) {
        let it = &mut self.machines[machine];
        if let Some(writer) = it.writer.as_mut().filter(|_| it.incarnation == incarnation) {
            writer.unread(position);
        }
    }

    fn append(&mut self, index: usize) {
        let (lsn, link) = self.machines[index].end;
        let batch = Batch::new(lsn, link, index, self.serial);
        self.serial += 1;
        let it = &mut self.machines[index];
        it.end = (batch.end(), batch.link);
        it.log.push(batch);
    }

    /// The log's side: it looks for the batch that is due, as a follower of the log does.
    fn offer(&mut self, index: usize) -> Result<(), String> {
        let it = &mut self.machines[index];
        let ready = |writer: &&mut Writer| writer.has_room() || writer.wants_join();
        let Some(writer) = it.writer.as_mut().filter(ready) else { return Ok(()) };
        let (lsn, link) = writer.due();
        if it.takes_over {
            self.reader.catch_up(&self.stored)?;
            let known = writer.known();
            let mut read = Chain::default();
            let stored = self.stored.get(..usize::try_from(known.position).expect("small"));
            for bytes in stored.ok_or("an epoch was taken for stored that is not there")? {
                read.take(bytes).map_err(|error| error.to_string())?;
            }
            if it.guesses && !was_right(known, &read) {
                // Once more, from the beginning.
                it.guesses = false;
                it.took_at = None;
                it.incarnation += 1;
                let again = self.writer(index, Ground::TakeOver);
                self.machines[index].writer = Some(again);
                return Ok(());
            }
            // The rebuild: everything up to the epoch, and nothing behind it.
            it.takes_over = false;
            it.has_log = true;
            let (took_at, known) = (it.took_at.take().unwrap_or_default() as u64, writer.known());
            let others = self.reader.epochs.iter().filter(|(position, owner)| {
                *position > took_at && *position < known.position && *owner != known.owner
            });
            if others.count() > 0 {
                return Err("two that took over at the same time both won".to_owned());
            }
            let found = self.reader.found.iter().filter(|batch| batch.end() <= lsn.get());
            it.log = found.cloned().collect();
            it.end = (lsn.get(), link);
            if it.log.last().map_or((0, 0), |last| (last.end(), last.link)) != it.end {
                return Err(format!("the rebuilt log does not end at {lsn}"));
            }
            it.note = writer.known().clone();
        }
        if writer.wants_join() {
            let begins = it.log.first().map_or(it.end, |first| (first.lsn, first.link_before));
            let ends = it.log.iter().map(|batch| (batch.end(), batch.link));
            let before = std::iter::once(begins).chain(ends).find(|(end, _)| *end == lsn.get());
            writer.join(before.map(|(_, link)| link));
            return Ok(());
        }
        let first = it.log.first().map_or(it.end.0, |first| first.lsn);
        if lsn.get() < first {
            return Err(format!("the log was trimmed to {first}, but {lsn} is needed"));
        }
        let due = it.log.iter().find(|batch| batch.lsn == lsn.get());
        match due {
            Some(batch) => writer.offer(&batch.parcel()),
            None if lsn.get() == it.end.0 => {}
            // What the follower of a log refuses.
            None => self.crash(index),
        }
        Ok(())
    }

    fn act(&mut self, index: usize) -> Result<(), String> {
        let it = &mut self.machines[index];
        let Some(writer) = &mut it.writer else { return Ok(()) };
        if let Some(action) = writer.next_action() {
            if let Action::Append { bytes, .. } = &action
                && !it.takes_over
            {
                let (header, _) = Header::open(bytes)?;
                let begins = it.log.first().map_or(it.end, |first| (first.lsn, first.link_before));
                let mut ends = it.log.iter().map(|batch| (batch.end(), batch.link)).chain([begins]);
                let end = (header.lsn.get(), header.link_before);
                if header.kind == Kind::Epoch && !ends.any(|here| here == end) {
                    return Err("a log took an epoch that does not continue the chain".to_owned());
                }
            }
            if it.takes_over && matches!(action, Action::Append { .. }) && it.took_at.is_none() {
                it.took_at = Some(self.stored.len());
            }
            self.requests.push(Request { machine: index, incarnation: it.incarnation, action });
        }
        Ok(())
    }

    /// As a bucket that is restored to an earlier moment. What was acknowledged after that is lost, by nobody's fault here.
    fn set_back(&mut self, by: usize) -> Result<(), String> {
        self.may_lack = true;
        (0..self.machines.len()).for_each(|index| self.crash(index));
        (self.requests, self.answers, self.beyond) = Default::default();
        self.stored.truncate(self.stored.len() - by);
        self.reader = Reader { in_flight: self.in_flight as u64, ..Reader::default() };
        self.reader.catch_up(&self.stored)?;
        let found = &self.reader.found;
        self.promised.retain(|batch| found.contains(batch));
        let end = found.last().map_or(0, Batch::end);
        for it in &mut self.machines {
            it.promised = it.promised.min(end);
        }
        Ok(())
    }

    /// The note is written, and the log trimmed as far as it allows.
    fn note(&mut self, index: usize) {
        let it = &mut self.machines[index];
        let Some(writer) = it.writer.as_ref().filter(|writer| writer.is_shipping()) else { return };
        it.note = writer.known().clone();
        let needed = it.note.needed.get();
        it.log.retain(|batch| batch.lsn >= needed);
    }

    fn crash(&mut self, index: usize) {
        let it = &mut self.machines[index];
        it.writer = None;
        it.takes_over = false;
        it.incarnation += 1;
    }

    fn cut_tail(&mut self, index: usize) {
        self.crash(index);
        let it = &mut self.machines[index];
        if let Some(cut) = it.log.pop() {
            it.end = (cut.lsn, cut.link_before);
        }
    }

    fn arrive(&mut self, request: &Request, stale: bool) {
        let answer = match &request.action {
            Action::Append { position, number, bytes } => {
                let next = self.stored.len() as u64 + 1;
                let is_next = *position == next;
                let is_free = *position > next && self.beyond.iter().all(|(taken, _)| taken != position);
                let is_kept = is_next || (self.kind == Kept::Names && is_free);
                if is_next || self.kind == Kept::All {
                    self.stored.push(Arc::clone(bytes));
                } else if is_kept {
                    self.beyond.push((*position, Arc::clone(bytes)));
                }
                let outcome = if is_kept { Outcome::Stored } else { Outcome::refused("taken") };
                Answer::Append(*position, *number, outcome)
            }
            Action::Read { position } => {
                let seen = self.stored.len() - usize::from(stale && !self.stored.is_empty());
                let index = usize::try_from(*position - 1).expect("small");
                let beyond = self.beyond.iter().find(|(taken, _)| taken == position);
                let found = self.stored[..seen].get(index).or(beyond.map(|(_, bytes)| bytes));
                Answer::Read(*position, found.cloned())
            }
        };
        self.answers.push((request.machine, request.incarnation, answer));
    }

    fn answer(&mut self, (machine, incarnation, answer): (usize, u32, Answer)) {
        let it = &mut self.machines[machine];
        let Some(writer) = it.writer.as_mut().filter(|_| it.incarnation == incarnation) else { return };
        match answer {
            Answer::Append(position, number, outcome) => writer.outcome(position, number, outcome),
            Answer::Read(position, found) => writer.read(position, found.as_deref()),
        }
    }

    /// Commits that waited for the destination return.
    fn promise(&mut self) {
        for it in &mut self.machines {
            let acknowledged = it.writer.as_ref().map_or(0, |writer| writer.acknowledged().get());
            for batch in it.log.iter().filter(|batch| batch.lsn >= it.promised && batch.end() <= acknowledged)
            {
                self.promised.push(batch.clone());
            }
            it.promised = it.promised.max(acknowledged);
        }
    }

    fn judge(&mut self) -> Result<(), String> {
        self.reader.in_flight = self.in_flight as u64;
        self.reader.catch_up(&self.stored)?;
        for it in &self.machines {
            match it.writer.as_ref().and_then(Writer::ended) {
                Some(End::Damaged(position, what)) => {
                    return Err(format!("{position} counts as damaged, and nothing is: {what}"));
                }
                Some(end @ (End::Lost(_) | End::Altered(_))) if !self.may_lack => {
                    return Err(format!("nothing was lost, and a writer was told {end:?}"));
                }
                Some(End::Replaced(_))
                    if self.reader.epochs.iter().all(|(_, owner)| *owner == [it.mark; 16]) =>
                {
                    return Err("a writer was told that it was replaced, and nobody took over".to_owned());
                }
                _ => {}
            }
        }
        // Links make a line of batches known by its last one.
        match self.promised.iter().find(|batch| !self.reader.found.contains(batch)) {
            Some(lost) => Err(format!("acknowledged and lost: {lost:?}")),
            None => Ok(()),
        }
    }
}

/// A reader of the destination, and what it finds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Reader {
    chain: Chain,
    parts: Vec<u8>,
    found: Vec<Batch>,
    /// The positions of epochs, and who took them.
    epochs: Vec<(u64, Owner)>,
    /// How many messages a writer may have on their way.
    in_flight: u64,
}

impl Reader {
    /// Reads what was stored since, and holds each batch against those before it.
    fn catch_up(&mut self, stored: &[Arc<[u8]>]) -> Result<(), String> {
        let from = usize::try_from(self.chain.position).expect("small");
        for bytes in &stored[from..] {
            match self.chain.take(bytes).map_err(|error| error.to_string())? {
                Verdict::Ignored if !is_message(bytes) => {}
                Verdict::Ignored => {
                    let (header, _) = Header::open(bytes)?;
                    if self.chain.has_lost(&header, self.in_flight) {
                        return Err(format!("{header:?} is left over, and was taken for a proof of loss"));
                    }
                }
                Verdict::Next(header, _) if header.kind == Kind::Epoch => {
                    self.parts.clear();
                    let before = self.epochs.last().map_or(header.owner, |(_, owner)| *owner);
                    // The first machine never takes over.
                    if header.owner == [1; 16] && before != header.owner {
                        return Err("a writer that was replaced took the right back".to_owned());
                    }
                    self.epochs.push((self.chain.position, header.owner));
                }
                Verdict::Next(header, payload) => {
                    self.parts.extend_from_slice(&payload);
                    if header.part.0 + 1 == header.part.1 {
                        let bytes = std::mem::take(&mut self.parts);
                        let link_before = u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes"));
                        self.add(Batch { lsn: header.lsn.get(), link_before, link: header.link, bytes })?;
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, batch: Batch) -> Result<(), String> {
        let end = self.found.last().map_or((0, 0), |last| (last.end(), last.link));
        if (batch.lsn, batch.link_before) != end {
            return Err(format!("{batch:?} does not follow {end:?}"));
        }
        if self.found.iter().any(|other| other.bytes[..4] == batch.bytes[..4]) {
            return Err(format!("{batch:?} is there twice"));
        }
        self.found.push(batch);
        Ok(())
    }
}

/// A walk at random; at its end the network is calm.
fn walk(seed: u64) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let kind = [Kept::Next, Kept::All, Kept::Names][random.usize(..3)];
    let mut world = World::new(3, random.u32(0..25), 12, random.usize(1..5), kind);
    let steps = random.usize(40..260);
    // Each walk meets some kinds of harm only, so that the others do not end it before these have shown what they do.
    let kinds = random.u16(..) & (0xFF | (random.u16(..) << 8));
    for _ in 0..steps {
        let events = world.events();
        if events.is_empty() {
            break;
        }
        let event = events[random.usize(..events.len())];
        if event.harm().is_none_or(|kind| kinds & (1 << kind) != 0) {
            world.apply(event)?;
        }
    }
    world.calm()
}

impl World {
    /// Without any more harm every writer comes to an end, or to its acknowledgements.
    fn calm(&mut self) -> Result<(), String> {
        self.harm = 0;
        for index in 0..self.machines.len() {
            let it = &self.machines[index];
            if !it.lost && it.has_log && it.writer.is_none() {
                self.apply(Event::Start(index))?;
            }
        }
        for _ in 0..2000 {
            let mut quiet = self.requests.is_empty() && self.answers.is_empty();
            for index in 0..self.machines.len() {
                let before = self.machines[index].writer.clone();
                if before.as_ref().is_some_and(|writer| writer.ended().is_none()) {
                    self.offer(index)?;
                    self.act(index)?;
                    quiet &= before == self.machines[index].writer;
                }
            }
            if quiet {
                break;
            }
            if !self.requests.is_empty() {
                self.apply(Event::Arrive(0))?;
            }
            if !self.answers.is_empty() {
                self.apply(Event::Answer(0))?;
            }
        }
        for (index, it) in self.machines.iter().enumerate() {
            let Some(writer) = it.writer.as_ref().filter(|writer| writer.ended().is_none()) else { continue };
            if !writer.is_idle() || (it.has_log && writer.acknowledged().get() != it.end.0) {
                return Err(format!("machine {index} never gets its acknowledgements: {writer:?}"));
            }
        }
        Ok(())
    }
}

const SEEDS: u64 = 25_000;

#[test]
fn no_walk_loses_repeats_or_forks_anything() {
    let mut promised = 0;
    for seed in 0..SEEDS {
        if let Err(wrong) = walk(seed) {
            panic!("seed {seed}: {wrong}");
        }
        promised += 1;
    }
    assert_eq!(promised, SEEDS);
}

/// Every order of events in a small world, each state once.
fn look_at_every_state(kind: Kept, is_wide: bool) {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut states, mut seen) = (0_u64, HashSet::new());
    let mut open = vec![World { is_wide, ..World::new(2, 2, 2, 2, kind) }];
    let mut endings = 0;
    while let Some(world) = open.pop() {
        if states >= 200_000 {
            break;
        }
        for event in world.events() {
            let mut next = world.clone();
            if let Err(wrong) = next.apply(event) {
                panic!("{event:?} in {world:?}: {wrong}");
            }
            let mut hasher = DefaultHasher::new();
            next.hash(&mut hasher);
            if seen.insert(hasher.finish()) {
                states += 1;
                endings += u64::from(next.promised.len() == 2);
                open.push(next);
            }
        }
        // The states that are looked at next are drawn, so that the bound leaves out none for its place in the order.
        if open.len() > 1 {
            let (last, other) = (open.len() - 1, random.usize(..open.len()));
            open.swap(last, other);
        }
    }
    println!("{states} states, {endings} of them with everything acknowledged");
    assert!(
        states >= 150_000 && (is_wide || endings > 50),
        "{states} states, {endings} of them with everything acknowledged"
    );
}

#[test]
fn no_order_of_events_in_a_small_world_is_wrong() {
    look_at_every_state(Kept::Next, false);
}

#[test]
fn nor_where_the_destination_keeps_everything() {
    look_at_every_state(Kept::All, false);
}

#[test]
fn nor_where_it_takes_any_free_name() {
    look_at_every_state(Kept::Names, false);
}

#[test]
fn nor_where_machines_are_copied_and_the_destination_is_set_back() {
    look_at_every_state(Kept::Names, true);
}

#[cfg(feature = "mutants")]
mod planted {
    use super::{SEEDS, walk};
    use seawall_sys::planted::{Mutant, set};

    #[test]
    fn every_planted_bug_of_the_protocol_is_found() {
        let found = |mutant: Mutant| {
            set(Some(mutant));
            let at = (0..SEEDS).find_map(|seed| {
                let wrong = walk(seed).err()?;
                Some((seed, wrong))
            });
            set(None);
            at
        };
        let mut survivors = Vec::new();
        for mutant in seawall::mutant::FOUND_BY_MODEL {
            match found(mutant) {
                Some((seed, wrong)) => println!("{mutant:?} seed {seed}: {}", &wrong[..wrong.len().min(120)]),
                None => survivors.push(mutant),
            }
        }
        assert!(survivors.is_empty(), "{survivors:?}");
        assert!(seawall::mutant::FOUND_BY_MODEL.len() >= 10);
    }
}
