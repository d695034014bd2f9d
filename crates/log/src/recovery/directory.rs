//! Lists the files of a log's directory and determines which segments make up the log.
//!
//! Every file is visited once. A segment belongs to the log if a later segment names it as its predecessor; the
//! newest segment needs no successor.
//!
//! Opening refuses at the first file whose length is wrong; `verify` and `salvage` continue with the others, and with
//! the rest of that file.
//!
//! Invariants: nothing is changed; the newest segment and those after it are read from the disk, whatever the page
//! cache shows; a foreign file is reported, never touched.

use crate::error::{Damage, Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::{
    BLOCK_SIZES, FORMAT_VERSION, Fault, FileRole, SEGMENT_HEADER_BYTES, SegmentHeader, feature_names,
    file_role, segment_name,
};
use crate::lsn::Lsn;
use crate::segment::Spare;
use crate::storage::disk::{Access, Disk, FileId, open, read_full};
use seawall_sys::planted;

/// The log's own files that are no segments: the lock, the selected method, the scratch file of its trial, crash memory, trims
/// that a log at its cap could not state.
const OURS: [&str; 7] = [
    crate::format::names::LOCK_FILE,
    crate::method::select::METHOD_FILE,
    crate::method::select::METHOD_STAGING,
    crate::method::select::SCRATCH_FILE,
    crate::crash_memory::MEMORY_FILE,
    crate::recovery::held_trims::HELD_FILE,
    crate::recovery::held_trims::HELD_STAGING,
];

/// Whether a name is that of one of the log's own files that are no segments.
pub(crate) fn is_ours(name: &str) -> bool {
    OURS.contains(&name)
        || crate::format::names::is_hold(name)
        || crate::format::names::is_rebuild_marker(name)
        || name.starts_with(NOTE_PREFIX)
}

/// What the names of files begin with in which a service says what it is doing with the log, such as `NOTE-ship-…`: the log reads none of them.
const NOTE_PREFIX: &str = "NOTE-";

/// Everything is read in blocks of this many bytes from multiples of it, as a disk with the largest sectors demands.
pub(crate) const READ_BLOCK_BYTES: usize = 4096;

/// Two header copies and a batch between them, of the smallest blocks.
const SEGMENT_BYTES_MIN: u64 = 3 * 512;

/// What is wrong with a segment that holds batches of its own number and no header.
pub(crate) const LOST_HEADER: &str = "both copies of the segment header are damaged";

/// What a log's directory holds.
#[derive(Debug, Default)]
pub(crate) struct DirectoryScan {
    /// Segments with a valid header, by number.
    pub(crate) started: Vec<SegmentHeader>,
    /// Segments without one, by number.
    pub(crate) unstarted: Vec<Spare>,
    /// Staging files, by number.
    pub(crate) staging: Vec<u64>,
    pub(crate) foreign_files: Vec<String>,
}

/// A segment whose file has another length than it was made with.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// Its number and the length that it has.
    pub(crate) spare: Spare,
    /// What opening says of it.
    pub(crate) damage: Damage,
    /// The first copy of its header, if that is left.
    pub(crate) header: Option<SegmentHeader>,
}

/// The error that refuses an opening: `what` is wrong in segment `number` at `offset`, bytes, where the log is at `lsn`.
pub(crate) fn damage(number: u64, offset: u64, lsn: Lsn, what: impl Into<String>) -> Error {
    Error::Corrupt(Damage::in_segment(number, offset, lsn, what))
}

