//! The gauge: runs a scenario and holds its result, with the reports of the command `seawall bench`.

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use seawall_gauge::findings;
use seawall_gauge::method_names::choose_methods;
use seawall_gauge::preflight;
use seawall_gauge::rank::{Ranking, ToBest};
use seawall_gauge::report::{self, Style};
use seawall_gauge::result::RunResult;
use seawall_gauge::row::{Measured, Outcome, Row};
use seawall_gauge::scenario::settings::{Amount, Settings};
use seawall_gauge::scenario::{self, BlockStart, Observer, SCENARIOS, Scenario};
use seawall_gauge::testbed::real::RealTestbed;
use seawall_sys::clock::nanoseconds;
use seawall_sys::inspect;
use seawall_sys::residency::available_memory_bytes;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::options::of_option;
use crate::results::{Returned, class_name, made, seconds};

/// The scenarios that need nothing but a folder: no cluster, and no other program.
fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS.iter().filter(|scenario| !scenario.clusters && scenario.name != scenario::peers::NAME)
}

/// The names of the scenarios that ``bench`` runs, the default first.
#[pyfunction]
pub(crate) fn scenario_names() -> Vec<&'static str> {
    scenarios().map(|scenario| scenario.name).collect()
}

/// Sets one setting from its value.
type Set = fn(&mut Settings, &Bound<'_, PyAny>) -> PyResult<()>;

#[rustfmt::skip]
const SETTINGS: [(&str, Set); 8] = [
    ("seconds", |settings, value| {
        settings.amount = Amount::TimeNs(nanoseconds(seconds("seconds", value.extract()?)?));
        Ok(())
    }),
    ("rounds", |settings, value| value.extract().map(|rounds| settings.rounds = rounds)),
    ("size", |settings, value| value.extract().map(|bytes| settings.bytes = bytes)),
    ("writes", |settings, value| value.extract().map(|writes| settings.writes = writes)),
    ("threads", |settings, value| value.extract().map(|threads| settings.threads = threads)),
    ("journal_bytes", |settings, value| value.extract().map(|bytes| settings.journal.bytes = bytes)),
    ("seed", |settings, value| value.extract().map(|seed| settings.seed = seed)),
    ("methods", |settings, value| {
        settings.methods = choose_methods(&value.extract::<String>()?).map_err(refused)?;
        settings.others = Vec::new();
        Ok(())
    }),
];

/// The options of the command that are settings here, as its messages name them.
const OPTIONS: [(&str, &str); 10] = [
    (" (`seawall bench --list` names the options)", ""),
    ("--allow-memory", "allow_memory=True"),
    ("--journal", "journal_bytes"),
    ("--methods", "methods"),
    ("--rounds", "rounds"),
    ("--seed", "seed"),
    ("--size", "size"),
    ("--threads", "threads"),
    ("--time", "seconds"),
    ("--writes", "writes"),
];

/// A message of the command in the words of this interface.
fn in_keywords(error: impl std::fmt::Display) -> String {
    OPTIONS.iter().fold(error.to_string(), |words, (option, keyword)| words.replace(option, keyword))
}

fn refused(error: seawall_gauge::Error) -> PyErr {
    PyValueError::new_err(in_keywords(error))
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(in_keywords(error))
}

/// The folder, unless it is not there or this user may not see it.
fn check_folder(py: Python<'_>, path: &Path) -> PyResult<()> {
    let Some(errno) = std::fs::metadata(path).err().and_then(|error| error.raw_os_error()) else {
        return Ok(());
    };
    let words = py.import("os")?.call_method1("strerror", (errno,))?.unbind();
    // Of `OSError` Python makes the class of the number.
    Err(PyOSError::new_err((errno, words, path.as_os_str().to_os_string())))
}

/// Looks for signals between blocks, and reports progress to Python.
struct Watcher<'a> {
    progress: Option<&'a Py<PyAny>>,
    stop: AtomicBool,
    /// What a signal handler or the callback raised.
    raised: Option<PyErr>,
}

impl Watcher<'_> {
    fn look(&mut self, done: f64, words: &str) {
        let looked = Python::attach(|py| {
            py.check_signals()?;
            self.progress.map_or(Ok(()), |progress| progress.call1(py, (done, words)).map(drop))
        });
        if let Err(error) = looked {
            self.stop.store(true, Ordering::Relaxed);
            self.raised.get_or_insert(error);
        }
    }
}

impl Observer for Watcher<'_> {
    fn filling(&mut self, done_bytes: u64, total_bytes: u64) {
        let share = (done_bytes * 100).checked_div(total_bytes).unwrap_or(0);
        self.look(0.0, &format!("filling the journal: {share} %"));
    }

    fn block(&mut self, block: &BlockStart<'_>) {
        let words = format!("round {} of {}, {}", block.round + 1, block.rounds, block.method);
        self.look(block.done, &words);
    }

    fn round(&mut self, _: &RunResult) -> Result<(), seawall_gauge::Error> {
        Ok(())
    }

    fn stop(&self) -> &AtomicBool {
        &self.stop
    }
}

/// The result of a run of the gauge, with its reports.
#[pyclass(module = "seawall", frozen)]
pub(crate) struct Measurement {
    result: RunResult,
}

