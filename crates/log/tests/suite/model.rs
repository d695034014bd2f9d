//! Tests random use of the whole public interface against a model, in processes that are killed.
//!
//! A run is a chain of lives of one log, each a process of its own (this test runs itself): it opens the log with other options,
//! holds what it finds against the model, does random things and checks every answer, and ends by a close, a drop or kill -9. What a
//! life is about to change, and where that ended, it writes into a journal beside the log, from which the next one knows what there
//! must be. Beside it the log rewrites its streams, and a thread commits and trims a stream of its own.
//!
//! `SEAWALL_MODEL_SECONDS=N` goes on from seed to seed for this long; `SEAWALL_MODEL_SEED=N` repeats one run.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixture::{PLAIN, Stops, child, id, orders, scratch};
use seawall::sim::rng::Rng;
use seawall::{
    Durability, Error, Follower, Hold, Log, Lsn, MethodChoice, Options, RECORD_HEADER_BYTES, Record,
    StreamId, StreamReader, View,
};
use seawall_sys::clock::monotonic_ns;

const LIVES: u64 = 12;
const STREAMS: u64 = 8;
/// The stream of the thread that commits beside the life.
const BESIDE: u32 = 900;
const TAG_BYTES: u64 = 12;
/// How late a hold that a trim had not looked for may still be passed by that trim.
const LATE_NS: u64 = 5_000_000_000;

fn one<T: Copy>(chance: &mut Rng, of: &[T]) -> T {
    of[chance.index(of.len())]
}

/// One record of a change: its stream, if it has one, its own number and its length.
type Item = (Option<u32>, u64, usize);

fn payload((_, id, length): Item) -> Vec<u8> {
    let mut payload = id.to_le_bytes().to_vec();
    payload.resize(length.max(8), id.to_le_bytes()[0]);
    payload
}

fn id_of(record: &Record) -> u64 {
    let id = u64::from_le_bytes(record.payload[..8].try_into().expect("8 bytes"));
    assert!(record.payload[8..].iter().all(|byte| *byte == id.to_le_bytes()[0]), "other bytes: {record:?}");
    id
}

/// What is done to a stream, with the number where it is trimmed or cut, or 0.
#[derive(Clone, Copy, Debug)]
enum Act {
    Trim,
    Cut,
    Remove,
}

const ACTS: [Act; 3] = [Act::Trim, Act::Cut, Act::Remove];

/// A cut of the log, or trims, cuts and removals of streams, each another one, with records after them.
#[derive(Clone, Debug, Default)]
struct Change {
    cut_log: Option<Lsn>,
    acts: Vec<(Act, u32, u64)>,
    items: Vec<Item>,
}

impl Change {
    /// Where it cuts a stream off, if it does.
    fn cuts(&self, stream: u32) -> Option<u64> {
        let cuts = |(act, of, _): &&(Act, u32, u64)| *of == stream && !matches!(act, Act::Trim);
        self.acts.iter().find(cuts).map(|(_, _, seq)| *seq)
    }

    /// As a line of the journal, which [`Self::parse`] reads back.
    fn line(&self) -> String {
        let cut = self.cut_log.map_or(u64::MAX, Lsn::get);
        let acts = self.acts.iter().map(|(act, stream, seq)| [*act as u64, (*stream).into(), *seq]);
        let items =
            self.items.iter().map(|(stream, id, length)| [stream.unwrap_or(0).into(), *id, *length as u64]);
        let numbers = [cut, self.acts.len() as u64].into_iter().chain(acts.chain(items).flatten());
        numbers.fold("change".to_owned(), |line, number| line + " " + &number.to_string())
    }

    fn parse(numbers: &[u64]) -> Self {
        let small = |number: u64| usize::try_from(number).expect("small");
        let stream = |number: u64| u32::try_from(number).expect("small");
        let (acts, items) = numbers[2..].split_at(3 * small(numbers[1]));
        let act = |act: &[u64]| (ACTS[small(act[0])], stream(act[1]), act[2]);
        let item = |item: &[u64]| (Some(stream(item[0])).filter(|of| *of > 0), item[1], small(item[2]));
        Self {
            cut_log: Some(numbers[0]).filter(|lsn| *lsn < u64::MAX).map(Lsn::new),
            acts: acts.chunks(3).map(act).collect(),
            items: items.chunks(3).map(item).collect(),
        }
    }
}

