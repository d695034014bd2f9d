//! Checks after a power cut that every acknowledged record is there.
//!
//! It gets the acknowledgements from the witness, reads the files that survived, and gives a verdict for each method.
//! Logs are opened as after any crash, which writes to them; journals are only read, past the page cache.
//!
//! Invariant: what a witness says is bounded before it is used.

use std::path::{Path, PathBuf};

use seawall_sys::buffer::Aligned;
use seawall_sys::durability::Durability;
use seawall_sys::inspect::boot;
use seawall_sys::store::{Access, StoreFile};

use crate::error::{Error, Result};
use crate::journal::{self, Held};
use crate::ledger::{STREAMS_MAX, WINDOW_MAX};
use crate::log;
use crate::message::{Begin, Message, Run, RunId};
use crate::record::is_length;
use crate::run::{BOOT_FILE, JOURNAL_BYTES_MAX};
use crate::stream::StreamKind;
use crate::verdict::{Judgement, NoCut, StreamVerdict, verdict};
use crate::wire::WitnessCommand;

/// What is to be judged.
#[derive(Clone, Debug)]
pub struct Question {
    /// The folder that `run` was given.
    pub folder: PathBuf,
    /// The program that reaches the witness.
    pub witness: WitnessCommand,
    /// Which run; the latest one if absent.
    pub run: Option<RunId>,
    /// Holds every method to this class instead of its own promise.
    pub hold_to: Option<Durability>,
    /// The file system is known to be mounted, so that a folder that is not there is lost.
    pub missing_is_lost: bool,
    /// Only the disk lost its power: that this host has not restarted does not show whether there was a cut.
    pub disk_cut: bool,
}

/// Records of a stream that are judged at most: their LSNs stay within 64 bits.
const RECORDS_MAX: u64 = 1 << 40;

fn ask(witness: &WitnessCommand, id: Option<RunId>) -> Result<Run> {
    let witness = witness.start()?;
    let Message::Run(run) = witness.ask(&Message::Ask(id))? else {
        return Err(witness.unexpected("what it knows"));
    };
    let Begin { window, streams, .. } = &run.begin;
    if streams.len() > usize::from(STREAMS_MAX) || *window > WINDOW_MAX || run.held.len() != streams.len() {
        let what = format!("the witness knows a run of {} streams and a window of {window}", streams.len());
        return Err(Error::Protocol { what });
    }
    for (stream, ack) in streams.iter().zip(&run.held) {
        let bounded = stream.journal_bytes <= JOURNAL_BYTES_MAX && is_length(stream.record_bytes as usize);
        if !bounded || ack.acknowledged > RECORDS_MAX || ack.trimmed > ack.acknowledged {
            let what = format!(
                "the witness knows a stream of {} bytes, records of {} and {} of them",
                stream.journal_bytes, stream.record_bytes, ack.acknowledged
            );
            return Err(Error::Protocol { what });
        }
    }
    Ok(run)
}

/// The bytes of a journal as the disk has them; nothing if the file is gone.
fn read_journal(path: &Path, journal_bytes: u64) -> Result<Vec<u8>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let file = StoreFile::open_read_only(path, Access::Direct)?;
    let failed = |source| Error::io("read", path, source);
    let mut bytes = Vec::new();
    let mut buffer = Aligned::zeroed(1 << 20);
    while (bytes.len() as u64) < journal_bytes {
        let read = file.read_at(bytes.len() as u64, buffer.as_mut_slice()).map_err(failed)?;
        bytes.extend_from_slice(&buffer.as_slice()[..read]);
        // Direct reads start on blocks: only the end of the file is shorter.
        if read < buffer.as_slice().len() {
            break;
        }
    }
    Ok(bytes)
}

fn find(question: &Question, run: &Begin) -> Result<PathBuf> {
    let folder = question.folder.join(format!("powercut-{}", run.run));
    if folder.is_dir() || question.missing_is_lost {
        return Ok(folder);
    }
    Err(Error::Request(format!(
        "there is no {} in {}: run {} wrote in {}. Name that folder, see that its file system is mounted, or name another \
         run by --run; if it is mounted and the folder is gone, --mounted has it counted as lost",
        folder.file_name().unwrap_or_default().to_string_lossy(),
        question.folder.display(),
        run.run,
        run.place
    )))
}

/// Why it is known that no cut came while the run wrote, if it is.
fn no_cut(run: &Run, folder: &Path, disk_cut: bool) -> Option<NoCut> {
    if run.ended {
        return Some(NoCut::EndedByItself);
    }
    // What cannot be read, or is empty as a cut may leave it, shows nothing.
    let then = std::fs::read_to_string(folder.join(BOOT_FILE)).ok().filter(|boot| !boot.is_empty())?;
    (!disk_cut && boot()? == then.trim()).then_some(NoCut::SameBoot)
}

/// Judges a run.
///
/// # Errors
/// Whatever keeps it from being judged. A loss is no error.
pub fn check(question: &Question) -> Result<Judgement> {
    let run = ask(&question.witness, question.run)?;
    let folder = find(question, &run.begin)?;
    let no_cut = no_cut(&run, &folder, question.disk_cut);
    let Run { begin, begun_unix_us, held, last_stream, ended } = run;
    let mut verdicts = Vec::new();
    for (stream, ack) in begin.streams.into_iter().zip(held) {
        let path = folder.join(stream.file_name());
        let (short, window) = (begin.run.short(), u64::from(begin.window));
        let held = Held { run: short, acknowledged: ack.acknowledged, window };
        let counts = match stream.kind {
            StreamKind::Journal => journal::judge(&stream, held, &read_journal(&path, stream.journal_bytes)?),
            StreamKind::Log => log::judge(&stream, held, ack.trimmed, &path)?,
        };
        let promised = question.hold_to.unwrap_or(stream.class);
        verdicts.push(StreamVerdict {
            verdict: verdict(&counts, ack.acknowledged, promised, no_cut.is_some()),
            kind: stream.kind,
            promised: stream.class,
            acknowledged: ack.acknowledged,
            last: ack.acknowledged > 0 && last_stream == stream.number,
            method: stream.method,
            counts,
        });
    }
    Ok(Judgement {
        run: begin.run,
        place: begin.place,
        begun_unix_seconds: begun_unix_us / 1_000_000,
        ended,
        no_cut,
        streams: verdicts,
    })
}
