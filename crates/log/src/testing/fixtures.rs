//! Builds shared fixtures of unit tests: the configuration of a log, its core and the headers of its segments.

use seawall_sys::durability::{
    DeviceCache, Durability, FileState, Medium, Promiser, Surroundings, WeakCalls,
};

use crate::commit::state::{Core, CoreConfig, ResumePoint};
use crate::format::checksum::crc32c;
use crate::format::{BATCH_HEADER_BYTES, BatchHeader, BatchKind, LogId, SegmentHeader};
use crate::lsn::Lsn;
use crate::segment::Place;
use crate::stream::state::TaggedState;

/// The log of all fixtures.
const LOG_ID: LogId = LogId([7; 16]);

/// A log of class power loss that holds `depth` batches in flight and four in memory.
pub(crate) fn config(block_bytes: u16, batch_bytes: usize, depth: usize) -> CoreConfig {
    CoreConfig {
        log_id: LOG_ID,
        epoch: 1,
        block_bytes,
        batch_bytes,
        depth,
        memory_bytes: 4 * batch_bytes,
        class: Durability::PowerLoss,
    }
}

/// The state machine of that log, empty, with its first batch at `place`.
pub(crate) fn core(config: CoreConfig, place: Place) -> Core {
    let (spares, tagged) = (Vec::new(), TaggedState::default());
    Core::new(config, ResumePoint { end: Lsn::ZERO, trim: Lsn::ZERO, place, spares, tagged })
}

/// The header of a segment of that log.
pub(crate) fn segment(number: u64, block_bytes: u16, segment_bytes: u64, first_lsn: Lsn) -> SegmentHeader {
    SegmentHeader {
        block_bytes,
        log_id: LOG_ID,
        epoch: 1,
        number,
        segment_bytes,
        first_lsn,
        trim_lsn: Lsn::ZERO,
        previous: number - 1,
        link: 0,
        class: Durability::PowerLoss,
        streams_from: 0,
        cuts_from: 0,
    }
}

/// The header of a batch of that log at `offset` of a segment, that holds and states nothing: a mark.
pub(crate) fn mark(segment: &SegmentHeader, offset: u64) -> BatchHeader {
    BatchHeader {
        kind: BatchKind::Mark,
        log_id: segment.log_id,
        epoch: segment.epoch,
        segment: segment.number,
        offset,
        lsn: Lsn::ZERO,
        durable: Lsn::ZERO,
        acknowledged: Lsn::ZERO,
        trim_lsn: Lsn::ZERO,
        body_bytes: 0,
        records: 0,
        link: 0,
        body_checksum: crc32c(&vec![0; usize::from(segment.block_bytes) - BATCH_HEADER_BYTES]),
        tagged: false,
        cuts: false,
        time_us: 0,
    }
}

/// A zero-filled file that nothing lies about.
pub(crate) fn surroundings(device_cache: DeviceCache, copy_on_write: bool, medium: Medium) -> Surroundings {
    Surroundings {
        medium,
        copy_on_write,
        shares_extents: copy_on_write,
        file_state: FileState::ZeroFilled,
        device_cache,
        cached_image: false,
        forced_writes_honoured: None,
        takes_fua: false,
        synchronous: false,
        weak_calls: WeakCalls::default(),
        promiser: Promiser::Device,
        lies: Vec::new(),
    }
}
