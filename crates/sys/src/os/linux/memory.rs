//! Linux: advises the kernel to back a buffer by large pages, and gives the pages of an idle one back.
//!
//! Invariant: large pages are only advice: the call changes no byte, and a kernel may ignore it.

use crate::buffer::{ALIGNMENT, LARGE_PAGE};

/// Gives the whole pages inside `bytes` back; see madvise(2), `MADV_DONTNEED`. Private memory reads as zeros afterwards.
pub(crate) fn give_back(bytes: &mut [u8]) -> bool {
    let skip = bytes.as_ptr().align_offset(ALIGNMENT);
    let Some(inside) = bytes.get_mut(skip..) else { return false };
    let whole = inside.len() / ALIGNMENT * ALIGNMENT;
    // SAFETY: the range lies inside the slice, which is borrowed for writing, and any byte is a valid one. A range that may
    // not be given back (locked memory, pages larger than these) is refused and stays as it is.
    whole > 0 && unsafe { libc::madvise(inside.as_mut_ptr().cast(), whole, libc::MADV_DONTNEED) } == 0
}

/// Asks for large pages under every whole large page inside `bytes`; see madvise(2), `MADV_HUGEPAGE`.
pub(crate) fn prefer_large_pages(bytes: &mut [u8]) {
    let skip = bytes.as_ptr().align_offset(LARGE_PAGE);
    let Some(inside) = bytes.get_mut(skip..) else { return };
    let whole = inside.len() / LARGE_PAGE * LARGE_PAGE;
    if whole > 0 {
        // SAFETY: the range lies inside the slice and starts at a page; the advice changes no byte. The answer does
        // not matter: kernels without large pages say EINVAL, and the buffer then is as good as any other.
        let _ = unsafe { libc::madvise(inside.as_mut_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
    }
}
