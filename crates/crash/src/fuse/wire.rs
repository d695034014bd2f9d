//! Decodes requests and encodes replies of the FUSE protocol (version 7.31), for one flat directory.
//!
//! It covers the part of the protocol (`linux/fuse.h`) that one flat directory of plain files needs. A request is a
//! 40-byte header and its arguments; a reply is a 16-byte header and its results:
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
pub(crate) const ROOT: u64 = 1;

/// Length of a request header in bytes.
pub(crate) const REQUEST_HEADER_BYTES: usize = 40;

/// The largest write that the kernel may send, in bytes.
pub(crate) const WRITE_BYTES_MAX: u32 = 1 << 20;

/// What a request is for.
#[allow(missing_docs, reason = "the names are those of fuse.h")]
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const RENAME2: u32 = 45;
}

/// Error numbers, positive.
pub(crate) mod errno {
    pub(crate) const NOENT: i32 = 2;
    pub(crate) const IO: i32 = 5;
    pub(crate) const EXIST: i32 = 17;
    pub(crate) const INVAL: i32 = 22;
    pub(crate) const NOSYS: i32 = 38;
}

/// `O_DSYNC`, as it stands in a write's flags when the file was opened with it or the call has it.
pub(crate) const O_DSYNC: u32 = 0o10000;
/// Reply flag of an opening: no page cache for this file.
pub(crate) const OPEN_DIRECT_IO: u32 = 1;
/// Bit of `valid` in SETATTR: the size changes.
pub(crate) const SET_SIZE: u32 = 1 << 3;

const INIT_FLAGS: u32 = (1 << 0) | (1 << 5) | (1 << 15) | (1 << 22); // async read, big writes, async direct, max pages
const FOREVER_SECONDS: u64 = 1 << 20;

/// One request.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// What it is for.
    pub(crate) opcode: u32,
    /// Names the request in its reply.
    pub(crate) unique: u64,
    /// The file or directory.
    pub(crate) node: u64,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Takes a request apart; `None` if it is shorter than its header.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, body) = bytes.split_at_checked(REQUEST_HEADER_BYTES)?;
        let head = Request { opcode: 0, unique: 0, node: 0, body: head };
        Some(Self { opcode: head.u32(4), unique: head.u64(8), node: head.u64(16), body })
    }

    /// The number at byte `at` of the arguments.
    pub(crate) fn u32(&self, at: usize) -> u32 {
        self.body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    /// The number at byte `at` of the arguments.
    pub(crate) fn u64(&self, at: usize) -> u64 {
        self.body.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    /// The arguments from byte `at` on.
    pub(crate) fn rest(&self, at: usize) -> &'a [u8] {
        self.body.get(at..).unwrap_or_default()
    }

    /// The `index`-th name that starts at byte `at`.
    pub(crate) fn name(&self, at: usize, index: usize) -> String {
        let name = self.rest(at).split(|byte| *byte == 0).nth(index).unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }

    /// Of a read or a write: offset and size in bytes.
    pub(crate) fn span(&self) -> (u64, u32) {
        (self.u64(8), self.u32(16))
    }

    /// Of a write: the open flags of the file and of the call.
    pub(crate) fn write_flags(&self) -> u32 {
        self.u32(32)
    }

    /// Of a write: the data.
    pub(crate) fn data(&self) -> &'a [u8] {
        let size = usize::try_from(self.u32(16)).unwrap_or(0);
        let data = self.rest(40);
        &data[..size.min(data.len())]
    }
}

/// The results of a reply, built field by field.
#[derive(Debug, Default)]
pub(crate) struct Reply(Vec<u8>);

impl Reply {
    pub(crate) fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

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

    /// Appends the attributes of a node.
    fn attributes(self, attributes: &Attributes) -> Self {
        let kind = if attributes.directory { 0o040_755 } else { 0o100_644 };
        self.u64(attributes.node)
            .u64(attributes.bytes)
            .u64(attributes.bytes.div_ceil(512))
            .zeros(3 * 8 + 3 * 4)
            .u32(kind)
            .u32(1)
            .zeros(3 * 4)
            .u32(4096)
            .u32(0)
    }

    /// The answer to GETATTR and SETATTR.
    pub(crate) fn attr(attributes: &Attributes) -> Self {
        Self::default().u64(FOREVER_SECONDS).u64(0).attributes(attributes)
    }

    /// The answer to LOOKUP and MKNOD, and the first part of the one to CREATE.
    pub(crate) fn entry(attributes: &Attributes) -> Self {
        let names =
            Self::default().u64(attributes.node).u64(0).u64(FOREVER_SECONDS).u64(FOREVER_SECONDS).u64(0);
        names.attributes(attributes)
    }

    /// Appends the answer to OPEN.
    pub(crate) fn opened(self, node: u64, flags: u32) -> Self {
        self.u64(node).u32(flags).u32(0)
    }

    /// The answer to WRITE.
    pub(crate) fn written(bytes: u32) -> Self {
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

    /// The answer to READDIR: the entries from number `from` on that fit into `room` bytes.
    pub(crate) fn entries<'a>(entries: impl Iterator<Item = (&'a str, u64)>, from: u64, room: usize) -> Self {
        let mut reply = Self::default();
        let numbered = (1..).zip(entries).skip(usize::try_from(from).unwrap_or(usize::MAX));
        for (next, (name, node)) in numbered {
            let padded = name.len().next_multiple_of(8);
            if reply.0.len() + 24 + padded > room {
                break;
            }
            let length = u32::try_from(name.len()).unwrap_or(0);
            let regular = 8;
            reply = reply.u64(node).u64(next).u32(length).u32(regular).bytes(name.as_bytes());
            reply = reply.zeros(padded - name.len());
        }
        reply
    }
}

/// What stat(2) says of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    /// The node.
    pub(crate) node: u64,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// Whether it is the directory.
    pub(crate) directory: bool,
}

#[cfg(test)]
mod tests {
    use super::{Attributes, Reply, Request};

    #[test]
    fn replies_have_the_sizes_that_the_kernel_demands() {
        let attributes = Attributes { node: 2, bytes: 1, directory: false };
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
