//! Tests that a foreign file which has the name of the next segment is left alone, whenever it appears.
//!
//! A file of another program appears under that name before each step of a segment task. It must stay as it is, the log must
//! lose nothing, and opening must name the file.

use super::disk::SimDisk;
use super::life::plan;
use super::media::Media;
use seawall_sys::durability::Durability;

use crate::error::{Error, Result};
use crate::format::segment_name;
use crate::recovery::recover;
use crate::segment::Spare;
use crate::segment::lifecycle::{Progress, SegmentTask, Task};
use crate::storage::disk::{Access, Disk, FileId, open, read_full, write_all};
use crate::testing::oracle::Violation;

/// The name that is taken, after the started segment 1 and the prepared segment 2.
const NUMBER: u64 = 3;
const BYTES: usize = 8192;

/// Tries every kind of task with the file appearing before every step; returns how many that were.
///
/// # Errors
/// The first file that was not left alone, as a violation.
pub fn taken() -> Result<u64, Violation> {
    let to = Spare { number: NUMBER, bytes: BYTES as u64 };
    let mut scenes = 0;
    for task in [Task::Prepare(to), Task::Recycle { from: NUMBER - 1, to }] {
        let mut before = 0;
        while scene(task, before)? {
            scenes += 1;
            before += 1;
        }
    }
    Ok(scenes)
}

/// One log; the file appears before step `before`, counted from 0. Returns whether the name was free until then.
fn scene(task: Task, before: usize) -> Result<bool, Violation> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Violation::Refused {
        error: format!("{task:?}, step {before}: {what}: {error}"),
    };
    let mut disk = SimDisk::idle(Media::default(), 1, None);
    recover(&mut disk, &plan(true, Durability::PowerLoss)).map_err(|error| failed("a new log", &error))?;
    let spare = Spare { number: NUMBER - 1, bytes: BYTES as u64 };
    SegmentTask::new(Task::Prepare(spare), BYTES)
        .finish(&mut disk)
        .map_err(|error| failed("a spare", &error.error))?;
    let mut task = SegmentTask::new(task, BYTES);
    for _ in 0..before {
        task.step(&mut disk).map_err(|error| failed("a step", &error.error))?;
    }
    let put = put(&mut disk).map_err(|error| failed("the foreign file", &error))?;
    let Some(file) = put else { return Ok(false) };
    let refused = loop {
        match task.step(&mut disk) {
            Ok(Progress::More) => {}
            Ok(Progress::Ended(_)) => {
                return Err(failed("ended", &"a name that is taken was given"));
            }
            Err(error) => break error,
        }
    };
    untouched(&mut disk, file).map_err(|error| failed("it was replaced or written to", &error))?;
    let of_file = matches!(&refused.error, Error::Io { path, .. } if path.ends_with(segment_name(NUMBER)));
    if refused.fatal || !of_file {
        return Err(failed("an error that is not fatal and names the file was due", &refused.error));
    }
    task.give_up(&mut disk).map_err(|error| failed("giving up", &error))?;
    let names = disk.list().map_err(|error| failed("listing", &error))?;
    if names.len() != 3 {
        return Err(failed("segments 1 and 2 and the file were to be left", &format!("{names:?}")));
    }
    match recover(&mut disk, &plan(true, Durability::PowerLoss)) {
        Err(Error::ForeignFile { path }) if path.ends_with(segment_name(NUMBER)) => {}
        other => return Err(failed("opening is to name the file", &format!("{:?}", other.err()))),
    }
    untouched(&mut disk, file).map_err(|error| failed("it was replaced or written to", &error))?;
    disk.remove(&segment_name(NUMBER)).map_err(|error| failed("moving it out", &error))?;
    recover(&mut disk, &plan(true, Durability::PowerLoss))
        .map_err(|error| failed("opening without it", &error))?;
    Ok(true)
}

/// Puts the file there; nothing if the name is taken already.
fn put(disk: &mut SimDisk) -> Result<Option<FileId>> {
    let name = segment_name(NUMBER);
    let file = match disk.create(&name) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(None),
        made => made.map_err(|source| Error::io("create", &name, source))?,
    };
    write_all(disk, &name, (file, 0), &[0x5A; BYTES], true)?;
    Ok(Some(file))
}

/// Fails unless the file is still there as it was put.
fn untouched(disk: &mut SimDisk, file: FileId) -> Result<()> {
    let name = segment_name(NUMBER);
    let found = open(disk, &name, Access::Direct)?;
    let mut bytes = [0; BYTES];
    let read = read_full(disk, &name, found, 0, &mut bytes)?;
    let same = found == file && read == BYTES && bytes == [0x5A; BYTES];
    if same { Ok(()) } else { Err(Error::ForeignFile { path: name.into() }) }
}
