//! Runs the table of stacks of the program's tests in the machine, whose kernel is not that of this system.
//!
//! The tests are those that run here too, on the machine's own disk: the program of tests goes into the machine with every
//! program that it starts, and with their libraries. What it says is printed, stacks included that this kernel has no module for.

use std::path::Path;

use super::cache::{Disk, Nature};
use super::campaign::{CutOptions, machine_error};
use super::initramfs::{Kernel, Task};
use super::states::watch;
use crate::blocks::event::Event;
use crate::error::Result;

/// The tests, by the beginnings of their names.
const TESTS: &str = "lies::stacks::no_stack lies::stacks::memory";

/// What they start.
const PROGRAMS: [&str; 9] =
    ["mount", "umount", "losetup", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "tune2fs", "chattr", "dmsetup"];

/// Of which kernel modules their stacks are, and what those ask for by name.
#[rustfmt::skip]
const MODULES: &[&str] = &[
    "loop", "ext4", "xfs", "btrfs", "overlay", "vfat", "nls_cp437", "nls_ascii", "nls_utf8", "nls_iso8859-1",
    "dm-mod", "dm-flakey", "dm-crypt", "xts", "ecb", "aes_generic", "dm-thin-pool", "dm-cache", "dm-cache-smq", "raid1",
    "brd", "lzo-rle", "zram", "null_blk", "scsi_debug", "sd_mod",
];

/// Room for the image of one stack at a time.
const DISK_BYTES: u64 = 512 << 20;

/// What begins the last line: the exit code follows.
const RESULT: &str = "result ";

/// Boots the machine once and runs `tests` there; whether they held.
pub(super) fn run(options: &CutOptions, tests: &Path) -> Result<bool> {
    let kernel = Kernel::find(&options.kernel)?;
    let scratch = tempfile::tempdir()?;
    let disk = Disk::new(Nature::Honest, options.fs.image(scratch.path(), DISK_BYTES)?);
    let tests = tests.canonicalize()?;
    let program = tests.file_name().unwrap_or_default().to_string_lossy();
    let script = format!(
        "export PATH=/:/bin SEAWALL_TEST_PLACE=/disk DM_DISABLE_UDEV=1\n\
         (echo '#!/bin/sh'; echo 'exec mkdosfs \"$@\"') >/bin/mkfs.vfat; chmod +x /bin/mkfs.vfat\n\
         (/{program} --ignored --nocapture --test-threads 1 {TESTS} 2>&1; echo {RESULT}$?) | tee $V\n"
    );
    let programs = PROGRAMS.iter().map(Into::into).chain([tests.clone()]).collect();
    let task = Task::Script { script, programs, modules: MODULES };
    let watched = watch(options, &kernel, disk, task, "", None)?;
    let said = watched.events.iter().filter_map(|event| match event {
        Event::Mark(line) => Some(line.as_str()),
        _ => None,
    });
    let said: Vec<&str> = said.collect();
    let Some((Some(code), lines)) = said.split_last().map(|(last, lines)| (last.strip_prefix(RESULT), lines))
    else {
        return Err(machine_error("the tests did not end", watched.console));
    };
    println!("Linux {}:\n{}", kernel.release, lines.join("\n"));
    Ok(code == "0")
}
