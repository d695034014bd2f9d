//! A log whose commits name the failure that they have to outlive.
//!
//! ```text
//! append ─► commit_as(lsn, Failure) ─► the log's own commit, if it outlives the failure
//!                                  └─► else: durable here ─► the first destination that outlives it has acknowledged
//! ```
//!
//! Each failure has one watermark, [`ShippedLog::lsn_surviving`]: the furthest that anything which outlives it has come.
//!
//! Invariants: a commit returns only when everything before its LSN outlives the failure that it named, but for a policy that
//! says otherwise for the time of an outage; a failure that nothing here outlives is refused, with the reason.

use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::shipping::{Acknowledged, AtRisk, Settings, Shipping};
use seawall::{CommitFuture, Durability, Log, Lsn, Options};
use seawall_sys::clock::monotonic_ns;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long a commit waits for one of several destinations before it looks at the next one.
const TURN: Duration = Duration::from_millis(10);

/// What a commit does while a destination does not acknowledge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// It waits.
    #[default]
    Block,
    /// It returns once the record is durable here, as long as no more is at risk than this; else it waits.
    GoOnWithin {
        /// Records.
        records: u64,
        /// How long the oldest of them may be at risk.
        time: Duration,
    },
    /// It fails after this time. The record is durable here, and is shipped when that is possible.
    FailAfter(Duration),
}

/// A log that is open for writing here, and shipped.
#[derive(Debug)]
pub struct ShippedLog {
    log: Log,
    ships: Vec<Shipping>,
    policy: Policy,
    promise: Durability,
}

impl ShippedLog {
    /// Opens the log in `dir`; it is shipped to each of `destinations`.
    ///
    /// # Errors
    /// As [`Log::open`] and [`Shipping::start`]. A log that was fenced at a destination is not opened: it must not be written.
    pub fn open(
        dir: impl AsRef<Path>,
        options: Options,
        durability: Durability,
        destinations: Vec<Box<dyn Destination>>,
        settings: Settings,
    ) -> Result<Self> {
        let log = Log::open(dir, options.durability(durability))?;
        let ships = destinations.into_iter().map(|one| Shipping::start(log.dir(), one, settings));
        let ships = ships.collect::<Result<Vec<_>>>()?;
        Ok(Self { log, ships, policy: Policy::Block, promise: durability })
    }

    /// What commits do while their destination does not acknowledge. Default: they wait.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Its shipments.
    #[must_use]
    pub fn ships(&self) -> &[Shipping] {
        &self.ships
    }

    fn local(&self, failure: Failure) -> Option<Durability> {
        failure.local_class().filter(|class| *class <= self.promise)
    }

    fn outliving(&self, failure: Failure) -> impl Iterator<Item = &Shipping> {
        self.ships.iter().filter(move |ship| ship.facts().outlives(failure).is_ok())
    }

    /// The end of what outlives `failure`; the first LSN if nothing here does.
    #[must_use]
    pub fn lsn_surviving(&self, failure: Failure) -> Lsn {
        let here = self.local(failure).map(|class| self.log.lsn_surviving(class));
        let there = self.outliving(failure).map(Shipping::acknowledged);
        here.into_iter().chain(there).max().unwrap_or_default()
    }

    /// Why nothing here outlives `failure`.
    fn beyond(&self, failure: Failure) -> Error {
        let reasons = self.ships.iter().filter_map(|ship| ship.facts().outlives(failure).err());
        let reasons: Vec<String> = reasons.collect();
        let nowhere = || "it has no destination".to_owned();
        let why = if reasons.is_empty() { nowhere() } else { reasons.join("; ") };
        Error::BeyondPromise { failure, why }
    }

    /// Returns when everything before `lsn` outlives `failure`.
    ///
    /// # Errors
    /// [`Error::BeyondPromise`], before anything is done; [`Error::Log`] as [`Log::commit`]; by the policy [`Error::TimedOut`];
    /// why shipping has ended.
    pub fn commit_as(&self, lsn: Lsn, failure: Failure) -> Result<()> {
        if let Some(class) = self.local(failure) {
            return Ok(self.log.commit_as(lsn, class)?);
        }
        let ships: Vec<&Shipping> = self.outliving(failure).collect();
        if ships.is_empty() {
            return Err(self.beyond(failure));
        }
        // What is shipped is what is durable here.
        self.log.commit(lsn)?;
        match self.policy {
            Policy::Block => first_of(&ships, None, |ship, limit| ship.wait(lsn, limit)),
            Policy::FailAfter(limit) => first_of(&ships, Some(limit), |ship, limit| ship.wait(lsn, limit)),
            Policy::GoOnWithin { records, time } => {
                first_of(&ships, None, |ship, limit| ship.wait_within(lsn, records, time, limit))
            }
        }
    }

