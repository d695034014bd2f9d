//! Segment lifecycle: prepares, recycles and removes segments, one crash-safe step at a time.
//!
//! The steps run off the hot path, one at a time, so that the crash campaign can cut the power between any two of
//! them:
//!
//! ```text
//! prepare:  remove stale n.new -> create n.new -> reserve -> fill with zeros -> sync -> rename to n.seg -> sync dir
//! recycle:  rename k.seg to n.seg -> sync dir                     (old batches name segment k, so none is valid in n)
//! remove:   remove k.seg -> sync dir
//! ```
//!
//! Invariants: a name that ends in `.seg` stands for a file whose blocks are all written and synced; the directory is
//! synced after each rename or removal before the next one, so segments vanish oldest first and no gap can appear; a
//! failed sync is never tried again, because a second sync reports success over lost data.

use crate::error::{Error, Result};
use crate::format::{preparing_name, segment_name};
use crate::segment::Spare;
use crate::storage::disk::{Disk, FileId, has_name, remove, sync, sync_dir, write_all};
use seawall_sys::planted;

/// What is to be done with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Prepare(Spare),
    Recycle {
        from: u64,
        to: Spare,
    },
    Remove(u64),
    /// Replace a prepared segment, which is too small, by a larger one with the same number.
    Replace(Spare),
}

impl Task {
    /// Whether a file is created and filled.
    pub(crate) fn fills(self) -> bool {
        matches!(self, Self::Prepare(_) | Self::Replace(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    /// The task has ended; the segment that is ready to be started, unless one was removed.
    Ended(Option<Spare>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Clear,
    Create,
    Reserve(FileId),
    Fill(FileId, u64),
    Sync(FileId),
    Rename,
    SyncDir,
}

/// A task that runs, step by step.
#[derive(Debug)]
pub(crate) struct SegmentTask {
    task: Task,
    stage: Stage,
    fill_bytes: usize,
}

#[derive(Debug)]
pub(crate) struct TaskError {
    pub(crate) error: Error,
    /// Whether a sync failed, after which the state on disk stays unknown.
    pub(crate) fatal: bool,
}

/// Gives a file the name of a segment. A foreign file that has this name is left alone.
fn name_segment<D: Disk>(disk: &mut D, from: &str, name: &str) -> Result<()> {
    let named = planted!(RenameReplaces(disk, from, name), disk.rename(from, name));
    named.map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => {
            let taken = "a foreign file has this name: move it out of the directory";
            Error::io("prepare", name, std::io::Error::new(source.kind(), taken))
        }
        _ => Error::io("rename", from, source),
    })
}

impl SegmentTask {
    /// Starts `task`; fills by writes of `fill_bytes` bytes.
    pub(crate) fn new(task: Task, fill_bytes: usize) -> Self {
        let stage = if task.fills() { Stage::Clear } else { Stage::Rename };
        Self { task, stage, fill_bytes }
    }

    fn spare(&self) -> Spare {
        match self.task {
            Task::Prepare(spare) | Task::Recycle { to: spare, .. } | Task::Replace(spare) => spare,
            Task::Remove(number) => Spare { number, bytes: 0 },
        }
    }

    pub(crate) fn step<D: Disk>(&mut self, disk: &mut D) -> Result<Progress, TaskError> {
        let spare = self.spare();
        let staging = preparing_name(spare.number);
        let syncs = matches!(self.stage, Stage::Sync(_) | Stage::SyncDir);
        let fatal =
            planted!(OpenFailureIsFatal(syncs, matches!(self.stage, Stage::Clear | Stage::Create)), syncs);
        let next = self.advance(disk, spare, &staging).map_err(|error| TaskError { error, fatal })?;
        if let Some(stage) = next {
            self.stage = stage;
            return Ok(Progress::More);
        }
        let removes = matches!(self.task, Task::Remove(_));
        Ok(Progress::Ended((!removes).then_some(spare)))
    }

    /// Does the work of the current stage and returns the next one, `None` at the end.
    fn advance<D: Disk>(&mut self, disk: &mut D, spare: Spare, staging: &str) -> Result<Option<Stage>> {
        match self.stage {
            Stage::Clear => {
                if has_name(disk, staging)? {
                    remove(disk, staging)?;
                }
                Ok(Some(Stage::Create))
            }
            Stage::Create => {
                let file = disk.create(staging).map_err(|source| Error::io("create", staging, source))?;
                Ok(Some(Stage::Reserve(file)))
            }
            Stage::Reserve(file) => {
                let reserved = disk.allocate(file, spare.bytes);
                reserved.map_err(|source| Error::io("reserve space for", staging, source))?;
                Ok(Some(Stage::Fill(file, 0)))
            }
            Stage::Fill(file, at) => {
                let left = usize::try_from(spare.bytes - at).unwrap_or(usize::MAX);
                let bytes = left.min(self.fill_bytes);
                let zeros = crate::format::buffer::AlignedBuf::zeroed(bytes);
                write_all(disk, staging, (file, at), zeros.bytes(), false)?;
                let at = at + bytes as u64;
                let filled = at >= spare.bytes;
                Ok(Some(if filled { Stage::Sync(file) } else { Stage::Fill(file, at) }))
            }
            Stage::Sync(file) => {
                planted!(PrepareWithoutSync, sync(disk, staging, file)?);
                disk.close(file);
                Ok(Some(Stage::Rename))
            }
            Stage::Rename => {
                let name = segment_name(spare.number);
                match self.task {
                    // The replaced file is the prepared segment that was too small.
                    Task::Replace(_) => {
                        disk.replace(staging, &name)
                            .map_err(|source| Error::io("rename", staging, source))?;
                    }
                    Task::Prepare(_) => name_segment(disk, staging, &name)?,
                    Task::Recycle { from, .. } => name_segment(disk, &segment_name(from), &name)?,
                    Task::Remove(_) => remove(disk, &name)?,
                }
                Ok(Some(Stage::SyncDir))
            }
            Stage::SyncDir => {
                planted!(
                    PrepareWithoutDirSync | RetireWithoutDirSync(disk, self.task.fills()),
                    sync_dir(disk)
                )?;
                Ok(None)
            }
        }
    }

    /// Gives up a task that has not ended and removes the staging file, so that a full disk does not get fuller with each
    /// attempt.
    pub(crate) fn give_up<D: Disk>(self, disk: &mut D) -> Result<()> {
        let staging = preparing_name(self.spare().number);
        match self.stage {
            Stage::Reserve(file) | Stage::Fill(file, _) | Stage::Sync(file) => disk.close(file),
            Stage::Rename if self.task.fills() => {}
            _ => return Ok(()),
        }
        remove(disk, &staging)
    }

    /// Does all steps in one go; returns the segment that is ready to be started, unless one was removed.
    pub(crate) fn finish<D: Disk>(mut self, disk: &mut D) -> Result<Option<Spare>, TaskError> {
        loop {
            match self.step(disk) {
                Ok(Progress::More) => {}
                Ok(Progress::Ended(spare)) => return Ok(spare),
                Err(error) => {
                    if !error.fatal {
                        // The first failure is the one to return.
                        let _ = self.give_up(disk);
                    }
                    return Err(error);
                }
            }
        }
    }
}
