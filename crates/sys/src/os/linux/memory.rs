//! Linux: advises the kernel to back a buffer by large pages.
//!
//! Invariant: the call is only advice: it changes no byte, and a kernel may ignore it.

use crate::buffer::LARGE_PAGE;

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
