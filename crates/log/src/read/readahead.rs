//! Readahead: a background thread reads the next piece of the log while a reader checks the current one.
//!
//! Each reader has a thread of its own, started once the reader proves sequential. The thread copies one piece at a
//! time into a buffer that the reader lends, and hands it back; it decides nothing.
//!
//! Invariants: at most one piece is in flight; the thread returns the requested piece, or the error that reading it
//! met; dropping the reader waits for the piece in flight, so that no file stays open behind it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::format::buffer::AlignedBuf;
use crate::lsn::Lsn;
use crate::read::segment_file::SegmentFile;

/// A piece of a segment, asked for or read.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The segment.
    pub(crate) number: u64,
    /// Where in the segment it starts, in bytes.
    pub(crate) offset: u64,
    /// What was durable when it was asked for: nothing from there on may be believed.
    pub(crate) limit: Lsn,
    /// The memory it goes to.
    pub(crate) buf: AlignedBuf,
    /// Where in that memory, in bytes.
    pub(crate) at: usize,
    /// How long it is: as wanted, later as read, which is less at the end of the file.
    pub(crate) bytes: usize,
}

type Wish = (Arc<SegmentFile>, Piece);
/// The piece, or what went wrong in which segment.
pub(crate) type Fetched = Result<Piece, (u64, io::Error)>;

fn fetch((file, mut piece): Wish) -> Fetched {
    let wanted = &mut piece.buf.bytes_mut()[piece.at..][..piece.bytes];
    piece.bytes = file.read_through(piece.offset, wanted).map_err(|error| (piece.number, error))?;
    Ok(piece)
}

/// The thread.
#[derive(Debug)]
struct Helper {
    wishes: Option<SyncSender<Wish>>,
    pieces: Receiver<Fetched>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    fn start() -> io::Result<Self> {
        let (wishes, wanted) = sync_channel::<Wish>(1);
        let (read, pieces) = sync_channel(1);
        let work = move || {
            for wish in wanted {
                if read.send(fetch(wish)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("seawall-reader".to_owned()).spawn(work)?;
        Ok(Self { wishes: Some(wishes), pieces, thread: Some(thread) })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.wishes = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reading ahead, once there is reason to.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    helper: Option<Helper>,
    under_way: bool,
}

impl Ahead {
    /// Begins to read a piece of `file`; gives it back if another one is under way or no thread can be had.
    pub(crate) fn begin(&mut self, file: Arc<SegmentFile>, piece: Piece) -> Option<Piece> {
        if self.under_way {
            return Some(piece);
        }
        if self.helper.is_none() {
            match Helper::start() {
                Ok(helper) => self.helper = Some(helper),
                Err(error) => {
                    tracing::warn!(%error, "no thread to read ahead: the log is read piece by piece");
                    return Some(piece);
                }
            }
        }
        let Some(wishes) = self.helper.as_ref().and_then(|helper| helper.wishes.as_ref()) else {
            return Some(piece);
        };
        match wishes.send((file, piece)) {
            Ok(()) => {
                self.under_way = true;
                None
            }
            Err(refused) => Some(refused.0.1),
        }
    }

    /// Waits for the piece that is under way, if one is.
    pub(crate) fn finish(&mut self) -> Option<Fetched> {
        if !std::mem::take(&mut self.under_way) {
            return None;
        }
        self.helper.as_ref()?.pieces.recv().ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::{Ahead, Piece};
    use crate::format::buffer::AlignedBuf;
    use crate::lsn::Lsn;
    use crate::read::segment_file::SegmentFile;

    fn opened(dir: &std::path::Path) -> Arc<SegmentFile> {
        let dir = crate::lock::open_dir(dir).expect("opens");
        Arc::new(SegmentFile::open(&dir, "file").expect("opens"))
    }

    fn piece(offset: u64, bytes: usize) -> Piece {
        Piece { number: 7, offset, limit: Lsn::new(9), buf: AlignedBuf::zeroed(8192), at: 4096, bytes }
    }

    #[test]
    fn a_piece_comes_back_as_far_as_the_file_goes() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        let content: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).take(10_000).collect();
        std::fs::write(&path, &content).expect("writes");
        let file = opened(dir.path());
        let mut ahead = Ahead::default();
        assert!(ahead.finish().is_none(), "nothing was asked for");
        for (offset, wanted, read) in
            [(0, 4096, 4096), (512, 100, 100), (9000, 4096, 1000), (20_000, 4096, 0)]
        {
            assert!(ahead.begin(Arc::clone(&file), piece(offset, wanted)).is_none());
            assert!(ahead.begin(Arc::clone(&file), piece(0, 1)).is_some(), "one piece at a time");
            let back = ahead.finish().expect("was asked for").expect("reads");
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
        let mut ahead = Ahead::default();
        // No file goes so far.
        assert!(ahead.begin(opened(dir.path()), piece(u64::MAX - 4096, 4096)).is_none());
        let (number, error) = ahead.finish().expect("was asked for").expect_err("is no place");
        assert_eq!((number, error.kind()), (7, std::io::ErrorKind::InvalidInput));
    }
}
