//! Systems without large-page advice: does nothing.

/// Does nothing: macOS and illumos choose page sizes themselves, Windows wants a privilege for large ones.
pub(crate) fn prefer_large_pages(_bytes: &mut [u8]) {}
