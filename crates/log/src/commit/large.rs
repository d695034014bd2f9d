//! Accepts records too large to share a batch.
//!
//! Invariant: they are copied and added to the checksum before the core is locked, because every other append would wait for that.

use crate::commit::group::Group;
use crate::commit::state::{Core, Refusal};
use crate::error::Result;
use crate::format::BATCH_HEADER_BYTES;
use crate::format::buffer::AlignedBuf;
use crate::format::checksum::crc32c;
use crate::lsn::Lsn;

/// Records that fill a batch of their own, in its buffer.
pub(crate) struct Large<'a> {
    /// The buffer; what is left in it goes back.
    pub(crate) buf: &'a mut Option<AlignedBuf>,
    /// Bytes used, header room included.
    pub(crate) used: usize,
    pub(crate) sum: u32,
}

/// Has `adopt` accept records that fill a batch of their own, and that may make room: see [`Core::admit_large`].
pub(crate) fn accept_large<const WAIT: bool>(
    group: &Group,
    parts: [&[u8]; 2],
    makes_room: bool,
    mut adopt: impl FnMut(&mut Core, Large<'_>) -> std::result::Result<Lsn, Refusal>,
) -> Result<Lsn> {
    let used = BATCH_HEADER_BYTES + parts[0].len() + parts[1].len();
    let capacity = used.next_multiple_of(group.config.block_bytes.into());
    drop(group.accept_or::<WAIT>(|core| core.admit_large(capacity, makes_room))?);
    let mut buf = AlignedBuf::zeroed(capacity);
    let (head, body) = buf.bytes_mut()[BATCH_HEADER_BYTES..used].split_at_mut(parts[0].len());
    head.copy_from_slice(parts[0]);
    body.copy_from_slice(parts[1]);
    let sum = crc32c(&buf.bytes()[BATCH_HEADER_BYTES..used]);
    #[cfg(feature = "simulation")]
    if let Some(faults) = &group.writers.faults {
        faults.copied();
    }
    let mut buf = Some(buf);
    let accepted = group.accept_or::<WAIT>(|core| adopt(core, Large { buf: &mut buf, used, sum }));
    // An append that waits for this memory could request nothing before: only now the batch can be written. A waker may
    // append itself, so the core is released for it.
    let lsn = accepted.map(|(lsn, core)| {
        drop(core);
        lsn
    });
    if let Some(unused) = buf {
        group.core().recycle(unused);
    }
    let waiters = &group.waiters;
    if WAIT || lsn.is_ok() {
        waiters.room_for_appends(group.config.batch_bytes);
    } else {
        // It may be in line itself: see `AppendQueue::poll`.
        waiters.append_gate.open();
    }
    lsn
}
