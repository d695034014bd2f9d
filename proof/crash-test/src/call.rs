//! What the recorder saw: the calls of a program on one directory, and its acknowledgements, in order.

use crate::tree::{Inode, Kind, Name, Tree};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A call that changed the directory or made it durable, or an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// A new file, folder or link under a new name.
    Create {
        /// The folder of the name.
        parent: Inode,
        /// The name.
        name: Name,
        /// What it names; not used before.
        inode: Inode,
        /// What was made.
        kind: Kind,
        /// Its permission bits.
        mode: u32,
    },
    /// A new file without a name (`O_TMPFILE`).
    Temporary {
        /// The file.
        inode: Inode,
        /// Its permission bits.
        mode: u32,
    },
    /// Permission bits were changed (`chmod`).
    Mode {
        /// The file or folder.
        inode: Inode,
        /// The bits after.
        mode: u32,
    },
    /// One more name of a file.
    Link {
        /// The file.
        inode: Inode,
        /// The folder of the new name.
        parent: Inode,
        /// The new name.
        name: Name,
    },
    /// A name was removed: `unlink` or `rmdir`.
    Remove {
        /// The folder of the name.
        parent: Inode,
        /// The name.
        name: Name,
        /// What it named.
        inode: Inode,
    },
    /// A name became another one.
    Rename {
        /// Folder and name before.
        from: (Inode, Name),
        /// Folder and name after.
        to: (Inode, Name),
        /// What was renamed.
        inode: Inode,
        /// What the name after named before, if anything.
        over: Option<Inode>,
        /// Whether the two names were exchanged (`RENAME_EXCHANGE`).
        exchange: bool,
    },
    /// Data was written; the file grew if it ended past the end.
    Write {
        /// The file.
        inode: Inode,
        /// Where, in bytes.
        offset: u64,
        /// What; shared with the record.
        data: Arc<[u8]>,
        /// Whether it is a page of a mapping, which the kernel may have written at any time since the sync before.
        mapped: bool,
    },
    /// A range inside the file reads as zeros from now on (`FALLOC_FL_PUNCH_HOLE`, `FALLOC_FL_ZERO_RANGE`).
    Zero {
        /// The file.
        inode: Inode,
        /// Where it begins, in bytes.
        offset: u64,
        /// Its length in bytes.
        bytes: u64,
    },
    /// The size was set: `ftruncate`, `O_TRUNC`, `fallocate` past the end.
    Resize {
        /// The file.
        inode: Inode,
        /// The size after, in bytes.
        bytes: u64,
    },
    /// `fsync` or `fdatasync` of a file or folder; also the sync that an `O_DSYNC` write implies.
    Sync {
        /// The file or folder.
        inode: Inode,
        /// Whether it was `fdatasync`.
        data_only: bool,
    },
    /// `fsync` or `fdatasync` that was answered with an error.
    SyncFailed {
        /// The file or folder.
        inode: Inode,
    },
    /// `sync` or `syncfs`.
    SyncAll,
    /// The program printed a line: its bytes without the newline.
    Acknowledge {
        /// The line.
        line: Arc<[u8]>,
    },
}

/// A call, who made it and when it had ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The call.
    pub call: Call,
    /// The thread that made it, as the kernel names it; 0 for acknowledgements.
    pub thread: u32,
    /// The number of events that had begun when it was answered, this one included: a sync covers the events whose
    /// `ended` is at most its own place in the record.
    pub ended: usize,
}

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The directory before the run.
    pub before: Tree,
    /// What happened.
    pub events: Vec<Event>,
    /// What happened that the record does not show, a sentence each.
    pub notices: Vec<String>,
}

impl Record {
    /// The lines acknowledged by the first `cut` events.
    #[must_use]
    pub fn acknowledged(&self, cut: usize) -> Vec<Arc<[u8]>> {
        let line = |event: &Event| match &event.call {
            Call::Acknowledge { line } => Some(Arc::clone(line)),
            _ => None,
        };
        self.events[..cut].iter().filter_map(line).collect()
    }

    /// This record without the events that `stays` refuses, and with the calls of `after` after each other one; also where
    /// each event is now, or the one before it if it was refused.
    #[must_use]
    pub(crate) fn edited(
        &self,
        stays: impl Fn(usize, &Event) -> bool,
        after: impl Fn(usize, &Event) -> Vec<Call>,
    ) -> (Self, Vec<usize>) {
        let (mut events, mut places) =
            (Vec::with_capacity(self.events.len()), Vec::with_capacity(self.events.len()));
        for (place, event) in self.events.iter().enumerate() {
            if stays(place, event) {
                events.push(event.clone());
            }
            places.push(events.len().saturating_sub(1));
            for call in after(place, event) {
                events.push(Event { call, thread: event.thread, ended: 0 });
            }
        }
        for (place, event) in events.iter_mut().enumerate() {
            let ended = event.ended.checked_sub(1).and_then(|last| places.get(last)).copied();
            event.ended = ended.map_or(0, |last: usize| last + 1).max(place + 1);
        }
        (Self { events, ..self.clone() }, places)
    }
}
