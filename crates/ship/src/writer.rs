//! Decides what to send to a destination, and what counts as acknowledged: a state machine without threads, clocks or requests.
//!
//! ```text
//!   Checking ── the last message it knows is there ──► Looking ── reads to the end ──► Joining ── the log goes on there ──►
//!            ──► Taking ── the epoch is stored ──► Shipping ──► Ended
//!
//!   Ended:   the last message is lost, or another one; not the owner; the log does not continue the chain; another epoch is there
//!
//!   queue:   stored? stored? sent sent │ waiting waiting      positions from chain.position + 1 on
//!            └─ the front leaves when it is stored ─► acknowledged
//! ```
//!
//! Each append names the position that must be free: the destination stores it there or refuses it. A refusal, and a request
//! without an answer, leave a doubt, and every doubt is resolved by reading the position in question: what lies there is the message
//! itself, nothing, or another's.
//!
//! Invariants: a message counts as stored only if the destination says so of its own position, or if it is read there; it is
//! acknowledged only when everything before it is; nothing is sent before what was acknowledged last was seen, and no epoch before
//! the log was found to continue the chain; no batch before the epoch is stored; a writer that finds another epoch never sends again;
//! all requests may be lost, repeated, delayed and answered in any order.

use crate::error::Error;
use crate::message::{Chain, HEADER_BYTES, Header, Kind, Owner, Verdict, hash};
use seawall::{LogId, Lsn};
use seawall_sys::planted;
use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;

/// After this many refusals of a position that is free, the destination may have lost what lay before it.
const REFUSALS_MAX: u32 = 20;

/// Why a writer may take an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ground {
    /// It is the owner, or there is none yet.
    Continue,
    /// It takes over from the current owner.
    TakeOver,
}

/// The identity of a writer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WriterId {
    /// The log.
    pub log_id: LogId,
    /// The directory.
    pub owner: Owner,
    /// Bytes that are unique to this epoch.
    pub nonce: [u8; 16],
    /// Why it may take an epoch.
    pub ground: Ground,
    /// Where the log begins, and what its first batch follows: for a destination without messages.
    pub base: (Lsn, u32),
}

/// Bounds of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// The longest message in bytes.
    pub message_bytes_max: usize,
    /// Messages in flight at once.
    pub in_flight_max: usize,
    /// Bytes in the queue.
    pub queue_bytes_max: usize,
    /// Whether payloads are compressed.
    pub compresses: bool,
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Store this message at the position, if that is the next free one.
    Append {
        /// The position.
        position: u64,
        /// Which message of the chain it is.
        number: u64,
        /// The message.
        bytes: Arc<[u8]>,
    },
    /// Read the message at the position, and say whether there is one.
    Read {
        /// The position.
        position: u64,
    },
}

/// Why an append was not stored, for operators. No decision depends on it.
pub type Why = Arc<str>;

/// The outcome of an append.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is stored at its position.
    Stored,
    /// It was refused, because the position was not the next free one.
    Refused(Why),
    /// Unknown.
    Unknown(Why),
}

impl Outcome {
    /// It was refused, and why.
    pub fn refused(why: impl Display) -> Self {
        Self::Refused(why.to_string().into())
    }

    /// Unknown, and why.
    pub fn unknown(why: impl Display) -> Self {
        Self::Unknown(why.to_string().into())
    }

    /// Why it was not stored, as far as it is known.
    #[must_use]
    pub fn why(&self) -> Option<&Why> {
        match self {
            Self::Stored => None,
            Self::Refused(why) | Self::Unknown(why) => Some(why),
        }
    }
}

/// Whole pieces of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parcel {
    /// Where they begin.
    pub lsn: Lsn,
    /// Where they end.
    pub end: Lsn,
    /// What the first batch follows.
    pub link_before: u32,
    /// What the next batch follows.
    pub link: u32,
    /// Records in them.
    pub records: u32,
    /// When the latest was gathered.
    pub time_us: u64,
    /// When it was made of them.
    pub sent_us: u64,
    /// The pieces.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    number: u64,
    bytes: Arc<[u8]>,
    /// Where the log is acknowledged once this is; only the last part of a message says so.
    end: Option<Lsn>,
    stored: bool,
    /// The chain with it at its end, apart from its position.
    after: Chain,
}

