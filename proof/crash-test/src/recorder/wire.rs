//! Decodes requests and encodes replies of the FUSE protocol (version 7.31, and `O_TMPFILE` of 7.37).
//!
//! A request is a 40-byte header and its arguments; a reply is a 16-byte header and its results (`linux/fuse.h`):
//!
//! ```text
//! request: length u32 | opcode u32 | unique u64 | node u64 | uid u32 | gid u32 | pid u32 | 0 u32 | arguments …
//! reply:   length u32 | -errno i32 | unique u64 | results …
//! ```
//!
//! Invariants: numbers are in the host's order, which must be little-endian here; nothing is read past the end of a
//! request, missing bytes count as zero.

const _: () = assert!(cfg!(target_endian = "little"), "the recorder speaks the protocol in little-endian");

/// The root directory's node.
pub const ROOT: u64 = 1;

/// Length of a request header in bytes.
pub const REQUEST_HEADER_BYTES: usize = 40;

/// The largest write that the kernel may send, in bytes.
pub const WRITE_BYTES_MAX: u32 = 1 << 20;

/// What a request is for.
#[allow(missing_docs, reason = "the names are those of fuse.h")]
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const RENAME2: u32 = 45;
    pub const TMPFILE: u32 = 51;
}

/// `O_DSYNC`, as it stands in a write's flags when the file was opened with it or the call has it.
pub const O_DSYNC: u32 = 0o10000;
/// `O_DIRECT`, likewise.
pub const O_DIRECT: u32 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40000 };
/// Reply flag of an opening: no page cache for this file.
pub const OPEN_DIRECT_IO: u32 = 1;
/// Reply flag of an opening: what the kernel has cached of the file stays.
pub const OPEN_KEEP_CACHE: u32 = 2;
/// Flag of a write: a page of the cache, which a mapping changed.
pub const WRITE_CACHE: u32 = 1;
/// Bits of `valid` in SETATTR: what changes.
pub const SET_MODE: u32 = 1 << 0;
/// The owner changes.
pub const SET_OWNER: u32 = 1 << 1;
/// The group changes.
pub const SET_GROUP: u32 = 1 << 2;
/// The size changes.
pub const SET_SIZE: u32 = 1 << 3;
/// The time of the last change is given.
pub const SET_MTIME: u32 = 1 << 5;

// Async reads, big writes, async direct reads, many pages, and no question about privileges before each write.
const INIT_FLAGS: u32 = (1 << 0) | (1 << 5) | (1 << 15) | (1 << 22) | (1 << 28);
const FOREVER_SECONDS: u64 = 1 << 20;

/// One request.
#[derive(Debug)]
pub struct Request<'a> {
    /// What it is for.
    pub opcode: u32,
    /// Names the request in its reply.
    pub unique: u64,
    /// The file or directory.
    pub node: u64,
    /// Who asks.
    pub user: u32,
    /// Of which group.
    pub group: u32,
    /// The thread that asks.
    pub thread: u32,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Takes a request apart; `None` if it is shorter than its header.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, body) = bytes.split_at_checked(REQUEST_HEADER_BYTES)?;
        let head = Request { opcode: 0, unique: 0, node: 0, user: 0, group: 0, thread: 0, body: head };
        let (user, group, thread) = (head.u32(24), head.u32(28), head.u32(32));
        Some(Self { opcode: head.u32(4), unique: head.u64(8), node: head.u64(16), user, group, thread, body })
    }

    /// The number at byte `at` of the arguments.
    pub(crate) fn u32(&self, at: usize) -> u32 {
        self.body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    /// The number at byte `at` of the arguments.
    #[must_use]
    pub fn u64(&self, at: usize) -> u64 {
        self.body.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    /// The arguments from byte `at` on.
    pub(crate) fn rest(&self, at: usize) -> &'a [u8] {
        self.body.get(at..).unwrap_or_default()
    }

    /// The `index`-th name that starts at byte `at`.
    #[must_use]
    pub fn bytes(&self, at: usize, index: usize) -> &'a [u8] {
        self.rest(at).split(|byte| *byte == 0).nth(index).unwrap_or_default()
    }

    /// Of a read or a write: offset and size in bytes.
    #[must_use]
    pub fn span(&self) -> (u64, u32) {
        (self.u64(8), self.u32(16))
    }

    /// Of a write: the open flags of the file and of the call.
    pub(crate) fn write_flags(&self) -> u32 {
        self.u32(32)
    }

    /// Of a write: the data.
    #[must_use]
    pub fn data(&self) -> &'a [u8] {
        let size = usize::try_from(self.u32(16)).unwrap_or(0);
        let data = self.rest(40);
        &data[..size.min(data.len())]
    }
}

/// The results of a reply, built field by field.
#[derive(Debug, Default)]
pub struct Reply(Vec<u8>);