/// A stream: the number of its first record and of the next one, and what each is and where it ended when it was appended.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    first: u64,
    next: u64,
    records: BTreeMap<u64, (u64, Lsn)>,
}

/// What there is when so much of the log is there.
#[derive(Clone, Debug, Default)]
struct State {
    /// The records of no stream, by where they start.
    plain: BTreeMap<Lsn, (u64, Lsn)>,
    streams: BTreeMap<u32, Model>,
}

impl State {
    fn apply(&mut self, change: &Change, end: Lsn) {
        if let Some(from) = &change.cut_log {
            self.plain.split_off(from);
        }
        for (act, stream, seq) in &change.acts {
            if let Act::Remove = act {
                self.streams.remove(stream);
                continue;
            }
            let stream = self.streams.get_mut(stream).expect("it is there");
            let behind = stream.records.split_off(seq);
            if let Act::Trim = act {
                (stream.first, stream.records) = (*seq, behind);
            } else {
                stream.next = *seq;
            }
        }
        let bytes = |item: &Item| {
            let tag = if item.0.is_some() { TAG_BYTES } else { 0 };
            (RECORD_HEADER_BYTES + item.2.max(8)) as u64 + tag
        };
        let mut start = end.get() - change.items.iter().map(bytes).sum::<u64>();
        for item in &change.items {
            if let Some(stream) = item.0 {
                let stream = self.streams.entry(stream).or_default();
                stream.records.insert(stream.next, (item.1, end));
                stream.next += 1;
            } else {
                self.plain.insert(Lsn::new(start), (item.1, end));
            }
            start += bytes(item);
        }
    }
}

/// What is known outside of the log.
#[derive(Debug, Default)]
struct Past {
    base: State,
    changes: Vec<(Change, Option<Lsn>)>,
    /// Everything before this is due, however the process ended.
    due: Lsn,
    trimmed: Lsn,
    hold: Option<Lsn>,
    ids: u64,
}

impl Past {
    /// What is there when everything before `end` is; what a life did not live to see ends at `pending`, if it is there.
    fn state(&self, end: Lsn, pending: Option<Lsn>) -> State {
        let mut state = self.base.clone();
        for (change, ended) in &self.changes {
            if let Some(ended) = ended.or(pending).filter(|ended| *ended <= end) {
                state.apply(change, ended);
            }
        }
        state
    }

    /// Where the change ended that a life did not live to see, if it is there.
    fn end_of_pending(&self, log: &Log) -> Lsn {
        let end = log.appended_lsn();
        let pending = self.changes.last().filter(|(_, ended)| ended.is_none());
        let Some(last) = pending.and_then(|(change, _)| change.items.last()).map(|item| item.1) else {
            return end;
        };
        let mut records = log.read(log.first_lsn()).expect("reads").map(|record| record.expect("is sound"));
        records.find(|record| id_of(record) == last).map_or(end, |record| record.end)
    }

    fn line(&mut self, line: &str) {
        let mut words = line.split(' ');
        let what = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
        let lsn = Lsn::new(numbers.first().copied().unwrap_or_default());
        match what {
            "change" => {
                let change = Change::parse(&numbers);
                self.ids = change.items.iter().map(|item| item.1 + 1).fold(self.ids, u64::max);
                self.changes.push((change, None));
            }
            "end" => self.changes.last_mut().expect("begun").1 = Some(lsn),
            "nothing" => drop(self.changes.pop()),
            "due" => self.due = self.due.max(lsn),
            "trim" => self.trimmed = self.trimmed.max(lsn),
            "hold" => self.hold = numbers.first().map(|_| lsn),
            "opened" => {
                let state = self.state(lsn, None);
                (self.base, self.due) = (state, lsn);
                self.changes.clear();
            }
            other => panic!("{other} in the journal"),
        }
    }
}