/// Why a writer ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Another writer took this epoch.
    Replaced(u64),
    /// A second writer of this directory, or of a copy of it, took this epoch.
    Second(u64),
    /// The chain belongs to another directory.
    NotOwner,
    /// The log does not continue the chain.
    Diverged(Lsn),
    /// The destination lost what it had acknowledged.
    Lost(u64),
    /// The message at this position is not the one that was acknowledged.
    Altered(u64),
    /// The message at the position is damaged.
    Damaged(u64, String),
}

impl End {
    /// The same as an error.
    #[must_use]
    pub fn error(&self) -> Error {
        match self {
            Self::Replaced(epoch) => Error::Replaced { epoch: *epoch },
            Self::Second(epoch) => Error::Second { epoch: *epoch },
            Self::NotOwner => Error::NotOwner,
            Self::Diverged(lsn) => {
                Error::Diverged { lsn: *lsn, what: "another batch ends there, or none does".to_owned() }
            }
            Self::Lost(position) => Error::Lost { position: *position },
            Self::Altered(position) => Error::Altered { position: *position },
            Self::Damaged(position, what) => Error::Damaged { position: *position, what: what.clone() },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Checking,
    Looking,
    Joining,
    Taking,
    Shipping,
    Ended(End),
}

/// The chain with a message at its end, if it is the next one, as its readers find it.
fn follows(chain: &Chain, bytes: &[u8]) -> Option<Chain> {
    let mut chain = chain.clone();
    matches!(chain.take(bytes), Ok(Verdict::Next(..))).then_some(chain)
}

/// The writer of one log at one destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Writer {
    me: WriterId,
    bounds: Bounds,
    phase: Phase,
    /// What is known to be stored.
    chain: Chain,
    /// The same with everything in the queue.
    ahead: Chain,
    queue: VecDeque<Entry>,
    queue_bytes: usize,
    /// How many of the queue were sent since the last doubt.
    sent: usize,
    doubt: bool,
    /// A read is in flight, of this position.
    asked: Option<u64>,
    refusals: u32,
    /// The log was found to continue the chain.
    joined: bool,
    acknowledged: Lsn,
}

impl Writer {
    /// Begins to look after what an earlier writer of this directory knew of the chain.
    #[must_use]
    pub fn new(me: WriterId, bounds: Bounds, known: Chain) -> Self {
        let has_last = me.ground == Ground::Continue && known.number > 0;
        Self {
            me,
            bounds,
            phase: if planted!(ShipLastUnread, has_last) { Phase::Checking } else { Phase::Looking },
            ahead: known.clone(),
            chain: known,
            queue: VecDeque::new(),
            queue_bytes: 0,
            sent: 0,
            doubt: false,
            asked: None,
            refusals: 0,
            joined: false,
            acknowledged: Lsn::ZERO,
        }
    }

    /// Skips the check of the last known message: a retention has removed it.
    #[must_use]
    pub fn with_last_found(mut self) -> Self {
        self.phase = Phase::Looking;
        self
    }

    /// Why it ended, if it did.
    #[must_use]
    pub fn ended(&self) -> Option<&End> {
        if let Phase::Ended(end) = &self.phase { Some(end) } else { None }
    }

    /// Whether it has the right to write.
    #[must_use]
    pub fn is_shipping(&self) -> bool {
        self.phase == Phase::Shipping
    }

    /// Everything before this is acknowledged; nothing before the log has joined the chain.
    #[must_use]
    pub fn acknowledged(&self) -> Lsn {
        self.acknowledged
    }

    /// Where the next parcel is due, and what it must follow.
    #[must_use]
    pub fn due(&self) -> (Lsn, u32) {
        (self.ahead.lsn, self.ahead.link)
    }

    /// What the next writer of this directory may begin with. The log must be kept from `needed` of it on.
    #[must_use]
    pub fn known(&self) -> &Chain {
        planted!(ShipNoteAhead(&self.ahead), &self.chain)
    }

