//! The probe: what a durable commit costs in a folder, within a second.

use pyo3::prelude::*;
use seawall::{PROBE_TIME_MAX, Promiser, Tried};
use seawall_sys::clock::nanoseconds;
use std::path::PathBuf;

use crate::results::{Returned, class_name, made, seconds};

fn tried<'py>(py: Python<'py>, tried: &Tried) -> Returned<'py> {
    made!(py, "Tried", {
        p50_ns: nanoseconds(tried.p50),
        max_ns: nanoseconds(tried.max),
        ..tried { method, calls, commits }
    })
}

fn promiser(promiser: Promiser) -> &'static str {
    match promiser {
        Promiser::Device => "device",
        Promiser::Hypervisor => "hypervisor",
        Promiser::Server => "server",
        Promiser::Wine => "wine",
        Promiser::Unknown => "unknown",
    }
}

/// Measures a durable commit in ``path``, a folder that exists, within ``budget`` seconds, one second at most.
///
/// It makes at most 64 commits of 4 KiB and never raises for what the disk does: what went wrong is in ``problem``.
#[pyfunction]
#[pyo3(signature = (path=PathBuf::from("."), *, budget=PROBE_TIME_MAX.as_secs_f64()), text_signature = "(path='.', *, budget=1.0)")]
pub(crate) fn probe(py: Python<'_>, path: PathBuf, budget: f64) -> Returned<'_> {
    let budget = seconds("budget", budget)?;
    let found = py.detach(|| seawall::probe(&path, budget));
    let all: Vec<_> = found.tried.iter().map(|one| tried(py, one)).collect::<PyResult<_>>()?;
    let fastest = found.fastest.as_ref().map(|fastest| tried(py, fastest)).transpose()?;
    made!(py, "Probe", {
        path: path.to_string_lossy(),
        fastest: fastest,
        tried: all,
        durability: found.class.map(class_name),
        promised_by: found.promised_by.map(promiser),
        elapsed_ns: nanoseconds(found.elapsed),
        left_behind: found.left_behind.map(|path| path.to_string_lossy().into_owned()),
        ..found { because, problem }
    })
}