/// Whether `found`, from one record on, is what there is of `expected`: what ended before `durable` is there, nothing out of turn is.
fn check(what: &str, expected: &[(u64, Lsn)], found: &[u64], durable: Lsn) {
    let ids: Vec<u64> = expected.iter().map(|(id, _)| *id).collect();
    let due = expected.iter().take_while(|(_, end)| *end <= durable).count();
    let ok = found.len() >= due && ids.starts_with(found);
    assert!(ok, "{what}: found {found:?} of {expected:?}, everything before {durable} is durable");
}

fn plain_ids(records: impl Iterator<Item = seawall::Result<Record>>) -> Vec<u64> {
    let records = records.map(|record| record.expect("is sound"));
    records.filter(|record| record.stream.is_none()).map(|record| id_of(&record)).collect()
}

/// What a log that was just opened holds; whether that is the state.
fn holds(log: &Log, state: &State) -> Result<(), String> {
    // What streams let go may move the first LSN at any moment.
    let (first, _pin) = loop {
        let first = log.first_lsn();
        if let Ok(pin) = log.pin(first) {
            break (first, pin);
        }
    };
    let expected: Vec<u64> = state.plain.range(first..).map(|(_, (id, _))| *id).collect();
    let found = plain_ids(log.read(first).map_err(|error| error.to_string())?);
    if found != expected {
        return Err(format!("records of no stream from {first} on: {found:?} and not {expected:?}"));
    }
    let streams: Vec<u32> = log.streams().into_iter().map(StreamId::get).filter(|id| *id != BESIDE).collect();
    if streams != state.streams.keys().copied().collect::<Vec<_>>() {
        return Err(format!("streams {streams:?} and not {:?}", state.streams.keys()));
    }
    for (number, model) in &state.streams {
        let stream = log.stream(id(*number));
        let read = stream.read(stream.first_seq()).map_err(|error| error.to_string())?;
        let found: Vec<u64> = read.map(|record| id_of(&record.expect("is sound"))).collect();
        let expected: Vec<u64> = model.records.values().map(|(id, _)| *id).collect();
        let bounds = (stream.first_seq(), stream.next_seq());
        if (bounds, &found) != ((model.first, model.next), &expected) {
            return Err(format!("stream {number}: {bounds:?} {found:?} and not {model:?}"));
        }
    }
    Ok(())
}

/// One life.
struct Life {
    chance: Rng,
    past: Past,
    journal: File,
    /// What there is now, durable or not.
    now: State,
    /// Each with its stream, and whether that was cut where it had read.
    readers: Vec<(u32, StreamReader, bool)>,
    follower: Option<(Follower, Lsn)>,
    /// Whether the log promises to outlive power loss.
    is_durable: bool,
    /// When a hold was written last, in nanoseconds.
    held_ns: u64,
}

impl Life {
    fn note(&mut self, line: &str) {
        // In one write, so that a kill leaves whole lines.
        self.journal.write_all(format!("{line}\n").as_bytes()).expect("writes");
        self.past.line(line);
    }