/// Reads both copies of the header of a segment; `None` if neither was written for it.
pub(crate) fn read_header<D: Disk>(
    disk: &mut D,
    file: FileId,
    spare: Spare,
) -> Result<Option<SegmentHeader>> {
    let name = segment_name(spare.number);
    // A name that ends in `.seg` stands for a file that was filled and synced: one of any other length was cut, and is
    // no segment that waits to be started, otherwise what it held would be forgotten.
    if spare.bytes < SEGMENT_BYTES_MIN || !spare.bytes.is_multiple_of(512) {
        let what = format!("the file is {} bytes long, as no segment is", spare.bytes);
        return Err(damage(spare.number, spare.bytes, Lsn::ZERO, what));
    }
    let mut blocks = AlignedBuf::zeroed(2 * READ_BLOCK_BYTES);
    let (mut start, mut filled) =
        (0, read_full(disk, &name, file, 0, &mut blocks.bytes_mut()[..READ_BLOCK_BYTES])?);
    let (mut at_end, mut other, mut misfit, mut class, mut features) = (false, None, None, None, None);
    let first = (0, 0);
    let sizes = planted!(OneHeaderCopy, &BLOCK_SIZES[..]);
    let second = sizes.iter().rev().map(|block| (1, spare.bytes.saturating_sub(u64::from(*block))));
    for (copy, offset) in std::iter::once(first).chain(second) {
        if copy == 1 && !at_end {
            at_end = true;
            // The last of these blocks may be cut short by the end of the file.
            start = offset - offset % READ_BLOCK_BYTES as u64;
            filled = read_full(disk, &name, file, start, blocks.bytes_mut())?;
        }
        let from = usize::try_from(offset - start).unwrap_or(usize::MAX).min(filled);
        let bytes = &blocks.bytes()[from..filled.min(from + SEGMENT_HEADER_BYTES)];
        let decoded = planted!(
            HeaderIgnoresName(bytes, copy, spare.number),
            SegmentHeader::decode(bytes, copy, spare.number, spare.bytes)
        );
        match decoded {
            Ok(header) => {
                let at_home = copy == 0 || header.data_end() == offset;
                if at_home {
                    return Ok(Some(header));
                }
            }
            Err(Fault::Version(version)) => other = Some(version),
            Err(Fault::Features(bits)) => features = Some(bits),
            Err(fault @ Fault::Class(_)) => class = Some((offset, fault)),
            Err(Fault::Length) => misfit = Some(offset),
            Err(_) => {}
        }
    }
    if let Some(version) = other {
        let path = name.into();
        return Err(if version < FORMAT_VERSION {
            Error::OlderFormat { path, version }
        } else {
            Error::NewerFormat { path, version }
        });
    }
    if let Some(bits) = features {
        return Err(Error::UnknownFeature { path: name.into(), feature: feature_names(bits) });
    }
    if let Some((offset, fault)) = class {
        return Err(damage(spare.number, offset, Lsn::ZERO, format!("in its header, {fault}")));
    }
    if let Some(offset) = misfit {
        let what = format!("the file is {} bytes long, its header says otherwise", spare.bytes);
        return Err(damage(spare.number, offset, Lsn::ZERO, what));
    }
    Ok(None)
}

/// The first copy of the header of a segment that was cut short or grew, `None` if it is invalid.
fn read_first_copy<D: Disk>(disk: &mut D, file: FileId, spare: Spare) -> Result<Option<SegmentHeader>> {
    let mut block = AlignedBuf::zeroed(READ_BLOCK_BYTES);
    let filled = read_full(disk, &segment_name(spare.number), file, 0, block.bytes_mut())?;
    let bytes = &block.bytes()[..filled.min(SEGMENT_HEADER_BYTES)];
    Ok(SegmentHeader::decode_unplaced(bytes, 0).ok().filter(|header| header.number == spare.number))
}

/// Has the page cache forget a file, so that what is read comes from the disk.
pub(crate) fn forget_cached<D: Disk>(disk: &mut D, file: FileId) {
    planted!(KeepCached, disk.forget_cached(file));
}

/// Opens a file to see what the disk has of it, whatever the page cache says.
pub(crate) fn open_cold<D: Disk>(disk: &mut D, name: &str) -> Result<FileId> {
    let file = open(disk, name, planted!(ReadThroughCache(), Access::Direct))?;
    planted!(ReadThroughCache, forget_cached(disk, file));
    Ok(file)
}

