//! Allocates buffers that may not fit into memory, and hints to the processor that memory is about to be written.
//!
//! Invariant: a hint is only advice: it changes no byte, and a processor that ignores it does the same work later.

use std::alloc::{Layout, alloc_zeroed};

/// Zeros from the allocator's own call, whose refusal is no abort.
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

/// The unit in which processors move memory, in bytes.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// Has the lines of `bytes` bytes from `first` on fetched; see PREFETCHW in Intel's SDM, volume 2B.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn about_to_write(first: *const u8, bytes: usize) {
    use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
    for at in (0..bytes).step_by(LINE_BYTES) {
        // SAFETY: a hint, which neither reads nor writes nor faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(first.wrapping_add(at).cast()) };
    }
}

/// Does nothing: the standard library offers no such hint for other processors.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn about_to_write(_first: *const u8, _bytes: usize) {}