impl Reply {
    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Appends a field.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    /// Everything that was appended.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The answer to INIT.
    pub(crate) fn init() -> Self {
        let background = 64;
        let pages = 256;
        Self::default()
            .u32(7)
            .u32(31)
            .u32(1 << 17)
            .u32(INIT_FLAGS)
            .u16(background)
            .u16(background)
            .u32(WRITE_BYTES_MAX)
            .u32(1)
            .u16(pages)
            .zeros(34)
    }

    fn attributes(self, of: &Attributes) -> Self {
        self.u64(of.node)
            .u64(of.bytes)
            .u64(of.bytes.div_ceil(512))
            .u64(of.changed_seconds)
            .u64(of.changed_seconds)
            .u64(of.changed_seconds)
            .zeros(3 * 4)
            .u32(of.mode)
            .u32(of.links)
            .u32(of.user)
            .u32(of.group)
            .zeros(4)
            .u32(4096)
            .u32(0)
    }

    /// The answer to GETATTR and SETATTR.
    #[must_use]
    pub fn attr(attributes: &Attributes) -> Self {
        Self::default().u64(FOREVER_SECONDS).u64(0).attributes(attributes)
    }

    /// The answer to LOOKUP and MKNOD, and the first part of the one to CREATE.
    #[must_use]
    pub fn entry(attributes: &Attributes) -> Self {
        let names =
            Self::default().u64(attributes.node).u64(0).u64(FOREVER_SECONDS).u64(FOREVER_SECONDS).u64(0);
        names.attributes(attributes)
    }

    /// Appends the answer to OPEN.
    #[must_use]
    pub fn opened(self, node: u64, flags: u32) -> Self {
        self.u64(node).u32(flags).u32(0)
    }

    /// The answer to WRITE.
    #[must_use]
    pub fn written(bytes: u32) -> Self {
        Self::default().u32(bytes).u32(0)
    }

    /// The answer to STATFS: an empty terabyte.
    pub(crate) fn statfs() -> Self {
        let blocks = 1 << 28;
        Self::default()
            .u64(blocks)
            .u64(blocks)
            .u64(blocks)
            .u64(1 << 20)
            .u64(1 << 20)
            .u32(4096)
            .u32(255)
            .u32(4096)
            .zeros(28)
    }

    /// The answer to READDIR: the entries from number `from` on that fit into `room` bytes, each with its node and mode.
    #[must_use]
    pub fn entries<'a>(entries: impl Iterator<Item = (&'a [u8], u64, u32)>, from: u64, room: usize) -> Self {
        let mut reply = Self::default();
        let numbered = (1..).zip(entries).skip(usize::try_from(from).unwrap_or(usize::MAX));
        for (next, (name, node, mode)) in numbered {
            let padded = name.len().next_multiple_of(8);
            if reply.0.len() + 24 + padded > room {
                break;
            }
            let length = u32::try_from(name.len()).unwrap_or(0);
            reply = reply.u64(node).u64(next).u32(length).u32(mode >> 12 & 15).bytes(name);
            reply = reply.zeros(padded - name.len());
        }
        reply
    }

    /// The answer to a question for an attribute: its length, if `room` is 0, or its bytes.
    pub(crate) fn attribute(bytes: &[u8], room: u32) -> Option<Self> {
        let length = u32::try_from(bytes.len()).ok()?;
        match room {
            0 => Some(Self::default().u32(length).u32(0)),
            room if room >= length => Some(Self::default().bytes(bytes)),
            _ => None,
        }
    }
}

/// What stat(2) says of a node.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// The node.
    pub node: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its kind and permission bits.
    pub mode: u32,
    /// Its names.
    pub links: u32,
    /// Its owner.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// When it changed last.
    pub changed_seconds: u64,
}

impl Attributes {
    /// Of a directory, or of a plain file, that belongs to root.
    #[must_use]
    pub fn plain(node: u64, bytes: u64, directory: bool) -> Self {
        let mode = if directory { 0o040_755 } else { 0o100_644 };
        Self { node, bytes, mode, links: 1, user: 0, group: 0, changed_seconds: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::{Attributes, Reply, Request};

    #[test]
    fn replies_have_the_sizes_that_the_kernel_demands() {
        let attributes = Attributes::plain(2, 1, false);
        assert_eq!(Reply::init().into_bytes().len(), 64);
        assert_eq!(Reply::attr(&attributes).into_bytes().len(), 104);
        assert_eq!(Reply::entry(&attributes).into_bytes().len(), 128);
        assert_eq!(Reply::entry(&attributes).opened(2, 0).into_bytes().len(), 144);
        assert_eq!(Reply::statfs().into_bytes().len(), 80);
        assert_eq!(Reply::written(1).into_bytes().len(), 8);
    }

    #[test]
    fn a_short_request_reads_as_zeros_and_never_past_its_end() {
        assert!(Request::parse(&[0; 39]).is_none());
        let request = Request::parse(&[7; 44]).expect("a header is there");
        assert_eq!((request.u32(0), request.u32(4), request.u64(0)), (0x0707_0707, 0, 0));
        assert!(request.data().is_empty());
    }
}
