//! What a system provides that lacks something: refusals with their reason, and substitutes that promise nothing.

pub(crate) mod counters;
pub(crate) mod cpuid;
pub(crate) mod crash_memory;
pub(crate) mod fork;
pub(crate) mod inspect;
pub(crate) mod journal;
pub(crate) mod local_socket;
pub(crate) mod process;
pub(crate) mod raw_device;
pub(crate) mod residency;
pub(crate) mod rings;
pub(crate) mod scratch;
pub(crate) mod shared_memory;
pub(crate) mod signal;
pub(crate) mod store;
pub(crate) mod thread;
pub(crate) mod wait;

/// Only Linux has pwritev2(2).
pub(crate) const WRITE_VECTOR: Option<crate::write_call::Put> = None;

/// Advice about large pages: macOS and illumos choose page sizes themselves, Windows wants a privilege for large ones. None
/// of them takes single pages of the heap back so that they read as zeros.
pub(crate) mod memory {
    pub(crate) fn prefer_large_pages(_: &mut [u8]) {}

    pub(crate) fn give_back(_: &mut [u8]) -> bool {
        false
    }
}

/// There is nothing to forbid.
#[cfg(feature = "testing")]
pub mod confinement {}

/// There is no ring to be used wrongly.
#[cfg(feature = "testing")]
pub mod mistakes {}