fn settings(scenario: &Scenario, given: Option<&Bound<'_, PyDict>>) -> PyResult<Settings> {
    let mut settings = (scenario.settings)();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        let set = SETTINGS.iter().find(|(listed, _)| *listed == name);
        let Some((_, set)) = set else {
            let names = SETTINGS.map(|(name, _)| name).join(", ");
            return Err(PyValueError::new_err(format!("bench has no setting '{name}'; it has {names}")));
        };
        if !value.is_none() {
            set(&mut settings, &value).map_err(|error| of_option(&name, &error, &value))?;
        }
    }
    settings.check().map_err(refused)?;
    Ok(settings)
}

/// Runs a scenario of the gauge in ``path``; ``progress`` is called with the share that is done and words.
#[pyfunction]
#[pyo3(signature = (path, scenario, allow_memory, progress=None, **given))]
pub(crate) fn measure(
    py: Python<'_>,
    path: PathBuf,
    scenario: &str,
    allow_memory: bool,
    progress: Option<Py<PyAny>>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Measurement> {
    let Some(scenario) = scenarios().find(|known| known.name == scenario) else {
        let names = scenario_names().join(", ");
        return Err(PyValueError::new_err(format!("there is no scenario '{scenario}'; there are {names}")));
    };
    let settings = settings(scenario, given)?;
    check_folder(py, &path)?;
    let mut watcher = Watcher { progress: progress.as_ref(), stop: AtomicBool::new(false), raised: None };
    let done = py.detach(|| {
        let environment = inspect::tried_environment(&path).map_err(|error| error.to_string())?;
        let free_bytes = environment.file_system.free_bytes;
        let needs_bytes = (scenario.needs_bytes)(&settings, available_memory_bytes(), free_bytes);
        let checked = preflight::check(scenario, &settings, needs_bytes, &environment, allow_memory);
        checked.map_err(|error| error.to_string())?;
        let mut testbed = RealTestbed::in_folder(&path, environment);
        (scenario.run)(&settings, &mut testbed, &mut watcher).map_err(|error| error.to_string())
    });
    if let Some(raised) = watcher.raised {
        return Err(raised);
    }
    Ok(Measurement { result: done.map_err(failed)? })
}

/// Reads the file of a result.
#[pyfunction]
pub(crate) fn read_result(py: Python<'_>, path: PathBuf) -> PyResult<Measurement> {
    py.detach(|| RunResult::read(&path)).map(|result| Measurement { result }).map_err(refused)
}

/// The row of a method, design or load.
fn row<'py>(py: Python<'py>, row: &Row, ranking: &Ranking<'_>) -> Returned<'py> {
    let none = Measured::default();
    let measured = if let Outcome::Measured(measured) = &row.outcome { measured } else { &none };
    let latency = measured.main();
    let some = latency.count() > 0;
    let percentile = |percent: f64| latency.percentile(percent).ns().filter(|_| some);
    let ranked = ranking.find(&row.id);
    let to_best = ranked.map(|ranked| match ranked.to_best {
        ToBest::Best => 1.0,
        ToBest::Ratio(ratio) => ratio.estimate,
        ToBest::Single(value) => value,
    });
    made!(py, "Row", {
        id: &row.id,
        label: &row.label,
        what: &row.what,
        missing: row.outcome.missing().map(|(word, reason)| format!("{word}: {reason}")),
        durability: measured.class().map(|class| class_name(ranked.map_or(class, |ranked| ranked.class.counted_on()))),
        per_second: some.then(|| measured.commits_per_s()),
        p50_ns: percentile(50.0),
        p99_ns: percentile(99.0),
        p999_ns: percentile(99.9),
        max_ns: some.then(|| latency.max_ns()),
        flushes: ranked.map(|ranked| ranked.evidence.flushes()),
        to_best: to_best,
        ..measured { commits, bytes, elapsed_ns }
    })
}

/// What a measurement found, as `_seawall.pyi` types it.
type Found<'py> = (String, bool, u64, Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>, Option<String>);

#[pymethods]
impl Measurement {
    /// The scenario's name; whether all rounds were run; when it began, in seconds since 1970; its rows, in the order of the table; what
    /// was found in it, the gravest first; and the id of the method that is recommended, if one is.
    fn found<'py>(&self, py: Python<'py>) -> PyResult<Found<'py>> {
        let ranking = Ranking::new(&self.result);
        let rows = self.result.study.rows.iter().map(|one| row(py, one, &ranking));
        let one = |found: &findings::Finding| {
            made!(py, "Finding", {
                severity: found.severity.name(),
                sentence: &found.sentence,
                remedy: &found.remedy,
                ..found { rule }
            })
        };
        let findings = findings::find(&ranking).iter().map(one).collect::<PyResult<_>>()?;
        let recommended = ranking.recommended().map(|ranked| ranked.id().to_owned());
        let RunResult { scenario, complete, started_unix_s, .. } = &self.result;
        Ok((
            scenario.clone(),
            *complete,
            *started_unix_s,
            rows.collect::<PyResult<_>>()?,
            findings,
            recommended,
        ))
    }

    /// The report in a form: `html`, one page with its pictures, which loads nothing; `markdown`; `csv`; `json`, the text of the result's
    /// file; `text`, for a terminal of this many columns.
    #[pyo3(signature = (form, width=0))]
    fn report(&self, form: &str, width: usize) -> PyResult<String> {
        match form {
            "html" => Ok(report::html::html(&self.result)),
            "markdown" => Ok(report::markdown::markdown(&self.result)),
            "csv" => Ok(report::csv::csv(&self.result)),
            "json" => self.result.to_json().map_err(failed),
            _ => Ok(report::terminal(&self.result, width.max(report::WIDTH_MIN), Style::PLAIN)),
        }
    }
}
