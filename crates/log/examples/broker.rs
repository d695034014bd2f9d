//! Example: a message broker in one log; partitions are streams, and so are the offsets of consumer groups.
//!
//! ```text
//!   stream 0                  the catalog: each record names a topic or a group, which takes the next `count` streams
//!   "orders", 3               streams 1 to 3: the partitions; a message's offset is its sequence number
//!   "orders/billing", 3       streams 4 to 6: the offset of the group in each partition, the last record of its stream
//! ```
//!
//! A producer is answered when its messages are durable. A consumer commits its offset in one transaction with what it
//! produces, so that each message has its effect once. A partition keeps what some group has not consumed.
//!
//! `broker DIR` produces twelve orders, bills them, and prints the bills.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use seawall::{Log, Options, StreamFollower, StreamId};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
/// The streams of each topic and group: the first one and how many there are.
type Catalog = BTreeMap<String, (u32, u32)>;
/// A message for a topic: topic, key and value. Messages of one key stay in order.
type Message<'a> = (&'a str, &'a str, &'a str);

fn stream(number: u32) -> Result<StreamId> {
    StreamId::new(number).ok_or_else(|| "the log has no room for another topic".into())
}

struct Broker {
    log: Log,
    catalog: Mutex<Catalog>,
}

/// Reads one partition for a group.
struct Consumer<'a> {
    broker: &'a Broker,
    topic: String,
    partition: u32,
    /// The streams of the partition and of the group's offset in it.
    streams: [StreamId; 2],
    messages: StreamFollower,
}

impl Broker {
    fn open(dir: &Path) -> Result<Self> {
        let log = Log::open(dir, Options::default())?;
        let (mut catalog, mut free) = (BTreeMap::new(), 1);
        for record in log.stream(stream(0)?).read(0)? {
            let record = record?;
            let (count, name) = record.payload.split_first_chunk().ok_or("the catalog is damaged")?;
            let count = u32::from_le_bytes(*count);
            catalog.insert(String::from_utf8(name.to_vec())?, (free, count));
            free += count;
        }
        Ok(Self { log, catalog: Mutex::new(catalog) })
    }

    fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Result<(u32, u32)> {
        self.catalog().get(name).copied().ok_or_else(|| format!("there is no {name}").into())
    }

    /// The streams of a topic or group, which is made if it is not there.
    fn make(&self, name: &str, count: u32) -> Result<(u32, u32)> {
        let mut catalog = self.catalog();
        if let Some(streams) = catalog.get(name) {
            return Ok(*streams);
        }
        let free = catalog.values().map(|(first, count)| first + count).max().unwrap_or(1);
        stream(free.saturating_add(count))?;
        self.log.stream(stream(0)?).append_commit(&[&count.to_le_bytes()[..], name.as_bytes()].concat())?;
        catalog.insert(name.to_owned(), (free, count));
        Ok((free, count))
    }

    /// Appends messages, and an offset to its stream if there is one: all or nothing. Returns when they are durable.
    fn append(&self, messages: &[Message<'_>], offset: Option<(StreamId, u64)>) -> Result<()> {
        let end = self.log.transaction(|transaction| -> Result<()> {
            for (topic, key, value) in messages {
                let (first, partitions) = self.find(topic)?;
                // The same in every version, because a key must not change its partition.
                let hash = key.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte));
                let partition = hash.checked_rem(partitions).ok_or("the topic has no partition")?;
                transaction.append_to(stream(first + partition)?, value.as_bytes())?;
            }
            offset.map_or(Ok(()), |(id, next)| Ok(transaction.append_to(id, &next.to_le_bytes())?))
        })?;
        Ok(self.log.commit(end)?)
    }

    /// Reads a partition for a group, from where the group has come to.
    fn consume(&self, topic: &str, group: &str, partition: u32) -> Result<Consumer<'_>> {
        let (first, partitions) = self.find(topic)?;
        if partition >= partitions {
            return Err(format!("{topic} has {partitions} partitions").into());
        }
        let offset = stream(self.make(&format!("{topic}/{group}"), partitions)?.0 + partition)?;
        let from = self.log.stream(stream(first + partition)?);
        let messages = from.follow(self.offset(offset)?.max(from.first_seq()))?;
        let (topic, streams) = (topic.to_owned(), [from.id(), offset]);
        Ok(Consumer { broker: self, topic, partition, streams, messages })
    }

    /// The offset that was committed last, 0 if none was.
    fn offset(&self, id: StreamId) -> Result<u64> {
        let offsets = self.log.stream(id);
        let last = offsets.read(offsets.first_seq())?.last().transpose()?;
        Ok(last.map_or(Ok(0), |last| last.payload[..].try_into().map(u64::from_le_bytes))?)
    }
}

