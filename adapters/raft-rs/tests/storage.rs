//! Tests that a store shows what was appended, whatever came before, and shows it again when it was opened again.
//!
//! Nodes of several groups in one log follow leaders of ever new terms, which the tests play: they send entries that replace others, and
//! snapshots. A model of a few lines has to agree with the store about every index after every step.

use std::path::Path;
use std::sync::Arc;

use raft::eraftpb::{ConfState, Entry, HardState, Message, MessageType, Snapshot, SnapshotMetadata};
use raft::{Config, GetEntriesContext, RawNode, Storage, StorageError};
use seawall::faults::Faults;
use seawall::{Log, Lsn, MethodChoice, Stream, StreamId};
use seawall_raft_rs::{Error, Groups, Options, Store};

fn options() -> Options {
    let options = Options::default().segment_bytes(64 << 10).batch_bytes(16 << 10).memory_bytes(64 << 10);
    options.method(MethodChoice::Named("buffered+fdatasync".to_owned()))
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn open(dir: &Path, keep_bytes: usize) -> Groups {
    Groups::new(Arc::new(Log::open(dir, options()).expect("opens")), keep_bytes)
}

fn stream(groups: &Groups, number: u32) -> Stream<'_> {
    groups.log().stream(StreamId::new(number).expect("is one"))
}

fn meta(index: u64, term: u64) -> SnapshotMetadata {
    let mut meta = SnapshotMetadata { index, term, ..SnapshotMetadata::default() };
    meta.set_conf_state(ConfState::from((vec![1, 2, 3], vec![4 + index % 5])));
    meta
}

fn store(groups: &Groups, group: u32, applied: &SnapshotMetadata) -> Result<Store, Error> {
    let own = applied.clone();
    groups.store(group, applied, move |_, _| {
        let mut snapshot = Snapshot::default();
        snapshot.set_metadata(own.clone());
        Ok(snapshot)
    })
}

fn node(store: &Store, applied: u64) -> RawNode<Store> {
    let logger = slog::Logger::root(slog::Discard, slog::o!());
    RawNode::new(&Config { id: 1, applied, ..Config::default() }, store.clone(), &logger).expect("is valid")
}

fn at(number: u64) -> usize {
    usize::try_from(number).expect("is small")
}

/// What an entry of this place holds, whoever sends it.
fn entry(term: u64, index: u64) -> Entry {
    let mut entry = Entry { term, index, ..Entry::default() };
    entry.set_data(format!("{term}/{index}").repeat(1 + at(index % 9)).into());
    entry.set_context(vec![7; at(index % 3)].into());
    entry
}

/// What a store must have.
struct Model {
    cut: (u64, u64),
    /// The terms of the entries after that.
    terms: Vec<u64>,
    hard: HardState,
    conf: ConfState,
}

impl Model {
    /// That of a new group.
    fn new() -> Self {
        let hard = HardState { term: 1, commit: 1, ..HardState::default() };
        Self { cut: (1, 1), terms: Vec::new(), hard, conf: meta(1, 1).take_conf_state() }
    }

    fn last(&self) -> u64 {
        self.cut.0 + self.terms.len() as u64
    }

    fn term(&self, index: u64) -> u64 {
        index.checked_sub(self.cut.0 + 1).map_or(self.cut.1, |behind| self.terms[at(behind)])
    }

    /// Takes over what a node is ready with.
    fn take(&mut self, ready: &raft::Ready) {
        let snapshot = ready.snapshot().get_metadata();
        if snapshot.index > 0 {
            (self.cut, self.terms) = ((snapshot.index, snapshot.term), Vec::new());
            self.conf = snapshot.get_conf_state().clone();
        }
        if let Some(first) = ready.entries().first() {
            self.terms.truncate(at(first.index - self.cut.0 - 1));
            self.terms.extend(ready.entries().iter().map(|entry| entry.term));
        }
        self.hard = ready.hs().cloned().unwrap_or_else(|| self.hard.clone());
    }

    fn check(&self, store: &Store) {
        let (first, last) = (self.cut.0 + 1, self.last());
        assert_eq!(store.first_index(), Ok(first));
        assert_eq!(store.last_index(), Ok(last));
        let state = store.initial_state().expect("is there");
        assert_eq!((state.hard_state, state.conf_state), (self.hard.clone(), self.conf.clone()));
        for index in first - 1..=last {
            assert_eq!(store.term(index), Ok(self.term(index)), "of {index}");
        }
        let all: Vec<_> = (first..=last).map(|index| entry(self.term(index), index)).collect();
        let entries = |low, high, size| store.entries(low, high, size, GetEntriesContext::empty(false));
        assert_eq!(entries(first, last + 1, None), Ok(all.clone()));
        let from = all.len() / 3;
        let few = entries(first + from as u64, last + 1, Some(200)).expect("are there");
        assert!(
            few[..] == all[from..from + few.len()] && few.len() <= 15 && few.is_empty() == all.is_empty()
        );
        assert_eq!(entries(first - 1, last + 1, None), Err(StorageError::Compacted.into()));
        assert_eq!(entries(first, last + 2, None), Err(StorageError::Unavailable.into()));
        assert_eq!(store.term(last + 1), Err(StorageError::Unavailable.into()));
        if first > 1 {
            assert_eq!(store.term(first - 2), Err(StorageError::Compacted.into()));
        }
    }
}