    /// Does a change, stated before and after it.
    fn change(&mut self, log: &Log, change: &Change) {
        let line = change.line();
        self.note(&line);
        let done = match (change.cut_log, &change.acts[..], &change.items[..]) {
            (Some(from), ..) => log.truncate_after(from),
            (_, [], [item @ (None, ..)]) => log.append(&payload(*item)).map(|placed| placed.end),
            (_, [], [item @ (Some(stream), ..)]) => {
                log.stream(id(*stream)).append(&payload(*item)).map(|appended| {
                    let next = self.now.streams.get(stream).map_or(0, |model| model.next);
                    assert_eq!(appended.seq, next, "the number of a record in stream {stream}");
                    appended.end
                })
            }
            (_, [(Act::Trim, stream, seq)], []) => log.stream(id(*stream)).trim(*seq),
            (_, [(Act::Cut, stream, seq)], []) => log.stream(id(*stream)).truncate(*seq),
            (_, [(Act::Remove, stream, _)], []) => log.stream(id(*stream)).remove(),
            (_, acts, items) => log.transaction::<Error>(|tx| {
                acts.iter().try_for_each(|(act, stream, seq)| match act {
                    Act::Trim => tx.trim(id(*stream), *seq),
                    Act::Cut => tx.truncate(id(*stream), *seq),
                    Act::Remove => tx.remove(id(*stream)),
                })?;
                items.iter().try_for_each(|item| match item.0 {
                    None => tx.append(&payload(*item)),
                    Some(stream) => tx.append_to(id(stream), &payload(*item)),
                })
            }),
        };
        for (stream, reader, cut) in &mut self.readers {
            *cut |= done.is_ok() && change.cuts(*stream).is_some_and(|seq| seq < reader.next_seq());
        }
        let end = match done {
            Ok(end) => end,
            // It was trimmed by itself, between the look and this.
            Err(Error::Trimmed { .. }) if change.cut_log.is_some() => return self.note("nothing"),
            Err(error) => panic!("{line}: {error}"),
        };
        self.note(&format!("end {end}"));
        self.now.apply(change, end);
    }

    fn items(&mut self, count: u64) -> Vec<Item> {
        let item = |life: &mut Self, at: u64| {
            let stream = u32::try_from(life.chance.below(STREAMS + 2)).expect("small");
            let length = one(&mut life.chance, &[8, 20, 100, 400, 3000, 12_000]);
            (
                Some(stream).filter(|stream| u64::from(*stream) < STREAMS && *stream > 0),
                life.past.ids + at,
                length,
            )
        };
        (0..count).map(|at| item(self, at)).collect()
    }

    fn append(&mut self, log: &Log, count: u64) {
        let items = self.items(count);
        self.change(log, &Change { items, ..Change::default() });
    }

    /// Trims, cuts and removes some streams and appends after that, in one transaction.
    fn change_streams(&mut self, log: &Log) {
        let (mut acts, streams) = (Vec::new(), self.now.streams.clone());
        for (stream, model) in streams {
            let seq = model.first + self.chance.below(model.next - model.first + 1);
            if self.chance.below(3) == 0 {
                let act = one(&mut self.chance, &[Act::Trim, Act::Trim, Act::Cut, Act::Remove]);
                acts.push((act, stream, if matches!(act, Act::Remove) { 0 } else { seq }));
            }
        }
        let count = 1 + self.chance.below(3);
        let items = self.items(count);
        self.change(log, &Change { acts, items, ..Change::default() });
    }

    fn any_stream(&mut self) -> Option<(u32, Model)> {
        let all: Vec<_> = self.now.streams.keys().copied().collect();
        let one = (!all.is_empty()).then(|| one(&mut self.chance, &all))?;
        Some((one, self.now.streams[&one].clone()))
    }

    fn change_stream(&mut self, log: &Log) {
        let Some((stream, model)) = self.any_stream() else { return };
        let seq = model.first + self.chance.below(model.next - model.first + 1);
        let act = match self.chance.below(8) {
            0 => (Act::Remove, stream, 0),
            1..=3 if seq != model.next => (Act::Cut, stream, seq),
            _ if seq > model.first => (Act::Trim, stream, seq),
            _ => return,
        };
        self.change(log, &Change { acts: vec![act], ..Change::default() });
    }

    fn commit(&mut self, log: &Log) {
        let end = log.appended_lsn();
        match self.chance.below(3) {
            0 => log.commit(end).expect("commits"),
            1 => log.commit_as(end, Durability::ProcessCrash).expect("commits"),
            _ => assert!(log.commit_async(end).wait().expect("commits") >= end),
        }
        self.note(&format!("due {end}"));
    }

