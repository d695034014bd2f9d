//! Hints to the processor that memory is about to be written.
//!
//! Invariant: the hint is only advice: it changes no byte, and a processor that ignores it does the same work later.

/// The unit in which processors move memory, in bytes.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// Has the lines of `bytes` fetched; see PREFETCHW in Intel's SDM, volume 2B.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn about_to_write(bytes: &mut [u8]) {
    use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
    for line in bytes.chunks(LINE_BYTES) {
        // SAFETY: a hint, which neither reads nor writes nor faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.as_ptr().cast()) };
    }
}

/// Does nothing: the standard library offers no such hint for other processors.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn about_to_write(_bytes: &mut [u8]) {}
