//! Parses strace output into the system calls of each block.
//!
//! ```text
//!   openat(O_CREAT) fill fsync | openat … commits … fsync | openat … commits … fsync | …
//!   `-- making the journal --'   `-- a block, synced --'
//! ```
//!
//! The gauge makes the journal through one descriptor and syncs it there after every block, so that an fsync on a
//! descriptor that was not opened in a block ends it; a method uses descriptors of its own. A raw device is the journal
//! itself, which the gauge opens exclusively.
//!
//! A trace of [`super::nvme`] holds the requests of the disk as well, as calls of thread 0.
//!
//! Invariant: calls of two threads that strace prints in halves are joined before anything is parsed.

use std::collections::HashMap;

pub(crate) const TRACED: &str = "trace=openat,pwrite64,pwritev2,write,pwritev,fdatasync,fsync,sync,syncfs,sync_file_range,msync,mmap,io_uring_setup,io_uring_enter,io_uring_register";

/// The journal's name, and the raw device of [`super::nvme`].
const JOURNALS: [&str; 2] = ["seawall-journal", "/dev/nvme0n1"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// The thread.
    pub(crate) thread: u32,
    /// Its name.
    pub(crate) name: String,
    /// What stands between the parentheses.
    pub(crate) arguments: String,
    /// What stands behind the equals sign.
    pub(crate) result: String,
}

impl Call {
    fn parse(thread: u32, text: &str) -> Option<Self> {
        let (head, result) = text.rsplit_once(" = ")?;
        let (name, arguments) = head.trim_end().strip_suffix(')')?.split_once('(')?;
        // musl calls what glibc has given up.
        let name = if name == "open" { "openat" } else { name };
        Some(Self {
            thread,
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            result: result.to_owned(),
        })
    }

    /// The descriptor that it was called on or, for an open, gave.
    pub(crate) fn descriptor(&self) -> Option<u32> {
        let text = if self.name == "openat" { &self.result } else { &self.arguments };
        text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    fn concerns_journal(&self) -> bool {
        JOURNALS.iter().any(|journal| self.arguments.contains(journal))
    }

    /// Whether it is a request of the disk.
    pub(crate) fn is_request(&self) -> bool {
        self.thread == 0
    }

    /// The flags among `known` that the arguments hold.
    pub(crate) fn flags(&self, known: &[&'static str]) -> Vec<&'static str> {
        let words: Vec<&str> =
            self.arguments.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
        known.iter().copied().filter(|flag| words.contains(flag)).collect()
    }
}

/// The calls in the order in which they were begun.
pub(crate) fn parse(trace: &str) -> Vec<Call> {
    let mut texts: Vec<(u32, String)> = Vec::new();
    let mut halves: HashMap<u32, usize> = HashMap::new();
    for line in trace.lines() {
        let Some((thread, text)) = line.trim_start().split_once(' ') else { continue };
        let (Ok(thread), text) = (thread.parse(), text.trim()) else { continue };
        if let Some(first) = text.strip_suffix("<unfinished ...>") {
            halves.insert(thread, texts.len());
            texts.push((thread, first.trim_end().to_owned()));
        } else if let Some((_, second)) = text.split_once(" resumed>") {
            if let Some(index) = halves.remove(&thread) {
                texts[index].1.push_str(second);
            }
        } else {
            texts.push((thread, text.to_owned()));
        }
    }
    texts.iter().filter_map(|(thread, text)| Call::parse(*thread, text)).collect()
}

/// The calls of each block, in the order in which the blocks ran.
pub(crate) fn blocks(calls: &[Call]) -> Vec<Vec<Call>> {
    let mut blocks = between_syncs(calls);
    // The first is the filling.
    blocks.remove(0);
    blocks
}

/// The same of a raw device, which is not filled: what lies before the first block proves the methods.
pub(crate) fn blocks_of_raw_device(calls: &[Call]) -> Vec<Vec<Call>> {
    let mut blocks = between_syncs(calls);
    let opened = blocks[0].iter().rposition(|call| call.name == "openat").expect("the device was opened");
    blocks[0].drain(..opened);
    blocks
}

/// The calls on the journal between its syncs by the gauge.
fn between_syncs(calls: &[Call]) -> Vec<Vec<Call>> {
    let made = |call: &Call| {
        call.name == "openat" && call.concerns_journal() && !call.flags(&["O_CREAT", "O_EXCL"]).is_empty()
    };
    let begin = calls.iter().position(made).expect("the journal was made");
    let mut blocks: Vec<Vec<Call>> = Vec::new();
    let mut block: Vec<Call> = Vec::new();
    for call in &calls[begin + 1..] {
        let opened = |open: &Call| open.name == "openat" && open.descriptor() == call.descriptor();
        if call.name == "fsync" && call.concerns_journal() && !block.iter().any(opened) {
            blocks.push(std::mem::take(&mut block));
        } else if call.concerns_journal()
            || call.name.starts_with("io_uring")
            || call.name == "msync"
            || call.is_request()
        {
            block.push(call.clone());
        }
    }
    assert!(!blocks.is_empty(), "the journal was synced after it was made");
    blocks
}

#[test]
fn halves_of_two_threads_are_put_together() {
    let calls = parse(
        "10 openat(AT_FDCWD</a>, \"/a/seawall-7.tmp/seawall-journal\", O_RDWR|O_CREAT) = 3</a/seawall-7.tmp/seawall-journal>\n\
         11 fdatasync(4</a/b> <unfinished ...>\n\
         10 pwrite64(3</a/b>, \"\"..., 16384, 0) = 16384\n\
         11 <... fdatasync resumed>) = 0\n\
         10 +++ exited with 0 +++\n",
    );
    let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["openat", "fdatasync", "pwrite64"]);
    assert_eq!(
        (calls[0].descriptor(), calls[1].descriptor(), calls[1].result.as_str()),
        (Some(3), Some(4), "0")
    );
    assert_eq!(calls[0].flags(&["O_CREAT", "O_DSYNC", "O_RDWR"]), ["O_CREAT", "O_RDWR"]);
}
