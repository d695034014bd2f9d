//! One crash test: records the program, tries the check, searches, and judges each finding again.

use crate::call::{Call, Record};
use crate::check::{Answer, Check, CommandCheck, LIMIT, one_line};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::recorder::{Ended, Fault, FaultOn, Program, record_until};
use crate::rule::Rule;
use crate::search::{Finding, Outcome, Search, search, synced_roles, without};
use crate::tree::Tree;
use seawall_sys::clock::monotonic_ns;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a finding is judged again.
const AGAIN: usize = 3;
/// The errors that calls are answered with, each with its name.
const ERRORS: [(FaultOn, i32, &str); 5] = [
    (FaultOn::Write, 28, "write: no space (ENOSPC)"),
    (FaultOn::Write, 5, "write: input/output error (EIO)"),
    (FaultOn::Write, 0, "write: only half of it written"),
    (FaultOn::Sync, 5, "sync: input/output error (EIO)"),
    (FaultOn::Name, 28, "create or rename: no space (ENOSPC)"),
];

/// What is tested, and how far.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program.
    pub program: Program,
    /// The check, for `sh -c`.
    pub check: String,
    /// The search; its budget is that of the whole test.
    pub search: Search,
    /// Whether the program's own syncs are left out, one role at a time.
    pub mutate: bool,
    /// Whether the program runs again with calls that fail.
    pub errors: bool,
}

/// What a test came to.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The run.
    pub record: Record,
    /// How it ended.
    pub ended: Ended,
    /// How long it took.
    pub recorded: Duration,
    /// What was found.
    pub outcome: Outcome,
    /// Whether no state before the first acknowledgement was judged, because the check fails there.
    pub from_first_acknowledgement: bool,
    /// For each role whose syncs were left out: whether the check noticed, and how many states were judged.
    pub without: Vec<(String, bool, u64)>,
    /// For each call that failed: which, and what broke.
    pub errors: Vec<(String, Option<String>)>,
}

impl Verdict {
    /// Findings that some real file system shows, or that the caller asked for by `--rules posix`.
    pub fn broken(&self, posix_counts: bool) -> impl Iterator<Item = &Finding> {
        self.outcome.findings.iter().filter(move |finding| finding.counts(posix_counts))
    }

    /// Whether the program lost something.
    #[must_use]
    pub fn is_broken(&self, posix_counts: bool) -> bool {
        self.broken(posix_counts).next().is_some() || self.errors.iter().any(|(_, broken)| broken.is_some())
    }
}

/// The directory when everything has arrived.
fn end(record: &Record) -> Tree {
    let mut tree = record.before.clone();
    record.events.iter().for_each(|event| tree.take(&event.call));
    tree.reachable()
}

/// Runs the test of `options`.
///
/// # Errors
/// It cannot be made: the program cannot be recorded, or its check says nothing.
pub fn run(options: &Options, progress: &Progress) -> Result<Verdict> {
    let started_ns = monotonic_ns();
    let (mut record, ended) = record_until(&options.program, &progress.stop)?;
    let recorded = Duration::from_nanos(monotonic_ns() - started_ns);
    if ended == Ended::Exit(127) {
        return Err(Error::Untestable(format!(
            "{:?}: the command was not found (exit code 127)",
            options.program.command
        )));
    }
    let acknowledged = record.acknowledged(record.events.len());
    if acknowledged.is_empty() {
        return Err(Error::Untestable(format!(
            "the program acknowledged nothing: it ended with {ended} after {} calls on {}; print a line to standard output \
             when something is saved, and flush it",
            record.events.len(),
            options.program.directory.display()
        )));
    }
    let mut check = CommandCheck::new(&options.program.directory, &options.check, LIMIT)?;
    check.progress = Some(progress);
    let finished = end(&record);
    if let Answer::Broken(message) = check.judge(&finished, &acknowledged)? {
        return Err(Error::Untestable(format!(
            "the check fails on the finished run, before any power cut: {}: mend the check, or the program",
            one_line(&message)
        )));
    }
    // The last lines may say that everything is gone, as of a queue that was drained.
    let mut is_blind = true;
    for lines in [acknowledged.len(), acknowledged.len().div_ceil(2), 1] {
        is_blind = is_blind && check.judge(&Tree::default(), &acknowledged[..lines])? == Answer::Kept;
    }
    if is_blind {
        return Err(Error::Untestable(format!(
            "the check is blind: with {} lines acknowledged it passes on an empty directory: mend the check",
            acknowledged.len()
        )));
    }
    // A check that opens a database may fail where there is none yet; that is no loss.
    let from_first_acknowledgement = check.judge(&record.before, &[])? != Answer::Kept;
    let first = record.events.iter().position(|event| matches!(event.call, Call::Acknowledge { .. }));
    let first_cut = if from_first_acknowledgement { first.map_or(0, |first| first + 1) } else { 0 };
    let parts = 1 + u32::from(options.mutate) + u32::from(options.errors);
    let share = options.search.budget / parts;
    let how = Search { budget: share, first_cut, ..options.search.clone() };
    let outcome = search(&record, &how, &check, progress)?;
    if outcome.judged == 0 {
        return Err(Error::Untestable(
            "no state was judged: the test was interrupted, or its --budget is too short".to_owned(),
        ));
    }
    for finding in &outcome.findings {
        let lines = record.acknowledged(finding.cut);
        for _ in 0..AGAIN {
            let answer = match check.judge(&finding.state, &lines) {
                Err(Error::OutOfTime) => break,
                answer => answer?,
            };
            if answer == Answer::Kept {
                return Err(Error::Untestable(format!(
                    "the check is unsteady: for one state it said {:?}, and then that it is kept",
                    one_line(&finding.message)
                )));
            }
        }
    }
    if outcome.cut_off {
        let notice = "a check had not ended when the time was over: its state is not judged";
        record.notices.push(notice.to_owned());
    }
    let mut verdict = Verdict {
        record,
        ended,
        recorded,
        outcome,
        from_first_acknowledgement,
        without: Vec::new(),
        errors: Vec::new(),
    };
    let real: Vec<Rule> = how.rules.iter().copied().filter(|rule| *rule != Rule::Posix).collect();
    if options.mutate {
        leave_out(&how, &real, &check, progress, &mut verdict)?;
    }
    if options.errors {
        let how = Search { rules: real, ..how };
        errors(options, &how, &check, progress, &mut verdict)?;
    }
    if progress.stop.load(Ordering::Relaxed) {
        verdict.record.notices.push("interrupted: it was judged as far as it came".to_owned());
    }
    Ok(verdict)
}

