//! Row raft-engine: one raft group per thread, or its own of as many as there are streams, in turn; a batch of one entry per
//! commit, `sync` set.

use std::sync::Arc;

use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

use seawall_gauge::scenario::log::contest::{Opening, SEGMENT_BYTES};
use seawall_gauge::testbed::real::{Fault, Writer};

/// An entry is a record whose first eight bytes are its index.
struct Indexed;

impl MessageExt for Indexed {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        entry.value.first_chunk().map_or(0, |index| u64::from_le_bytes(*index))
    }
}

/// A raft group: its number, and the index of its last entry.
struct Group {
    id: u64,
    index: u64,
}

struct RaftEngine {
    engine: Arc<Engine>,
    groups: Vec<Group>,
    next: usize,
    batch: LogBatch,
    entry: [BytesValue; 1],
}

pub(crate) fn open(opening: &Opening<'_>) -> Result<Vec<Box<dyn Writer>>, Fault> {
    let dir = opening.folder;
    let dir = dir.to_str().ok_or_else(|| format!("{}: raft-engine wants a path in UTF-8", dir.display()))?;
    let file = u64::from(SEGMENT_BYTES);
    let config = Config {
        dir: dir.to_owned(),
        target_file_size: ReadableSize(file),
        // Two files and half as many again are recycled: without this nothing would be for ten gigabytes.
        purge_threshold: ReadableSize(2 * file),
        enable_log_recycle: true,
        prefill_for_recycle: true,
        // The records here do not compress.
        batch_compression_threshold: ReadableSize(0),
        ..Config::default()
    };
    let engine = Arc::new(Engine::open(config)?);
    let threads = opening.threads as u64;
    let count = u64::from(opening.streams).max(threads);
    let writer = |first| -> Box<dyn Writer> {
        let groups = (first..=count).step_by(opening.threads).map(|id| Group { id, index: 0 }).collect();
        let entry = [BytesValue::default()];
        Box::new(RaftEngine {
            engine: Arc::clone(&engine),
            groups,
            next: 0,
            batch: LogBatch::default(),
            entry,
        })
    };
    Ok((1..=threads).map(writer).collect())
}

impl Writer for RaftEngine {
    fn put(&mut self, record: &[u8]) -> Result<(), Fault> {
        let at = self.next;
        self.next = if at + 1 == self.groups.len() { 0 } else { at + 1 };
        let group = &mut self.groups[at];
        group.index += 1;
        let [entry] = &mut self.entry;
        entry.value.clear();
        entry.value.extend_from_slice(record);
        entry.value[..8].copy_from_slice(&group.index.to_le_bytes());
        self.batch.add_entries::<Indexed>(group.id, &self.entry)?;
        self.engine.write(&mut self.batch, true)?;
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), Fault> {
        for group in &self.groups {
            self.engine.compact_to(group.id, group.index);
        }
        // Groups that it names want to be compacted: each is, in its turn.
        self.engine.purge_expired_files()?;
        Ok(())
    }
}