    /// Reads a stream in every way, while it is rewritten.
    fn read(&mut self, log: &Log) {
        let Some((number, model)) = self.any_stream() else { return };
        let stream = log.stream(id(number));
        let from = model.first + self.chance.below(model.next - model.first + 1);
        let expected: Vec<_> = model.records.range(from..).map(|(_, record)| *record).collect();
        let durable = log.durable_lsn();
        let found = stream.read(from).expect("it is there").map(|record| id_of(&record.expect("is sound")));
        check(&format!("stream {number} from {from}"), &expected, &found.collect::<Vec<_>>(), durable);
        if let Some((id, end)) = expected.first() {
            let durable = log.durable_lsn();
            match stream.get(from) {
                Ok(record) => assert_eq!(id_of(&record), *id, "stream {number}, record {from}"),
                Err(Error::StreamEnd { .. }) if *end > durable => {}
                Err(error) => panic!("stream {number}, record {from}: {error}"),
            }
        }
        if self.readers.len() < 4 {
            self.readers.push((number, stream.read(from).expect("it is there"), false));
        }
        let at = self.chance.index(self.readers.len());
        let (number, mut reader, cut) = self.readers.swap_remove(at);
        let model = self.now.streams.get(&number).cloned().unwrap_or_default();
        let (seq, durable) = (reader.next_seq(), log.durable_lsn());
        let due = model.records.get(&seq);
        match reader.next_record() {
            Err(Error::StreamEnd { .. }) if cut => return,
            read if cut => panic!("stream {number} was cut in front of {seq}: {read:?}"),
            Ok(Some(record)) => {
                assert_eq!(Some(id_of(&record)), due.map(|(id, _)| *id), "stream {number}, record {seq}");
            }
            Ok(None) => {
                assert!(due.is_none_or(|(_, end)| *end > durable), "stream {number}: no record {seq}");
            }
            Err(Error::StreamTrimmed { .. }) if seq < model.first => return,
            Err(error) => panic!("stream {number}, record {seq}: {error}"),
        }
        self.readers.push((number, reader, false));
    }

    /// Follows the records of no stream.
    fn follow(&mut self, log: &Log) {
        let first = log.first_lsn();
        let Ok(mut follower) =
            self.follower.take().map_or_else(|| log.follow(first).map(|new| (new, first)), Ok)
        else {
            return;
        };
        for _ in 0..20 {
            let durable = log.durable_lsn();
            let (from, now) = (follower.1, &self.now);
            let mut next = now.plain.range(from..);
            let record = match follower.0.try_next_record() {
                Ok(record) => record,
                // It was overtaken by a trim.
                Err(Error::Trimmed { .. }) => return,
                Err(error) => panic!("from {from}: {error}"),
            };
            let Some(record) = record else {
                let missed = next.next().filter(|(_, (_, end))| *end <= durable);
                assert!(missed.is_none(), "{missed:?} from {from} on is not followed");
                break;
            };
            if record.stream.is_none() {
                let expected = next.next().map(|(lsn, (id, _))| (*lsn, *id));
                let found = Some((record.lsn, id_of(&record)));
                assert_eq!(found, expected, "followed from {from} on, the log begins at {}", log.first_lsn());
            }
            follower.1 = record.end;
        }
        self.follower = Some(follower);
    }

    /// Another process's look, and a copy that is opened.
    fn look_from_outside(&mut self, log: &Log, dir: &Path) {
        let due = self.past.due.min(log.durable_lsn());
        let view = match View::open(dir) {
            Ok(view) => view,
            Err(error) => panic!("a view: {error}"),
        };
        // In a log that promises less a view shows what is known to be durable.
        let known = if self.is_durable { due } else { Lsn::ZERO };
        assert!(view.end_lsn() >= known, "a view ends at {} before {due}", view.end_lsn());
        let expected = self.past.state(view.end_lsn(), None);
        let records = view.read(view.first_lsn()).and_then(Iterator::collect::<seawall::Result<Vec<_>>>);
        if let Ok(records) = records {
            let found = plain_ids(records.into_iter().map(Ok));
            let expected: Vec<u64> =
                expected.plain.range(view.first_lsn()..).map(|(_, (id, _))| *id).collect();
            assert_eq!(found, expected, "a view from {} to {}", view.first_lsn(), view.end_lsn());
        }
        let copy = dir.with_extension("copy");
        // What a killed life left there.
        let _ = std::fs::remove_dir_all(&copy);
        log.backup(&copy).expect("copies");
        let plain = MethodChoice::Named("buffered+fdatasync".to_owned());
        let options = Options::default().segment_bytes(64 << 10).method(plain);
        let copied = Log::open(&copy, options).expect("a copy opens");
        let end = copied.appended_lsn();
        assert!(end >= due, "a copy ends at {end} before {due}");
        holds(&copied, &self.past.state(end, None))
            .unwrap_or_else(|wrong| panic!("a copy up to {end}: {wrong}"));
        drop(copied);
        std::fs::remove_dir_all(copy).expect("removed");
    }

