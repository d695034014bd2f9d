//! Memory that may not be there is asked for by the allocator's own call, whose refusal is no abort.

use std::alloc::{Layout, alloc_zeroed};

pub(crate) fn try_zeroed(bytes: usize) -> Option<Vec<u8>> {
    let layout = Layout::array::<u8>(bytes).ok()?;
    if bytes == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return None;
    }
    // SAFETY: allocated by the global allocator for as many bytes as the capacity says, and all of them are zeros.
    Some(unsafe { Vec::from_raw_parts(memory, bytes, bytes) })
}