/// Leaves the program's syncs out, one role at a time, unless it loses something as it is; what only posix allows is lost with
/// every sync in place, and then the `real` rules decide.
fn leave_out(
    how: &Search,
    real: &[Rule],
    check: &CommandCheck<'_>,
    progress: &Progress,
    verdict: &mut Verdict,
) -> Result<()> {
    let rules = if verdict.outcome.findings.is_empty() { how.rules.clone() } else { real.to_vec() };
    if verdict.is_broken(false) || rules.is_empty() {
        verdict.record.notices.push("--mutate was not run: the program loses something as it is".to_owned());
        return Ok(());
    }
    let synced = synced_roles(&verdict.record);
    let budget = how.budget / u32::try_from(synced.len()).unwrap_or(u32::MAX).max(1);
    let how = Search { rules, budget, ..how.clone() };
    for role in synced {
        if progress.stop.load(Ordering::Relaxed) {
            break;
        }
        let outcome = search(&without(&verdict.record, &role), &how, check, progress)?;
        verdict.without.push((role, !outcome.findings.is_empty(), outcome.judged));
    }
    Ok(())
}

/// Runs the program again with calls that fail: the first of each kind, one in the middle and the last. Searches the states of
/// those runs by `how`.
fn errors(
    options: &Options,
    how: &Search,
    check: &CommandCheck<'_>,
    progress: &Progress,
    verdict: &mut Verdict,
) -> Result<()> {
    let of_kind = |call: &Call, on: FaultOn| match call {
        Call::Write { .. } => on == FaultOn::Write,
        Call::Sync { .. } => on == FaultOn::Sync,
        Call::Create { .. } | Call::Link { .. } | Call::Rename { .. } => on == FaultOn::Name,
        _ => false,
    };
    for (on, errno, name) in ERRORS {
        let calls = verdict.record.events.iter().filter(|event| of_kind(&event.call, on)).count() as u64;
        let mut due = vec![0, calls / 2, calls.saturating_sub(1)];
        due.dedup();
        for nth in due.into_iter().filter(|nth| *nth < calls) {
            let program = Program { fault: Some(Fault { errno, on, nth }), ..options.program.clone() };
            let (failed, _) = record_until(&program, &progress.stop)?;
            let acknowledged = failed.acknowledged(failed.events.len());
            let mut broken = match check.judge(&end(&failed), &acknowledged) {
                Ok(Answer::Kept) => None,
                Ok(Answer::Broken(message)) => Some(message),
                Err(Error::OutOfTime) => return Ok(()),
                Err(error) => return Err(error),
            };
            if broken.is_none() {
                let how = Search { budget: how.budget / 15, ..how.clone() };
                let outcome = search(&failed, &how, check, progress)?;
                broken =
                    outcome.findings.first().map(|found| format!("{} (and then a power cut)", found.message));
            }
            verdict.errors.push((format!("{name}, call {} of {calls}", nth + 1), broken));
        }
    }
    Ok(())
}