    fn check_first(&mut self, log: &Log) {
        let first = log.first_lsn();
        let kept = self.now.plain.range(self.past.trimmed..).next().map(|(lsn, _)| *lsn);
        assert!(
            kept.is_none_or(|kept| first <= kept),
            "{kept:?} was never trimmed, and the log begins at {first}"
        );
        if let Some(hold) = self.past.hold.filter(|hold| *hold < first) {
            let late = monotonic_ns() - self.held_ns < LATE_NS;
            assert!(late, "{hold} is held, and the log begins at {first}");
            // A trim that had begun before.
            self.note("hold");
        }
    }

    fn hold(&mut self, log: &Log, dir: &Path) {
        if self.chance.below(3) == 0 {
            Hold::remove(dir, "model").expect("removes");
            return self.note("hold");
        }
        let lsn = if self.chance.below(2) == 0 { log.first_lsn() } else { log.durable_lsn() };
        if self.past.hold.is_some_and(|held| held > lsn) {
            return;
        }
        Hold { lsn, note: String::new() }.write(dir, "model").expect("writes");
        self.held_ns = monotonic_ns();
        self.note(&format!("hold {lsn}"));
    }

    fn act(&mut self, log: &Log, dir: &Path) {
        match self.chance.below(40) {
            0..=9 => self.append(log, 1),
            10..=12 => {
                let count = 2 + self.chance.below(6);
                self.append(log, count);
            }
            13..=18 => self.commit(log),
            19..=21 => self.change_stream(log),
            22 => self.change_streams(log),
            23 => {
                let ends: Vec<Lsn> =
                    self.now.plain.range(log.first_lsn()..).map(|(_, (_, end))| *end).collect();
                if let Some(from) = (!ends.is_empty()).then(|| one(&mut self.chance, &ends)) {
                    self.change(log, &Change { cut_log: Some(from), ..Change::default() });
                }
            }
            24 | 25 => {
                let back = self.chance.below(200_000);
                let lsn = Lsn::new(log.durable_lsn().get().saturating_sub(back));
                self.note(&format!("trim {lsn}"));
                let _pin = log.pin(log.first_lsn()).ok().filter(|_| back.is_multiple_of(2));
                log.trim(lsn).expect("trims");
            }
            26 => self.hold(log, dir),
            27 if self.chance.below(4) == 0 => self.look_from_outside(log, dir),
            28..=30 => self.follow(log),
            _ => self.read(log),
        }
        self.check_first(log);
    }
}

fn options(chance: &mut Rng, class: Durability) -> Options {
    Options::default()
        .durability(class)
        .segment_bytes(one(chance, &[64 << 10, 128 << 10, 256 << 10]))
        .batch_bytes(one(chance, &[4 << 10, 16 << 10, 32 << 10]))
        .memory_bytes(one(chance, &[64 << 10, 256 << 10]))
        .crash_memory_bytes(one(chance, &[0, 64 << 10, 1 << 20]))
        .idle_mark(Duration::from_millis(one(chance, &[1, 20, 60_000])))
        .in_flight_max(one(chance, &[1, 2, 4]))
        .method(MethodChoice::Named(
            one(chance, &["direct+dsync", "buffered+fdatasync", "buffered+fsync"]).to_owned(),
        ))
}

