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
    let whole = std::ptr::slice_from_raw_parts_mut(memory, bytes);
    // SAFETY: allocated by the global allocator with this layout, and all of it is zeros.
    Some(Vec::from(unsafe { Box::from_raw(whole) }))
}