    /// Bytes that wait for their acknowledgement.
    #[must_use]
    pub fn queue_bytes(&self) -> usize {
        self.queue_bytes
    }

    /// Whether it waits for [`Writer::join`].
    #[must_use]
    pub fn wants_join(&self) -> bool {
        self.phase == Phase::Joining || (self.is_shipping() && !self.joined)
    }

    /// Takes the link of the log's batch before [`Writer::due`], `None` if no batch ends there. Another link than expected means that
    /// the log has diverged.
    pub fn join(&mut self, link: Option<u32>) {
        if !self.wants_join() {
            return;
        }
        if planted!(ShipLinkIgnored, link != Some(self.ahead.link)) {
            self.phase = Phase::Ended(End::Diverged(self.ahead.lsn));
            return;
        }
        self.joined = true;
        if self.phase == Phase::Joining {
            self.take_right();
        } else {
            self.acknowledged = self.chain.lsn;
        }
    }

    /// Reads the next position, where another writer's message would lie, if nothing is in flight.
    pub fn look(&mut self) {
        self.doubt |= self.is_shipping() && self.queue.is_empty();
    }

    /// Whether another parcel is welcome.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.is_shipping()
            && self.joined
            && (self.queue.is_empty()
                || (self.queue_bytes < self.bounds.queue_bytes_max
                    && self.queue.len() < 2 * self.bounds.in_flight_max))
    }

    /// Whether everything that was offered is acknowledged.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a parcel after all others.
    pub fn offer(&mut self, parcel: &Parcel) {
        if !self.is_shipping() || !self.joined {
            return;
        }
        let follows = planted!(
            ShipLinkIgnored(parcel.lsn == self.ahead.lsn),
            (parcel.lsn, parcel.link_before) == (self.ahead.lsn, self.ahead.link)
        );
        if !follows {
            self.phase = Phase::Ended(End::Diverged(self.ahead.lsn));
            return;
        }
        let room = self.bounds.message_bytes_max.saturating_sub(HEADER_BYTES).max(1);
        let parts = parcel.bytes.len().div_ceil(room).max(1);
        let parts = u16::try_from(parts).unwrap_or(u16::MAX);
        for (part, payload) in (0..parts).zip(parcel.bytes.chunks(room)) {
            let writer = (self.ahead.epoch, self.ahead.owner);
            let mut header = self.ahead.next_header(Kind::Batches, self.me.log_id, writer);
            (header.lsn, header.end, header.link) = (parcel.lsn, parcel.end, parcel.link);
            header.stored = planted!(ShipStatesUnstored(self.ahead.number), self.chain.number);
            // Also where the link was not compared.
            header.link_before = self.ahead.link;
            (header.part, header.records) = ((part, parts), parcel.records);
            (header.time_us, header.sent_us) = (parcel.time_us, parcel.sent_us);
            let whole = planted!(ShipPartIsWhole(part == 0), part + 1 == parts);
            let (header, bytes) = if self.bounds.compresses {
                header.seal_compressed(payload)
            } else {
                let bytes = header.seal(payload);
                (header, bytes)
            };
            self.push(&header, bytes.into(), whole.then_some(parcel.end));
        }
    }

    fn push(&mut self, header: &Header, bytes: Arc<[u8]>, end: Option<Lsn>) {
        debug_assert!(follows(&self.ahead, &bytes).is_some() || cfg!(feature = "mutants"));
        self.ahead.position += 1;
        self.ahead.follow(header, &bytes);
        self.queue_bytes += bytes.len();
        let number = header.number;
        self.queue.push_back(Entry { number, bytes, end, stored: false, after: self.ahead.clone() });
    }

    /// What is to be done now, if anything. Every action gets an answer, by [`Writer::read`] or [`Writer::outcome`].
    pub fn next_action(&mut self) -> Option<Action> {
        let next = self.chain.position + 1;
        match self.phase {
            Phase::Ended(_) => None,
            _ if self.asked.is_some() => None,
            Phase::Checking => Some(self.ask(self.checked())),
            Phase::Looking => Some(self.ask(next)),
            Phase::Joining => None,
            _ if self.refusals >= REFUSALS_MAX && self.chain.position > 0 => {
                Some(self.ask(self.chain.position))
            }
            _ if self.doubt => Some(self.ask(next)),
            _ if self.sent < self.queue.len().min(self.bounds.in_flight_max) => {
                let entry = &self.queue[self.sent];
                let position = next + self.sent as u64;
                self.sent += 1;
                planted!(ShipAckAtSend(&mut self.acknowledged, entry.end));
                Some(Action::Append { position, number: entry.number, bytes: Arc::clone(&entry.bytes) })
            }
            _ => None,
        }
    }