/// The process of one life.
#[test]
fn life() {
    let Some(life) = orders() else { return };
    let [folder, seed]: [&str; 2] = life.split('\n').collect::<Vec<_>>().try_into().expect("two lines");
    let (dir, journal) = (Path::new(folder).join("log"), Path::new(folder).join("journal"));
    let mut past = Past::default();
    if let Ok(text) = std::fs::read_to_string(&journal) {
        text.lines().for_each(|line| past.line(line));
    }
    let mut chance = Rng::new(seed.parse().expect("a number"));
    let class = one(
        &mut chance,
        &[Durability::PowerLoss, Durability::PowerLoss, Durability::SystemCrash, Durability::ProcessCrash],
    );
    let options = options(&mut chance, class);
    let log = Log::open(&dir, options.clone()).unwrap_or_else(|error| panic!("{options:?}: {error}"));
    let end = log.appended_lsn();
    assert!(end >= past.due, "the log ends at {end}, due is {}; {:?}", past.due, log.opened());
    let ended = past.end_of_pending(&log);
    let wrong = |pending| holds(&log, &past.state(end, pending)).err();
    let pending = match (wrong(None), wrong(Some(ended))) {
        (None, _) => None,
        (_, None) => Some(ended),
        (Some(without), Some(with)) => panic!("{options:?}: {:?}\n{without}\nor {with}", log.opened()),
    };
    // A kill may come between the move of a hold and the word of it.
    past.hold = Hold::read(&dir, "model").expect("reads").map(|hold| hold.lsn);
    let journal = OpenOptions::new().append(true).create(true).open(journal).expect("opens");
    let now = past.state(end, pending);
    let is_durable = class == Durability::PowerLoss;
    let mut life =
        Life { is_durable, chance, past, journal, now, readers: Vec::new(), follower: None, held_ns: 0 };
    if let Some(ended) = pending {
        life.note(&format!("end {ended}"));
    } else if life.past.changes.last().is_some_and(|(_, ended)| ended.is_none()) {
        life.note("nothing");
    }
    life.note(&format!("opened {end}"));
    println!("ready");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stream = log.stream(id(BESIDE));
            // So few that a log which is held does not grow from life to life.
            for _ in (0..300).take_while(|_| !stop.load(Ordering::Relaxed)) {
                let appended = stream.append_commit(&[1; 15_000]).expect("commits");
                stream.trim(appended.seq).expect("trims");
            }
        });
        let _stops = Stops(&stop);
        for _ in 0..400 {
            life.act(&log, &dir);
        }
    });
    if life.chance.below(2) == 0 {
        let end = log.appended_lsn();
        log.close().expect("closes");
        life.note(&format!("due {end}"));
    }
}

/// Lives of one log, until it has had enough of them or that time has come.
fn run(seed: u64, until_ns: u64) {
    let dir = scratch();
    let mut chance = Rng::new(seed);
    for life in 0..LIVES {
        let orders = format!("{}\n{}", dir.path().display(), chance.below(u64::MAX));
        let mut child = child(PLAIN, "model::life", &orders)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let killed = chance.below(2) == 0;
        if killed {
            let mut lines =
                BufReader::new(child.stdout.take().expect("is piped")).lines().map_while(Result::ok);
            let wait = chance.below(400);
            if lines.any(|line| line == "ready") {
                std::thread::sleep(Duration::from_millis(wait));
            }
            child.kill().expect("kills");
            drop(lines);
        }
        let done = child.wait_with_output().expect("ends");
        let errors = String::from_utf8_lossy(&done.stderr);
        let sound = if killed { !errors.contains("panicked") } else { done.status.success() };
        assert!(sound, "repeat with SEAWALL_MODEL_SEED={seed}, life {life}: {}\n{errors}", done.status);
        if monotonic_ns() >= until_ns {
            return;
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text}")))
}

#[test]
fn the_log_is_what_the_model_is() {
    let seconds = number("SEAWALL_MODEL_SECONDS").unwrap_or(10);
    let until_ns = monotonic_ns() + seconds * 1_000_000_000;
    let mut seed = number("SEAWALL_MODEL_SEED").unwrap_or(1);
    while monotonic_ns() < until_ns {
        run(seed, until_ns);
        seed += 1;
    }
    println!("{seconds} s, up to seed {seed}");
}