/// A node with its store, and what the store must have.
struct Member {
    group: u32,
    store: Store,
    node: RawNode<Store>,
    model: Model,
    /// What is not durable yet: the number of the last `Ready`, and its end.
    pending: Option<(u64, Lsn)>,
}

impl Member {
    fn new(groups: &Groups, group: u32, applied: &SnapshotMetadata, model: Model) -> Self {
        let store = store(groups, group, applied).expect("opens");
        Self { group, node: node(&store, applied.index), store, model, pending: None }
    }

    /// Appends all that the node is ready with; `waits` for it to be durable, or leaves that for later.
    fn advance(&mut self, groups: &Groups, waits: bool) {
        while self.node.has_ready() {
            let ready = self.node.ready();
            self.model.take(&ready);
            // The log may append as well, to keep what a stream lags behind with.
            let ends = [0, 1].map(|which| stream(groups, 2 * self.group + which).next_seq());
            self.pending = Some((ready.number(), self.store.append(&ready).expect("is accepted")));
            let grown = ends != [0, 1].map(|which| stream(groups, 2 * self.group + which).next_seq());
            assert_eq!(grown, ready.must_sync(), "a commit index is worth no write");
            self.model.check(&self.store);
            self.node.advance_append_async(ready);
            if waits {
                self.persist(groups);
            }
        }
    }

    fn persist(&mut self, groups: &Groups) {
        let Some((number, end)) = self.pending.take() else { return };
        groups.log().commit(end).expect("becomes durable");
        self.node.on_persist_ready(number);
    }

    /// A leader sends entries after any that may be replaced, or a snapshot beyond the commit index.
    fn hear(&mut self, random: &mut fastrand::Rng) {
        let (committed, last) = (self.model.hard.commit, self.model.last());
        let term = self.model.hard.term + random.u64(..2);
        let mut message = Message { from: 2, to: 1, term, ..Message::default() };
        if random.u8(..12) == 0 {
            message.set_msg_type(MessageType::MsgSnapshot);
            message.mut_snapshot().set_metadata(meta(committed + random.u64(1..40), term));
        } else {
            message.set_msg_type(MessageType::MsgAppend);
            message.index = random.u64(committed..=last);
            message.log_term = self.model.term(message.index);
            let end = message.index + random.u64(..30);
            message.set_entries((message.index + 1..=end).map(|index| entry(term, index)).collect());
            message.commit = random.u64(committed..=end.max(committed));
        }
        self.node.step(message).expect("is heard");
    }
}

#[test]
fn stores_agree_with_a_model_also_when_opened_again() {
    for seed in 0..12 {
        let (mut random, dir) = (fastrand::Rng::with_seed(seed), scratch());
        let keep_bytes = [0, 4 << 10, 1 << 20][at(seed % 3)];
        let mut groups = open(dir.path(), keep_bytes);
        let new = |group| Member::new(&groups, group, &meta(1, 1), Model::new());
        let mut members: Vec<_> = [0, 5, 77].map(new).into();
        let mut replaced = 0;
        for _ in 0..600 {
            let chosen = random.usize(..members.len());
            let member = &mut members[chosen];
            match random.u8(..20) {
                0 => {
                    groups.log().commit(groups.log().appended_lsn()).expect("becomes durable");
                    let left: Vec<_> = members.drain(..).map(|member| (member.group, member.model)).collect();
                    drop(groups);
                    groups = open(dir.path(), keep_bytes);
                    assert_eq!(groups.ids(), [0, 5, 77]);
                    for (group, mut model) in left {
                        let applied = random.u64(model.cut.0..=model.hard.commit.min(model.last()));
                        let applied = meta(applied, model.term(applied));
                        let found = store(&groups, group, &applied).expect("opens").initial_state();
                        // Raft finds out again what was committed; no less than the host has applied.
                        let commit = found.expect("is there").hard_state.commit;
                        assert!((applied.index..=model.hard.commit).contains(&commit));
                        (model.hard.commit, model.conf) = (commit, applied.get_conf_state().clone());
                        members.push(Member::new(&groups, group, &applied, model));
                    }
                    for member in &members {
                        member.model.check(&member.store);
                    }
                }
                1..=3 => {
                    member.persist(&groups);
                    let model = &mut member.model;
                    let first = random.u64(model.cut.0 + 1..=model.hard.commit + 1);
                    member.store.compact(first).expect("is accepted");
                    let term = model.term(first - 1);
                    model.terms.drain(..at(first - 1 - model.cut.0));
                    model.cut = (first - 1, term);
                    model.check(&member.store);
                }
                _ => {
                    let before = member.model.last();
                    member.hear(&mut random);
                    member.advance(&groups, random.bool());
                    replaced += u64::from(member.model.last() < before);
                }
            }
        }
        assert!(replaced > 5, "{replaced} logs were cut short");
        for group in [0, 5, 77] {
            let states = stream(&groups, 2 * group + 1);
            assert!(
                states.next_seq() > 64 && states.next_seq() - states.first_seq() <= 64,
                "old states stay"
            );
        }
    }
}

