//! Reads ahead: a background thread reads the next piece of the log while a reader checks the current one.
//!
//! Each reader has a thread of its own, started once the reader proves sequential. The thread copies one piece at a
//! time into a buffer that the reader lends, and hands it back; it decides nothing.
//!
//! Invariants: at most one piece is in flight; the thread returns the requested piece, or the error that reading it
//! met; dropping the reader waits for the piece in flight, so that no file stays open after it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::format::buffer::AlignedBuf;
use crate::lsn::Lsn;
use crate::read::segment_file::SegmentFile;

/// A piece of a segment, requested or read.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) number: u64,
    /// Where in the segment it starts, in bytes.
    pub(crate) offset: u64,
    /// The durable LSN when it was requested: nothing from there on may be believed.
    pub(crate) limit: Lsn,
    /// The memory it goes to.
    pub(crate) buf: AlignedBuf,
    /// Where in that memory, in bytes.
    pub(crate) at: usize,
    /// Its length in bytes: as requested, later as read, which is less at the end of the file.
    pub(crate) bytes: usize,
}

type Request = (Arc<SegmentFile>, Chunk);
/// The piece, or the error and the segment that it was met in.
pub(crate) type Fetched = Result<Chunk, (u64, io::Error)>;

fn fetch((file, mut piece): Request) -> Fetched {
    let wanted = &mut piece.buf.bytes_mut()[piece.at..][..piece.bytes];
    piece.bytes = file.read_through(piece.offset, wanted).map_err(|error| (piece.number, error))?;
    Ok(piece)
}

#[derive(Debug)]
struct ReadThread {
    requests: Option<SyncSender<Request>>,
    pieces: Receiver<Fetched>,
    thread: Option<JoinHandle<()>>,
}

impl ReadThread {
    fn start() -> io::Result<Self> {
        let (requests, received) = sync_channel::<Request>(1);
        let (read, pieces) = sync_channel(1);
        let work = move || {
            for request in received {
                if read.send(fetch(request)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("seawall-reader".to_owned()).spawn(work)?;
        Ok(Self { requests: Some(requests), pieces, thread: Some(thread) })
    }
}

impl Drop for ReadThread {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The readahead of one reader; its thread is started at the first piece.
#[derive(Debug, Default)]
pub(crate) struct Readahead {
    reading: Option<ReadThread>,
    in_flight: bool,
}

impl Readahead {
    /// Begins to read a piece of `file`; gives it back if another one is in flight or no thread can be started.
    pub(crate) fn begin(&mut self, file: Arc<SegmentFile>, piece: Chunk) -> Option<Chunk> {
        if self.in_flight {
            return Some(piece);
        }
        if self.reading.is_none() {
            match ReadThread::start() {
                Ok(reading) => self.reading = Some(reading),
                Err(error) => {
                    tracing::warn!(%error, "cannot start a thread to read ahead: reading piece by piece");
                    return Some(piece);
                }
            }
        }
        let Some(requests) = self.reading.as_ref().and_then(|reading| reading.requests.as_ref()) else {
            return Some(piece);
        };
        match requests.send((file, piece)) {
            Ok(()) => {
                self.in_flight = true;
                None
            }
            Err(refused) => Some(refused.0.1),
        }
    }

    /// Waits for the piece in flight, if there is one.
    pub(crate) fn finish(&mut self) -> Option<Fetched> {
        if !std::mem::take(&mut self.in_flight) {
            return None;
        }
        self.reading.as_ref()?.pieces.recv().ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::{Chunk, Readahead};
    use crate::format::buffer::AlignedBuf;
    use crate::lsn::Lsn;
    use crate::read::segment_file::SegmentFile;

    fn opened(dir: &std::path::Path) -> Arc<SegmentFile> {
        let dir = crate::lock::open_dir(dir).expect("opens");
        Arc::new(SegmentFile::open(&dir, "file").expect("opens"))
    }

    fn piece(offset: u64, bytes: usize) -> Chunk {
        Chunk { number: 7, offset, limit: Lsn::new(9), buf: AlignedBuf::zeroed(8192), at: 4096, bytes }
    }

    #[test]
    fn a_piece_comes_back_as_far_as_the_file_goes() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        let content: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).take(10_000).collect();
        std::fs::write(&path, &content).expect("writes");
        let file = opened(dir.path());
        let mut ahead = Readahead::default();
        assert!(ahead.finish().is_none(), "nothing was requested");
        for (offset, wanted, read) in
            [(0, 4096, 4096), (512, 100, 100), (9000, 4096, 1000), (20_000, 4096, 0)]
        {
            assert!(ahead.begin(Arc::clone(&file), piece(offset, wanted)).is_none());
            assert!(ahead.begin(Arc::clone(&file), piece(0, 1)).is_some(), "one piece at a time");
            let back = ahead.finish().expect("was requested").expect("reads");
            assert_eq!((back.number, back.offset, back.limit.get(), back.bytes), (7, offset, 9, read));
            let from = usize::try_from(offset).expect("small").min(content.len());
            assert_eq!(back.buf.bytes()[back.at..][..read], content[from..][..read]);
            assert!(back.buf.bytes()[..back.at].iter().all(|byte| *byte == 0));
            assert!(ahead.finish().is_none(), "handed out once");
        }
        assert!(ahead.begin(Arc::clone(&file), piece(0, 4096)).is_none());
        drop(ahead);
        assert_eq!(Arc::strong_count(&file), 1, "the thread has ended and holds no file");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_comes_back_with_its_segment() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("file"), [0; 8192]).expect("writes");
        let mut ahead = Readahead::default();
        // No file goes so far.
        assert!(ahead.begin(opened(dir.path()), piece(u64::MAX - 4096, 4096)).is_none());
        let (number, error) = ahead.finish().expect("was requested").expect_err("is no place");
        assert_eq!((number, error.kind()), (7, std::io::ErrorKind::InvalidInput));
    }
}
