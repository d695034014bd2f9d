//! Tests the release binary under another kernel in an emulator whose power is cut.
//!
//! Debian's kernel runs in an emulator, on a disk that is our own NBD server; a cut is the end of the emulator and of
//! everything the disk's cache had not made durable. The writer, the witness and the judge are those of `seawall
//! powercut`, so this is its rehearsal too.
//!
//! | module | what it does |
//! | --- | --- |
//! | `cache` | models the disk and its volatile cache |
//! | `nbd` | serves that disk to the emulator |
//! | `initramfs` | builds the system that the machine boots |
//! | `machine` | starts the emulator, reads its console and cuts it off |
//! | `campaign` | repeats cuts and sums up the verdicts |

pub(crate) mod cache;
pub(crate) mod campaign;
mod initramfs;
mod machine;
mod nbd;