/// Does `work` with segment `number`, opened by [`open_cold`] and closed afterwards.
pub(crate) fn in_segment<D: Disk, T>(
    disk: &mut D,
    number: u64,
    work: impl FnOnce(&mut D, (&str, FileId)) -> Result<T>,
) -> Result<T> {
    let name = segment_name(number);
    let file = open_cold(disk, &name)?;
    let done = work(disk, (&name, file));
    disk.close(file);
    done
}

/// Looks at every file in the directory, newest first: a segment is started only when everything before it is durable,
/// so what the cache holds of those below the newest started one is what the disk has, and may stay there.
///
/// # Errors
/// At the first damage as at any other failure.
pub(crate) fn scan_directory<D: Disk>(disk: &mut D) -> Result<DirectoryScan> {
    look(disk, |_, _, _, damage| Err(Error::Corrupt(damage)))
}

/// As [`scan_directory`], but continues after files of a wrong length, which are returned by number.
pub(crate) fn scan_with_misfits<D: Disk>(disk: &mut D) -> Result<(DirectoryScan, Vec<Misfit>)> {
    let mut misfits = Vec::new();
    let found = look(disk, |disk, file, spare, damage| {
        let header = read_first_copy(disk, file, spare)?;
        misfits.push(Misfit { spare, damage, header });
        Ok(())
    })?;
    misfits.reverse();
    Ok((found, misfits))
}

fn look<D: Disk>(
    disk: &mut D,
    mut on_misfit: impl FnMut(&mut D, FileId, Spare, Damage) -> Result<()>,
) -> Result<DirectoryScan> {
    let mut found = DirectoryScan::default();
    let mut entries = disk.list().map_err(|source| Error::io("list", ".", source))?;
    entries.sort_by(|a, b| b.name.cmp(&a.name));
    for entry in entries {
        match file_role(&entry.name) {
            Some(FileRole::Segment(number)) => {
                let spare = Spare { number, bytes: entry.bytes };
                let opened = if found.started.is_empty() {
                    open_cold(disk, &entry.name)?
                } else {
                    open(disk, &entry.name, Access::Direct)?
                };
                let header = match read_header(disk, opened, spare) {
                    Err(Error::Corrupt(damage)) => on_misfit(disk, opened, spare, damage).map(|()| None),
                    read => read.map(Some),
                };
                disk.close(opened);
                match header? {
                    Some(Some(header)) => found.started.push(header),
                    Some(None) => found.unstarted.push(spare),
                    None => {}
                }
            }
            Some(FileRole::Preparing(number)) => found.staging.push(number),
            None if is_ours(&entry.name) => {}
            None => found.foreign_files.push(entry.name),
        }
    }
    found.started.reverse();
    found.unstarted.reverse();
    found.staging.reverse();
    found.foreign_files.reverse();
    Ok(found)
}

/// Splits the started segments into the members of the log, oldest first, and the dead ones, which an earlier recovery
/// abandoned empty.
pub(crate) fn split_members(started: &[SegmentHeader]) -> Result<(Vec<SegmentHeader>, Vec<SegmentHeader>)> {
    let mut members = Vec::new();
    let mut dead = Vec::new();
    let Some(mut newest) = started.last().copied() else { return Ok((members, dead)) };
    members.push(newest);
    for header in started.iter().rev().skip(1) {
        if header.log_id != newest.log_id {
            return Err(Error::ForeignSegment { path: segment_name(header.number).into() });
        }
        if header.number == newest.previous {
            if header.first_lsn > newest.first_lsn || header.block_bytes != newest.block_bytes {
                let what = "its header contradicts the one after it";
                return Err(damage(header.number, 0, header.first_lsn, what));
            }
            members.push(*header);
            newest = *header;
        } else if header.number > newest.previous && header.first_lsn == newest.first_lsn {
            dead.push(*header);
        } else {
            let what = format!("segment {} is missing after this one", newest.previous);
            return Err(damage(header.number, 0, header.first_lsn, what));
        }
    }
    members.reverse();
    Ok((members, dead))
}
