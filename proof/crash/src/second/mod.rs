//! Tests the release binary under another kernel in an emulator whose power is cut.
//!
//! Debian's kernel runs in an emulator, on a disk that is our own NBD server; a cut is the end of the emulator and of
//! everything the disk's cache had not made durable. The writer, the witness and the judge are those of `seawall
//! powercut`, so this is its rehearsal too.
//!
//! | module | what it does |
//! | --- | --- |
//! | `bus` | defines how the machine reaches the disk |
//! | `cache` | models the disk and its volatile cache |
//! | `nbd` | serves that disk to the emulator |
//! | `nvme`, `nvme_tcp` | serves it to the machine's own `NVMe` driver, with FUA on each write |
//! | `initramfs` | builds the system that the machine boots |
//! | `machine` | starts the emulator, reads its console and cuts it off |
//! | `rows` | runs the rows that need a special drive, with their calls and what they made the disk do |
//! | `stacks` | runs the tests of stacks of devices and file systems on this kernel |
//! | `states` | records traffic and judges the states that it allows |
//! | `campaign` | repeats cuts and sums up the verdicts |

mod bus;
pub(crate) mod cache;
pub(crate) mod campaign;
mod initramfs;
mod machine;
mod nbd;
mod nvme;
mod nvme_tcp;
mod rows;
mod stacks;
mod states;