    /// Where the last message lies that it knows.
    fn checked(&self) -> u64 {
        if self.chain.last_at > 0 { self.chain.last_at } else { self.chain.position }
    }

    fn ask(&mut self, position: u64) -> Action {
        self.asked = Some(position);
        Action::Read { position }
    }

    /// A read could not be answered: it is asked again.
    pub fn unread(&mut self, position: u64) {
        if self.asked == Some(position) {
            self.asked = None;
        }
    }

    /// The answer to a read. One that says that nothing is there may be out of date.
    pub fn read(&mut self, position: u64, found: Option<&[u8]>) {
        if self.asked != Some(position) {
            return;
        }
        self.asked = None;
        let is_next = position == self.chain.position + 1;
        match (&self.phase, found) {
            (Phase::Ended(_), _) => {}
            (Phase::Checking, None) => self.phase = Phase::Ended(End::Lost(position)),
            (Phase::Checking, Some(bytes)) => {
                let is_it = self.chain.last_at == 0 || hash(bytes) == self.chain.last;
                self.phase = if is_it { Phase::Looking } else { Phase::Ended(End::Altered(position)) };
            }
            (Phase::Looking, None) if is_next => self.begin(),
            (Phase::Looking, Some(bytes)) if is_next => {
                let _ = self.take_found(bytes);
            }
            (_, None) if is_next => self.send_again(),
            (_, Some(bytes)) if is_next => self.compare(bytes),
            // Asked as the next one, an answer from before the message was stored says nothing.
            (_, None) if position == self.chain.position && self.refusals >= REFUSALS_MAX => {
                self.phase = Phase::Ended(End::Lost(position));
            }
            (_, Some(_)) if position == self.chain.position => self.refusals = 0,
            _ => {}
        }
    }

    /// Takes the message at the next position into the chain; returns its kind, its epoch, and whether this directory wrote it, if it
    /// belongs to the chain.
    fn take_found(&mut self, bytes: &[u8]) -> Option<(Kind, u64, bool)> {
        match self.chain.take(bytes) {
            Ok(Verdict::Next(header, _)) => {
                let is_own = planted!(ShipOwnEpochIsAnothers, header.owner == self.me.owner);
                Some((header.kind, header.epoch, is_own))
            }
            Ok(Verdict::Ignored) => None,
            Err(Error::Damaged { position, what }) => {
                self.phase = Phase::Ended(End::Damaged(position, what));
                None
            }
            Err(_) => unreachable!("the chain has no other error"),
        }
    }

    /// The chain ends here: refuses another owner's, then joins the log to it, or takes the epoch for a take-over.
    pub(crate) fn begin(&mut self) {
        let is_other = self.chain.number > 0
            && (self.chain.owner != self.me.owner || self.chain.log_id != Some(self.me.log_id));
        let refused = self.me.ground == Ground::Continue && planted!(ShipAnyOwner, is_other);
        if refused {
            self.phase = Phase::Ended(End::NotOwner);
            return;
        }
        if self.chain.number == 0 {
            (self.chain.lsn, self.chain.link) = self.me.base;
            self.chain.needed = self.me.base.0;
        }
        self.ahead = self.chain.clone();
        (self.sent, self.queue_bytes, self.doubt, self.joined) = (0, 0, false, false);
        self.queue.clear();
        if planted!(ShipEpochBeforeJoin, self.me.ground == Ground::Continue) {
            self.phase = Phase::Joining;
        } else {
            self.take_right();
        }
    }

    /// Takes the right to continue after the end of the chain.
    fn take_right(&mut self) {
        planted!(ShipNoEpoch(self), self.send_epoch());
    }

