//! Tests of shipping from outside, in one program: each file covers one part of the interface.

mod archive;
mod common;
mod compaction;
#[cfg(feature = "zstd")]
mod compression;
#[cfg(feature = "metrics")]
mod metrics;
mod model;
mod shipped_log;
mod shipping;
mod sources;
mod standby;