    /// As [`ShippedLog::commit_as`] with the policy to wait, as a future, which needs no runtime.
    ///
    /// # Errors
    /// [`Error::BeyondPromise`]; the future returns the others.
    pub fn commit_async_as(&self, lsn: Lsn, failure: Failure) -> Result<ShippedCommit> {
        if let Some(class) = self.local(failure) {
            let here = Some(self.log.commit_async_as(lsn, class)?);
            return Ok(ShippedCommit { here, there: Vec::new() });
        }
        let there: Vec<_> = self.outliving(failure).map(|ship| ship.wait_async(lsn)).collect();
        if there.is_empty() {
            return Err(self.beyond(failure));
        }
        Ok(ShippedCommit { here: Some(self.log.commit_async(lsn)), there })
    }

    /// What a failure would lose now: what is durable here and does not outlive it. Nothing, if the log's own commits do.
    ///
    /// # Errors
    /// [`Error::BeyondPromise`], [`Error::Log`].
    pub fn at_risk(&self, failure: Failure) -> Result<AtRisk> {
        if self.local(failure).is_some() {
            return Ok(AtRisk::default());
        }
        let furthest = self.outliving(failure).max_by_key(|ship| ship.acknowledged());
        furthest.ok_or_else(|| self.beyond(failure))?.at_risk()
    }

    /// Commits everything, ships it, waits at most for `limit` until it is acknowledged, and closes the log.
    ///
    /// # Errors
    /// As [`Shipping::finish`] and [`Log::close`]; the log is closed in any case.
    pub fn close(self, limit: Option<Duration>) -> Result<()> {
        let Self { log, ships, .. } = self;
        let committed = log.commit(log.appended_lsn());
        let begun = monotonic_ns();
        let mut shipped = Ok(());
        for ship in ships {
            let passed = Duration::from_nanos(monotonic_ns() - begun);
            let left = limit.map(|limit| limit.saturating_sub(passed));
            shipped = shipped.and(ship.finish(left).map(drop));
        }
        committed?;
        log.close()?;
        shipped
    }
}

/// Waits until one of `ships` is done, for at most `limit` if that is given, or all of them have ended.
fn first_of(
    ships: &[&Shipping],
    limit: Option<Duration>,
    wait: impl Fn(&Shipping, Option<Duration>) -> Result<()>,
) -> Result<()> {
    let begun = monotonic_ns();
    loop {
        let passed = Duration::from_nanos(monotonic_ns() - begun);
        let left = limit.map(|limit| limit.saturating_sub(passed));
        // In turns: the one that had come furthest may be away from now on.
        let turn = if ships.len() == 1 { left } else { Some(left.map_or(TURN, |left| left.min(TURN))) };
        let (mut late, mut ended) = (None, Ok(()));
        for ship in ships {
            match wait(ship, turn) {
                Ok(()) => return Ok(()),
                Err(error @ Error::TimedOut { .. }) => late = Some(error),
                Err(error) => ended = Err(error),
            }
        }
        match late {
            None => return ended,
            Some(late) if left.is_some() && left <= turn => return Err(late),
            Some(_) => {}
        }
    }
}

/// See [`ShippedLog::commit_async_as`].
#[derive(Debug)]
#[must_use = "a future does nothing before it is polled"]
pub struct ShippedCommit {
    here: Option<CommitFuture>,
    there: Vec<Acknowledged>,
}

impl Future for ShippedCommit {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(here) = &mut self.here {
            match Pin::new(here).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Ready(Ok(_)) => self.here = None,
            }
        }
        let (mut waits, mut ended) = (false, Ok(()));
        for there in &mut self.there {
            match Pin::new(there).poll(context) {
                Poll::Pending => waits = true,
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
                Poll::Ready(error) => ended = error,
            }
        }
        if waits { Poll::Pending } else { Poll::Ready(ended) }
    }
}
