//! Reads messages of the one partition of a topic by their positions.
//!
//! Invariants: the partition is assigned once for a reader, because librdkafka may end the process if it is removed and assigned
//! again; afterwards it is sought; what was fetched ahead for another position is never taken for the one that was asked for.

use super::{PARTITION, REQUEST, no_client};
use crate::error::{Error, Result};
use rdkafka::Message as _;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use seawall_sys::clock::monotonic_ns;
use std::time::Duration;

/// How long it waits at once.
const LOOK: Duration = Duration::from_millis(100);

/// A reader of a topic.
pub(super) struct Reader {
    consumer: BaseConsumer,
    topic: String,
    state: State,
}

/// What it does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is assigned yet.
    New,
    /// It fetches ahead, and this offset comes next.
    Fetching(i64),
    /// It fetches ahead, from an unknown offset.
    Astray,
    /// It fetches nothing.
    Resting,
}

/// How long is left of the time for a request that began at `begun_ns`.
fn left(begun_ns: u64) -> Option<Duration> {
    let left = REQUEST.saturating_sub(Duration::from_nanos(monotonic_ns() - begun_ns));
    (!left.is_zero()).then_some(left)
}

impl Reader {
    pub(super) fn new(config: &ClientConfig, topic: &str) -> Result<Self> {
        let mut own = config.clone();
        // Needed to assign a partition; no group is joined, and nothing is committed.
        own.set("group.id", "seawall").set("enable.auto.commit", "false");
        own.set("auto.offset.reset", "error").set("check.crcs", "true");
        own.set("isolation.level", "read_uncommitted").set("fetch.wait.max.ms", "50");
        let consumer: BaseConsumer = own.create().map_err(no_client)?;
        Ok(Self { consumer, topic: topic.to_owned(), state: State::New })
    }

    /// The positions of the first and of the last message; the first is after the last if there is none.
    pub(super) fn bounds(&self) -> Result<(u64, u64)> {
        let bounds = self.consumer.fetch_watermarks(&self.topic, PARTITION, REQUEST);
        let (first, end) =
            bounds.map_err(|error| Error::unavailable("the topic's bounds were not read", error))?;
        let position = |offset: i64| u64::try_from(offset).unwrap_or_default();
        Ok((position(first) + 1, position(end)))
    }

    /// The message at `position`, which lies within the bounds; `None` if it is missing there.
    pub(super) fn fetch(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        let failed = |error| Error::unavailable(format!("message {position} was not read"), error);
        let offset = i64::try_from(position - 1).unwrap_or(i64::MAX);
        let begun_ns = monotonic_ns();
        self.go_to(offset, begun_ns).map_err(failed)?;
        let mut cause = None;
        while let Some(left) = left(begun_ns) {
            match self.consumer.poll(left.min(LOOK)) {
                Some(Ok(message)) if message.offset() >= offset => {
                    self.state = State::Fetching(message.offset() + 1);
                    let bytes = message.payload().unwrap_or_default();
                    return Ok((message.offset() == offset).then(|| bytes.to_vec()));
                }
                // From before it was sought.
                Some(Ok(_)) | None => {}
                // The client continues by itself, with another broker.
                Some(Err(error)) => cause = Some(error),
            }
        }
        self.state = State::Astray;
        let none = || std::io::Error::from(std::io::ErrorKind::TimedOut);
        let what = format!("message {position} was not read in time");
        Err(cause
            .map_or_else(|| Error::unavailable(&*what, none()), |cause| Error::unavailable(&*what, cause)))
    }

    fn go_to(&mut self, offset: i64, begun_ns: u64) -> Result<(), KafkaError> {
        match self.state {
            State::New => {
                let mut partition = TopicPartitionList::new();
                partition.add_partition_offset(&self.topic, PARTITION, Offset::Offset(offset))?;
                self.consumer.assign(&partition)?;
                self.state = State::Fetching(offset);
                return Ok(());
            }
            State::Fetching(next) if next == offset => return Ok(()),
            State::Resting => self.consumer.resume(&self.partition())?,
            State::Fetching(_) | State::Astray => {}
        }
        self.state = State::Astray;
        // It is refused until the assignment has been carried out.
        while let Err(error) = self.consumer.seek(&self.topic, PARTITION, Offset::Offset(offset), REQUEST) {
            if left(begun_ns).is_none() {
                return Err(error);
            }
            std::thread::sleep(LOOK);
        }
        self.state = State::Fetching(offset);
        Ok(())
    }

    /// Fetches no more ahead, until something is read again.
    pub(super) fn rest(&mut self) {
        if matches!(self.state, State::Fetching(_) | State::Astray)
            && self.consumer.pause(&self.partition()).is_ok()
        {
            self.state = State::Resting;
        }
    }

    fn partition(&self) -> TopicPartitionList {
        let mut partition = TopicPartitionList::new();
        partition.add_partition(&self.topic, PARTITION);
        partition
    }
}
