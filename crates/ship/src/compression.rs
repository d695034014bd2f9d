//! Compresses and decompresses the payload of each message: zstd, with the feature `zstd`.
//!
//! A message whose payload is compressed says so in its header, with the length before, and is of version 2: a reader of version 1 refuses it as
//! one that it does not know. One that does not become smaller stays as it is, of version 1.
//!
//! Invariants: what is unpacked has exactly the length that the header states, whose checksum was checked before; nothing longer is ever made.

use std::borrow::Cow;

use crate::error::{Error, Result};

/// How hard it is tried: about 400 MB/s on one processor, a half to a tenth of the bytes of text.
#[cfg(feature = "zstd")]
const LEVEL: i32 = 1;

/// Whether this build can compress.
pub const IS_BUILT: bool = cfg!(feature = "zstd");

/// Refuses what this build cannot do.
///
/// # Errors
/// [`Error::Option`].
pub fn check() -> Result<()> {
    let reason = "needs a build with the feature `zstd`".to_owned();
    if IS_BUILT { Ok(()) } else { Err(Error::Option { option: "compress", reason }) }
}

/// The payload compressed, if that is shorter.
#[cfg(feature = "zstd")]
pub(crate) fn pack(payload: &[u8]) -> Option<Vec<u8>> {
    let packed = zstd::bulk::compress(payload, LEVEL).ok()?;
    (packed.len() < payload.len()).then_some(packed)
}

/// Nothing is compressed.
#[cfg(not(feature = "zstd"))]
pub(crate) fn pack(_: &[u8]) -> Option<Vec<u8>> {
    None
}

/// The payload as it was before, of `raw_bytes` bytes if it was compressed.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn unpack(payload: &[u8], raw_bytes: Option<u32>) -> Result<Cow<'_, [u8]>, &'static str> {
    let Some(raw_bytes) = raw_bytes else { return Ok(Cow::Borrowed(payload)) };
    let raw_bytes = usize::try_from(raw_bytes).map_err(|_| "its payload is too long for memory")?;
    unpacked(payload, raw_bytes).map(Cow::Owned)
}

#[cfg(feature = "zstd")]
fn unpacked(payload: &[u8], raw_bytes: usize) -> Result<Vec<u8>, &'static str> {
    let wrong = "its payload does not decompress to the length that it states";
    let unpacked = zstd::bulk::decompress(payload, raw_bytes).map_err(|_| wrong)?;
    if unpacked.len() == raw_bytes { Ok(unpacked) } else { Err(wrong) }
}

#[cfg(not(feature = "zstd"))]
fn unpacked(_: &[u8], _: usize) -> Result<Vec<u8>, &'static str> {
    Err("its payload is compressed: read it with a build with the feature `zstd`")
}
