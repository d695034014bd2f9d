//! Reports of `seawall_verify` and of backups.

use std::ffi::c_char;

use seawall::{Backup, Report as Inner};

use crate::error::{Result, c_path, c_text, call, number};
use crate::log::{Log, inner, tail_numbers};
use crate::options::{Options, class_number};
use crate::pointers::{Kept, Texts, free, give_if_wanted, into_handle, made, path};

/// A damaged place.
#[repr(C)]
#[derive(Debug)]
pub struct Damage {
    /// The segment.
    pub path: *const c_char,
    /// What is wrong there.
    pub what: *const c_char,
    /// Where in the segment the damaged batch starts, in bytes.
    pub offset: u64,
    /// The LSN of the first record that cannot be read.
    pub lsn: u64,
}

/// What a verification, or a backup, found.
#[repr(C)]
#[derive(Debug)]
pub struct Report {
    /// The identity of the log.
    pub log_id: [u8; 16],
    /// The epoch of its last opening.
    pub epoch: u64,
    /// Segments that belong to the log.
    pub segments: u64,
    /// Segments that are prepared and not started.
    pub spares: u64,
    /// The first LSN that must be present.
    pub first: u64,
    /// The end of what is intact.
    pub end: u64,
    /// Intact records, those before the first LSN included, and those that say what was trimmed or cut.
    pub records: u64,
    /// Their bytes, without headers.
    pub bytes: u64,
    /// Intact batches.
    pub batches: u64,
    /// Everything before this is known to have been durable.
    pub witnessed: u64,
    /// If `tail` is `SEAWALL_TAIL_LOST`, the LSN of the first record that is gone.
    pub lost_from: u64,
    /// Everything before this had been acknowledged then.
    pub lost_to: u64,
    /// Of a backup: segments copied. 0 of a verification.
    pub copied: u64,
    /// Of a backup: segments that an earlier one had copied, checked again.
    pub kept: u64,
    /// Of a backup: segments that the log had trimmed, removed from the backup.
    pub removed: u64,
    /// Entries of `damage`: 0 if all is intact.
    pub damages: u64,
    /// Entries of `foreign_file_names`.
    pub foreign_files: u64,
    /// Size of a block in bytes.
    pub block_bytes: u32,
    /// What acknowledged records outlive, 0 if no segment says so.
    pub durability: i32,
    /// How the log ends: `SEAWALL_TAIL_...`.
    pub tail: i32,
    /// Always 0.
    pub reserved: i32,
    /// Every damaged place.
    pub damage: *const Damage,
    /// Foreign files in the directory.
    pub foreign_file_names: *const *const c_char,
}

/// A report with what it points to. The report comes first, so that a pointer to it is one to all of this.
#[repr(C)]
struct Whole {
    report: Report,
    _damage: Kept<Damage>,
    _names: Kept<*const c_char>,
    _texts: Texts,
}

/// A report as a caller gets it.
fn shown(found: &Inner, backup: Option<&Backup>) -> Whole {
    let mut texts = Texts::default();
    let damage = found.damage.iter().map(|damage| Damage {
        path: texts.keep(c_path(&damage.path)),
        what: texts.keep(c_text(&damage.what)),
        offset: damage.offset,
        lsn: damage.lsn.get(),
    });
    let damage = Kept::new(damage.collect());
    let names = texts.keep_all(&found.foreign_files);
    let (tail, lost_from, lost_to) = tail_numbers(found.tail);
    let of_backup = |count: fn(&Backup) -> u64| backup.map_or(0, count);
    let report = Report {
        log_id: found.log_id.0,
        epoch: found.epoch,
        segments: found.segments,
        spares: found.spares,
        first: found.first.get(),
        end: found.end.get(),
        records: found.records,
        bytes: found.bytes,
        batches: found.batches,
        witnessed: found.witnessed.get(),
        lost_from,
        lost_to,
        copied: of_backup(|backup| backup.copied),
        kept: of_backup(|backup| backup.kept),
        removed: of_backup(|backup| backup.removed),
        damages: damage.len(),
        foreign_files: names.len(),
        block_bytes: found.block_bytes.into(),
        durability: found.class.map_or(0, class_number),
        tail,
        reserved: 0,
        damage: damage.as_ptr(),
        foreign_file_names: names.as_ptr(),
    };
    Whole { report, _damage: damage, _names: names, _texts: texts }
}