    pub(crate) fn send_epoch(&mut self) {
        self.phase = Phase::Taking;
        let writer = (self.chain.epoch.saturating_add(1), self.me.owner);
        let header = self.chain.next_header(Kind::Epoch, self.me.log_id, writer);
        self.push(&header, header.seal(&self.me.nonce).into(), None);
    }

    /// It has the right to write.
    pub(crate) fn ship(&mut self) {
        self.phase = Phase::Shipping;
        if self.joined {
            self.acknowledged = self.chain.lsn;
        }
    }

    /// Nothing lies at the next position: what was sent did not arrive, or is still in flight.
    fn send_again(&mut self) {
        self.doubt = false;
        self.sent = planted!(ShipResendSecond(self.sent.min(1)), 0);
        self.forget_stored();
    }

    fn forget_stored(&mut self) {
        planted!(ShipStoredKept, self.queue.iter_mut().for_each(|entry| entry.stored = false));
    }

    /// In doubt: is what lies at the next position the message that was sent there?
    fn compare(&mut self, bytes: &[u8]) {
        if self.queue.front().is_some_and(|front| *front.bytes == *bytes) {
            self.accept_front();
            self.accept_stored();
            self.doubt &= self.sent > 0;
            return;
        }
        let found = self.take_found(bytes);
        // What was sent after it was sent to other positions than it would be now.
        self.forget_stored();
        match (found, &self.phase) {
            (_, Phase::Ended(_)) | (None, _) => {}
            // Of an earlier writer of this directory: it was late.
            (Some((Kind::Epoch, _, true)), Phase::Taking) => self.begin(),
            (Some((Kind::Epoch, epoch, false)), Phase::Taking) => {
                planted!(ShipLoserGoesOn(self), self.phase = Phase::Ended(End::Replaced(epoch)));
            }
            // The writer before this one was faster.
            (Some((Kind::Batches, ..)), Phase::Taking) => planted!(ShipEpochUnread, self.begin()),
            (Some((_, epoch, true)), _) => self.phase = Phase::Ended(End::Second(epoch)),
            (Some((_, epoch, false)), _) => {
                planted!(ShipGoOnReplaced, self.phase = Phase::Ended(End::Replaced(epoch)));
            }
        }
    }

    fn accept_front(&mut self) {
        let Some(front) = self.queue.pop_front() else { return };
        self.queue_bytes -= front.bytes.len();
        self.sent = self.sent.saturating_sub(1);
        self.refusals = 0;
        // As it would be read from the message.
        let position = self.chain.position + 1;
        let chain = Chain { position, last_at: position, ..front.after };
        debug_assert!(
            follows(&self.chain, &front.bytes).as_ref() == Some(&chain) || cfg!(feature = "mutants")
        );
        self.chain = chain;
        if self.phase == Phase::Taking {
            self.ship();
        }
        if let Some(end) = front.end {
            self.acknowledged = self.acknowledged.max(end);
        }
    }

    fn accept_stored(&mut self) {
        while self.queue.front().is_some_and(|front| front.stored) {
            self.accept_front();
        }
    }

    /// The outcome of the append of message `number` to `position`; it may be said late, and more than once.
    pub fn outcome(&mut self, position: u64, number: u64, outcome: Outcome) {
        let index =
            position.checked_sub(self.chain.position + 1).and_then(|index| usize::try_from(index).ok());
        let Some(index) = index.filter(|index| *index < self.queue.len()) else { return };
        let is_it = planted!(ShipStoredByPosition, self.queue[index].number == number);
        if !matches!(self.phase, Phase::Taking | Phase::Shipping) || !is_it {
            return;
        }
        let outcome = planted!(ShipRefusedIsStored | ShipUnknownIsStored(outcome), outcome);
        match outcome {
            Outcome::Stored => {
                self.queue[index].stored = true;
                planted!(ShipAckOutOfOrder(&mut self.acknowledged, self.queue[index].end));
                self.accept_stored();
                self.doubt &= self.sent > 0;
            }
            Outcome::Refused(_) => {
                self.refusals += 1;
                self.doubt = true;
            }
            Outcome::Unknown(_) => self.doubt = true,
        }
    }
}
