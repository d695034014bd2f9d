//! Forbids the cancellation of the calling thread: `pthread_setcancelstate(3)`.

use libc::c_int;

unsafe extern "C" {
    // The crate `libc` does not have it.
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLE: c_int = if cfg!(target_os = "macos") { 0 } else { 1 };

#[derive(Debug)]
pub(crate) struct CancelState(c_int);

impl CancelState {
    #[inline]
    pub(crate) fn forbid() -> Self {
        let mut old = DISABLE;
        // SAFETY: the pointer is to a live, writable number.
        let _ = unsafe { pthread_setcancelstate(DISABLE, &raw mut old) };
        Self(old)
    }

    #[inline]
    pub(crate) fn restore(&self) {
        let mut old = 0;
        // SAFETY: as above; it is no cancellation point.
        let _ = unsafe { pthread_setcancelstate(self.0, &raw mut old) };
    }
}