#[test]
fn a_ready_that_is_too_large_for_a_transaction_takes_several() {
    let dir = scratch();
    let open = || Log::open(dir.path(), options().record_bytes_max(2 << 20)).expect("opens");
    let groups = Groups::new(Arc::new(open()), 0);
    let store_of = |groups: &Groups| store(groups, 0, &meta(1, 1)).expect("opens");
    let mut node = node(&store_of(&groups), 1);
    let large = |index| Entry { data: vec![7; 700 << 10].into(), ..entry(2, index) };
    let mut message = Message { from: 2, to: 1, term: 2, index: 1, log_term: 1, ..Message::default() };
    message.set_msg_type(MessageType::MsgAppend);
    message.set_entries((2..9).map(large).collect());
    node.step(message).expect("is heard");
    let ready = node.ready();
    groups.log().commit(node.store().append(&ready).expect("is accepted")).expect("becomes durable");
    drop((node, groups));
    let groups = Groups::new(Arc::new(open()), 0);
    let found = store_of(&groups).entries(2, 9, None, GetEntriesContext::empty(false));
    assert_eq!(found, Ok((2..9).map(large).collect()));
}

#[test]
fn a_group_that_was_removed_is_gone_and_begins_anew() {
    let dir = scratch();
    let groups = open(dir.path(), 0);
    drop((store(&groups, 1, &meta(1, 1)).expect("opens"), store(&groups, 2, &meta(40, 3)).expect("opens")));
    groups.remove(2).expect("is durable");
    assert_eq!(groups.ids(), [1]);
    let found = store(&groups, 2, &SnapshotMetadata::default()).expect("opens");
    assert_eq!((found.first_index(), found.last_index(), found.term(0)), (Ok(1), Ok(0), Ok(0)));
    assert!(matches!(groups.store(1 << 23, &meta(1, 1), |_, _| unreachable!()), Err(Error::NoGroup { .. })));
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let dir = scratch();
    let groups = open(dir.path(), 0);
    let first = store(&groups, 0, &meta(9, 2)).expect("opens");
    assert!(matches!(first.compact(11), Err(Error::Hole { index: 11, first: 10, next: 10 })));
    assert_eq!(first.snapshot(9, 2).expect("is there").get_metadata().index, 9);
    let none = Err(StorageError::SnapshotTemporarilyUnavailable.into());
    assert_eq!(first.snapshot(10, 2).map(drop), none);
    assert!(matches!(store(&groups, 0, &meta(8, 2)), Err(Error::Missing { index: 9 })));
    // A second store of a group makes itself known to the first one.
    let mut second = node(&store(&groups, 0, &meta(9, 2)).expect("opens"), 9);
    let mut message = Message { from: 2, to: 1, term: 3, index: 9, log_term: 2, ..Message::default() };
    message.set_msg_type(MessageType::MsgAppend);
    message.set_entries(vec![entry(3, 10)].into());
    let mut third = node(&first, 9);
    for node in [&mut second, &mut third] {
        node.step(message.clone()).expect("is heard");
    }
    let (ready, theirs) = (second.ready(), third.ready());
    second.store().append(&ready).expect("is accepted");
    let refused = third.store().append(&theirs);
    assert!(matches!(refused, Err(Error::ForeignRecord { .. })), "{refused:?}");
    for number in [6, 9] {
        let stream = stream(&groups, number);
        stream.append_commit(b"a record").expect("commits");
        assert!(matches!(store(&groups, stream.id().get() / 2, &meta(1, 1)), Err(Error::Record { .. })));
    }
}

#[test]
fn after_a_failed_sync_nothing_is_durable_and_nothing_goes_on() {
    let (dir, faults) = (scratch(), Arc::new(Faults::default()));
    let log = Log::open(dir.path(), options().faults(Arc::clone(&faults))).expect("opens");
    let groups = Groups::new(Arc::new(log), 0);
    let mut member = Member::new(&groups, 0, &meta(1, 1), Model::new());
    let mut random = fastrand::Rng::with_seed(1);
    // The first batch was that of the opening.
    faults.fail_commit(1);
    member.hear(&mut random);
    member.advance(&groups, false);
    let (_, end) = member.pending.expect("something was appended");
    let failed = groups.log().commit(end);
    assert!(failed.is_err() && groups.log().durable_lsn() < end, "{failed:?}");
    member.node.campaign().expect("is possible");
    let ready = member.node.ready();
    let refused = member.store.append(&ready);
    assert!(matches!(refused, Err(Error::Log(seawall::Error::Failed { .. }))), "{refused:?}");
}