impl Consumer<'_> {
    /// The next messages that are there, at most this many.
    fn take(&mut self, count: usize) -> Result<Vec<String>> {
        let next = std::iter::from_fn(|| self.messages.try_next_record().transpose());
        next.take(count).map(|message| Ok(String::from_utf8(message?.payload.to_vec())?)).collect()
    }

    /// Commits that everything so far is consumed, together with the messages that come of it.
    fn commit(&self, messages: &[Message<'_>]) -> Result<()> {
        let (broker, [partition, offset]) = (self.broker, self.streams.map(|id| self.broker.log.stream(id)));
        broker.append(messages, Some((offset.id(), self.messages.next_seq())))?;
        let catalog = broker.catalog();
        offset.trim(offset.next_seq() - 1)?;
        let groups = catalog.iter().filter(|(name, _)| name.starts_with(&format!("{}/", self.topic)));
        let mut offsets = groups.map(|(_, (first, _))| broker.offset(stream(first + self.partition)?));
        partition.trim(offsets.try_fold(u64::MAX - 1, |lowest, next| next.map(|next| lowest.min(next)))?)?;
        Ok(())
    }
}

/// Produces twelve orders and bills them; returns the bills.
fn trade(dir: &Path) -> Result<Vec<String>> {
    let broker = Broker::open(dir)?;
    broker.make("orders", 3)?;
    broker.make("bills", 1)?;
    for i in 0..12 {
        broker.append(&[("orders", &format!("customer {}", i % 5), &format!("order {i}"))], None)?;
    }
    for partition in 0..3 {
        let mut billing = broker.consume("orders", "billing", partition)?;
        let orders = billing.take(usize::MAX)?;
        let bills: Vec<_> = orders.iter().map(|order| ("bills", "", order.as_str())).collect();
        billing.commit(&bills)?;
    }
    let mut audit = broker.consume("bills", "audit", 0)?;
    let bills = audit.take(usize::MAX)?;
    audit.commit(&[])?;
    Ok(broker.log.close().map(|()| bills)?)
}

fn main() -> Result<()> {
    let dir = std::env::args().nth(1).ok_or("broker DIR")?;
    println!("{}", trade(Path::new(&dir))?.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Broker, Consumer, stream, trade};

    #[test]
    fn every_order_is_billed_once_and_a_group_goes_on_where_it_committed() {
        // Next to the test program, because the system's temporary folder may lie in memory.
        let here = std::env::current_exe().expect("is known");
        let dir = tempfile::tempdir_in(here.parent().expect("is in one")).expect("a directory on a disk");
        for _ in 0..3 {
            let mut bills = trade(dir.path()).expect("trades");
            bills.sort_by_key(|bill| (bill.len(), bill.clone()));
            assert_eq!(bills, (0..12).map(|i| format!("order {i}")).collect::<Vec<_>>());
        }
        let take = |consumer: &mut Consumer<'_>, count| consumer.take(count).expect("reads").concat();
        let broker = Broker::open(dir.path()).expect("opens");
        let (first, _) = broker.make("letters", 1).expect("is made");
        let letters = ["a", "b", "c", "d", "e"].map(|letter| ("letters", "", letter));
        broker.append(&letters, None).expect("is durable");
        let mut fast = broker.consume("letters", "fast", 0).expect("consumes");
        let mut slow = broker.consume("letters", "slow", 0).expect("consumes");
        assert_eq!((take(&mut fast, 3), take(&mut slow, 2)), ("abc".into(), "ab".into()));
        fast.commit(&[]).expect("commits");
        // A crash: what was read and not committed comes again.
        drop(broker);
        let broker = Broker::open(dir.path()).expect("opens");
        let mut fast = broker.consume("letters", "fast", 0).expect("consumes");
        let mut slow = broker.consume("letters", "slow", 0).expect("consumes");
        assert_eq!((take(&mut fast, 2), take(&mut slow, 2)), ("de".into(), "ab".into()));
        fast.commit(&[]).expect("commits");
        slow.commit(&[]).expect("commits");
        let kept = broker.log.stream(stream(first).expect("is one")).first_seq();
        assert_eq!(kept, 2, "the slower group has not read \"c\"");
    }
}
