//! Fuzzing entry point: recovers arbitrary files on a simulated disk, reads the log and recovers again.
//!
//! Memory and time are bounded by the size of the files.

use super::disk::SimDisk;
use super::judge::READ_BYTES;
use super::life::plan;
use super::media::Media;
use super::read_back::read_all;
use crate::error::{Error, Result};
use crate::format::RECORD_HEADER_BYTES;
use crate::lsn::Lsn;
use crate::recovery::{Recovered, recover};
use crate::storage::disk::{Disk, write_all};
use seawall_sys::durability::Durability;

/// What was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The first LSN that is left.
    pub first: Lsn,
    /// The end of the log.
    pub end: Lsn,
    /// The LSN and length of each record that was read.
    pub records: Vec<(Lsn, usize)>,
    /// Whether reading ended at damage in an older segment.
    pub damaged: bool,
}

fn read(disk: &mut SimDisk, recovered: &Recovered) -> Result<Found> {
    let resume = &recovered.resume;
    let mut found = Found { first: resume.trim, end: resume.end, records: Vec::new(), damaged: false };
    let seen = read_all(disk, recovered, READ_BYTES, |lsn, payload| {
        found.records.push((lsn, payload.len()));
        Ok(())
    });
    match seen {
        Ok(_) => {}
        Err(Error::Corrupt(_)) => found.damaged = true,
        Err(other) => return Err(other),
    }
    Ok(found)
}

/// Recovers the log that `files` (name and content) make up, and reads it; then does so again.
///
/// # Errors
/// What recovery refused the files with.
///
/// # Panics
/// If recovering a second time leads to anything but the same log with a later epoch, or if records do not follow one
/// another up to the end: that is a broken promise.
pub fn recover_files(files: &[(String, Vec<u8>)]) -> Result<Found> {
    let mut disk = SimDisk::idle(Media::default(), 0, None);
    for (name, bytes) in files {
        // Of two files with one name the first one counts.
        let Ok(file) = disk.create(name) else { continue };
        write_all(&mut disk, name, (file, 0), bytes, true)?;
        disk.close(file);
    }
    disk.sync_dir().map_err(|source| Error::io("sync", ".", source))?;
    let recovered = recover(&mut disk, &plan(false, Durability::PowerLoss))?;
    let found = read(&mut disk, &recovered)?;
    let again = recover(&mut disk, &plan(false, Durability::PowerLoss));
    if recovered.epoch == u64::MAX {
        assert!(matches!(again, Err(Error::Corrupt(_))), "there is no later epoch: {again:?}");
        return Ok(found);
    }
    let again = again.unwrap_or_else(|error| panic!("recovered once, refused the second time: {error}"));
    assert!(again.epoch > recovered.epoch, "every opening has an epoch of its own");
    assert_eq!(read(&mut disk, &again)?, found, "recovering twice leads to one log");
    in_order(&found);
    Ok(found)
}

/// Holds what was handed out against the log's own end.
fn in_order(found: &Found) {
    let mut due = None;
    for (lsn, length) in &found.records {
        assert!(due.is_none_or(|due| due == *lsn), "records follow one another without a gap");
        let bytes = (RECORD_HEADER_BYTES + length) as u64;
        due = lsn.checked_add(bytes);
        assert!(due.is_some_and(|due| due <= found.end), "nothing behind the end is handed out");
    }
    assert!(
        found.damaged || due.is_none_or(|due| due == found.end),
        "everything up to the end is handed out"
    );
}

#[cfg(test)]
mod tests {
    use super::recover_files;
    use crate::format::{BatchHeader, BatchKind, segment_name};
    use crate::lsn::Lsn;
    use crate::testing::fixtures;
    use crate::testing::sim::forged::mend_header;
    use crate::testing::sim::rng::Rng;

    /// A sound segment of 16 blocks, then changed at random; half of the time with every header's checksum right.
    fn mutated(rng: &mut Rng) -> (String, Vec<u8>) {
        let mut content = vec![0; 16 * 512];
        let header = fixtures::segment(1, 512, 8192, Lsn::ZERO);
        header.encode(0, &mut content);
        header.encode(1, &mut content[15 * 512..]);
        let mut link = 0;
        for block in 1..=rng.index(8) {
            let offset = block as u64 * 512;
            let kind = [BatchKind::Mark, BatchKind::Close, BatchKind::Open][rng.index(3)];
            let place = &mut content[block * 512..];
            link = BatchHeader {
                kind,
                epoch: if rng.one_in(20) { u64::MAX } else { 1 + rng.below(2) },
                durable: Lsn::new(rng.below(2)),
                body_bytes: u32::try_from(rng.below(600)).unwrap_or(0) & 0xFFFF_FE00,
                link,
                ..fixtures::mark(&header, offset)
            }
            .encode(place);
        }
        for _ in 0..rng.index(6) {
            let at = rng.index(content.len());
            content[at] ^= 1 << rng.below(8);
        }
        if rng.coin() {
            content.chunks_mut(512).filter(|block| block.starts_with(b"SW")).for_each(mend_header);
        }
        (segment_name(1 + u64::from(rng.one_in(8))), content)
    }

    #[test]
    fn any_input_ends_in_a_typed_answer() {
        let mut rng = Rng::new(11);
        for _ in 0..4000 {
            let mut files = vec![mutated(&mut rng)];
            if rng.coin() {
                files.push(mutated(&mut rng));
            }
            if rng.one_in(4) {
                let last = files.pop();
                files.extend(last.map(|(name, mut bytes)| {
                    bytes.truncate(rng.index(bytes.len()));
                    (name, bytes)
                }));
            }
            // It panics if the second recovery does not give the log of the first one.
            let _ = recover_files(&files);
        }
    }
}