/// Reads all of the log in the directory `dir`, past the page cache, and reports every damaged place. It writes nothing and needs no
/// lock; a log that is being written may be reported with a torn tail. `*report` is to be freed by `seawall_report_free`; NULL if the
/// call fails. Damage is no error of the call: see `damages`.
///
/// Errors: `SEAWALL_NOT_A_LOG`, `SEAWALL_NEWER_FORMAT`, `SEAWALL_OLDER_FORMAT`, `SEAWALL_FOREIGN_SEGMENT`, `SEAWALL_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_verify(dir: *const c_char, report: *mut *const Report) -> i32 {
    let verify = || {
        // SAFETY: as the header asks.
        let dir = unsafe { path(dir) }?;
        Ok(shown(&seawall::verify(dir)?, None))
    };
    // SAFETY: as the header asks; the report comes first in what is made.
    unsafe { made(report.cast(), "report is NULL", verify) }
}

/// Copies the log in the directory `from`, which any process may be writing, into the directory `to`, which opens as the same log with
/// the same LSNs; a backup that is there is brought up to date. `*report` says what the copy holds and is to be freed by
/// `seawall_report_free`; `report` may be NULL.
///
/// Errors: those of `seawall_verify`, `SEAWALL_CORRUPT`, `SEAWALL_INVALID_OPTION` for a `to` that cannot be, `SEAWALL_LOCKED`,
/// `SEAWALL_DISK_FULL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_backup(
    from: *const c_char,
    to: *const c_char,
    report: *mut *const Report,
) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let from = unsafe { path(from) }?;
        // SAFETY: as the header asks.
        let to = unsafe { path(to) }?;
        let done = seawall::backup(from, to);
        // SAFETY: as the header asks.
        unsafe { reported(done, report, |done| shown(&done.report, Some(done))) }?;
        Ok(0)
    })
}

/// As `seawall_backup`, of an open log: everything that is durable now. Other threads append, commit and trim meanwhile.
///
/// Errors: as `seawall_backup`, `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_log_backup(
    log: *const Log,
    to: *const c_char,
    report: *mut *const Report,
) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let log = unsafe { inner(log) }?;
        // SAFETY: as the header asks.
        let to = unsafe { path(to) }?;
        let done = log.backup(to);
        // SAFETY: as the header asks.
        unsafe { reported(done, report, |done| shown(&done.report, Some(done))) }?;
        Ok(0)
    })
}

/// Copies every intact record of the damaged log in the directory `from` into a new log in the directory `to`, in order and transactions
/// whole, and returns how many, those that say what was trimmed or cut included. `from` stays as it is. LSNs are new: after a gap they differ from those of the old log.
/// `options` are those of the new log, NULL for the defaults. `*report` says what is left of the old log, as `seawall_verify` does, and is
/// to be freed by `seawall_report_free`; `report` may be NULL. Reads and writes the disk.
///
/// Errors: those of `seawall_verify` and `seawall_log_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_salvage(
    from: *const c_char,
    to: *const c_char,
    options: *const Options,
    report: *mut *const Report,
) -> i64 {
    call(|| {
        // SAFETY: as the header asks.
        unsafe { give_if_wanted(report, std::ptr::null()) };
        // SAFETY: as the header asks.
        let from = unsafe { path(from) }?;
        // SAFETY: as the header asks.
        let to = unsafe { path(to) }?;
        // SAFETY: as the header asks.
        let options = unsafe { options.as_ref() }.map(Options::get).unwrap_or_default();
        let done = seawall::salvage(from, to, options);
        // SAFETY: as the header asks.
        number(unsafe { reported(done, report, |done| shown(&done.report, None)) }?.records)
    })
}

/// What was done; `show` shows it in a report if the caller wants one, who gets null if it failed.
///
/// # Safety
/// `report` is null or the caller's.
unsafe fn reported<T>(
    done: seawall::Result<T>,
    report: *mut *const Report,
    show: fn(&T) -> Whole,
) -> Result<T> {
    if !report.is_null() {
        let whole = done.as_ref().map_or(std::ptr::null_mut(), |done| into_handle(show(done)));
        // SAFETY: as the caller says; the report is the first field of it.
        unsafe { give_if_wanted(report, whole.cast_const().cast()) };
    }
    Ok(done?)
}

/// Frees a report; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_report_free(report: *const Report) {
    // SAFETY: as the header asks; it is the first field of what `shown` made.
    unsafe { free(report.cast_mut().cast::<Whole>()) }
}
