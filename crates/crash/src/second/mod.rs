//! Does the release binary keep its word under another kernel, when the power really goes?
//!
//! Debian's kernel runs in an emulator, on a disk that is our own NBD server; a cut is the end of the emulator and of
//! everything the disk's cache had not made durable. The writer, the witness and the judge are those of `seawall
//! powercut`, so this is its rehearsal too.
//!
//! | file | question |
//! | --- | --- |
//! | `cache` | what does a disk keep when the power goes? |
//! | `nbd` | how does the emulator speak to that disk? |
//! | `initramfs` | what runs in the emulated machine? |
//! | `machine` | how is it started, heard and cut off? |
//! | `campaign` | cut after cut: what came of it? |

pub(crate) mod cache;
pub(crate) mod campaign;
mod initramfs;
mod machine;
mod nbd;
