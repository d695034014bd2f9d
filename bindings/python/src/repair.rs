//! Verify, backup and salvage.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use seawall::{Backup, Damage, Report, Tail};
use std::path::PathBuf;

use crate::errors::{OrRaise, looking};
use crate::options::options;
use crate::results::{Returned, class_name, made, tail_name};

fn damage<'py>(py: Python<'py>, damage: &Damage) -> Returned<'py> {
    made!(py, "Damage", {
        path: damage.path.to_string_lossy(),
        offset: damage.offset,
        lsn: damage.lsn.get(),
        what: &damage.what,
    })
}

/// The LSNs between which acknowledged records are gone, if any are.
pub(crate) fn lost(tail: Tail) -> Option<(u64, u64)> {
    if let Tail::Lost { from, to } = tail { Some((from.get(), to.get())) } else { None }
}

fn report<'py>(py: Python<'py>, report: &Report) -> Returned<'py> {
    let damaged: Vec<_> = report.damage.iter().map(|one| damage(py, one)).collect::<PyResult<_>>()?;
    made!(py, "Report", {
        log_id: report.log_id.to_string(),
        first: report.first.get(),
        end: report.end.get(),
        durability: report.class.map(class_name),
        tail: tail_name(report.tail),
        lost: lost(report.tail),
        witnessed: report.witnessed.get(),
        damage: damaged,
        foreign_files: &report.foreign_files,
        ..report { epoch, block_bytes, segments, spares, records, bytes, batches }
    })
}

/// A backup that was made.
pub(crate) fn backed_up<'py>(py: Python<'py>, done: &Backup) -> Returned<'py> {
    made!(py, "Backup", {
        report: report(py, &done.report)?,
        ..done { copied, kept, removed }
    })
}

/// Reads all of the log in ``path`` from the disk and reports every damaged place. Damage is no exception here.
#[pyfunction]
pub(crate) fn verify(py: Python<'_>, path: PathBuf) -> Returned<'_> {
    let found = py.detach(|| seawall::verify(&path)).map_err(|error| looking(py, &path, &error))?;
    report(py, &found)
}

/// Copies the log in ``source``, also while another process writes it, into the folder ``target``, which opens as the same log
/// with the same LSNs. Into an existing backup of the same log only what is new, changed or damaged is copied.
#[pyfunction]
pub(crate) fn backup(py: Python<'_>, source: PathBuf, target: PathBuf) -> Returned<'_> {
    let done = py.detach(|| seawall::backup(source, target)).or_raise(py)?;
    backed_up(py, &done)
}

/// Copies every intact record of the log in ``source`` into a new log in ``target``, in order; keyword arguments are the options
/// of the new log, as those of ``Log``.
#[pyfunction]
#[pyo3(signature = (source, target, **log_options))]
pub(crate) fn salvage<'py>(
    py: Python<'py>,
    source: PathBuf,
    target: PathBuf,
    log_options: Option<&Bound<'py, PyDict>>,
) -> Returned<'py> {
    let options = options(log_options)?;
    let done = py.detach(|| seawall::salvage(source, target, options)).or_raise(py)?;
    let left_out: Vec<_> = done.left_out.iter().map(|(from, to)| (from.get(), to.get())).collect();
    made!(py, "Salvaged", {
        report: report(py, &done.report)?,
        records: done.records,
        end: done.end.get(),
        left_out: left_out,
    })
}
