//! Derives findings from a result: sentences about its validity, the machine and the cost, with remedies.
//!
//! [`RULES`] is a table: each row inspects the ranking and yields nothing, or one sentence with its figures and a
//! remedy. `trust` checks that the figures are valid, `machine` whether the machine disturbed them, `cost` why they
//! are as high as they are. What is special to a scenario comes from its row of the table of scenarios, found by the name
//! in the result, so that an old result is judged by a newer program.
//!
//! Invariants: a finding prevents a wrong conclusion; a healthy run prints few; a finding that holds for many methods
//! is printed once; rules are pure and tested alone.

mod cost;
mod machine;
mod raw;
mod slower;
mod trust;

use crate::rank::Ranking;
use crate::row::Row;
use crate::scenario;
use About::{Durable, Every, Ranked};
pub(crate) use machine::CPU_WAIT_SHARE_MAX;
use serde::Serialize;

/// How much a finding weighs. The gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The figures do not mean what they seem to: data would be lost, or something else was measured.
    Wrong,
    /// The figures are true but disturbed or incomplete.
    Caution,
    /// Good to know.
    Note,
}

impl Severity {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Caution => "caution",
            Self::Note => "note",
        }
    }
}

/// One thing found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static str,
    /// Its weight.
    pub severity: Severity,
    /// What was found, with its figures.
    pub sentence: String,
    /// What to do about it.
    pub remedy: String,
}

/// What a rule says: nothing, or weight, sentence and remedy.
pub(crate) type Found = Option<(Severity, String, String)>;

/// The results that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    Every,
    /// Those whose figures mean nothing where nothing outlives a crash.
    Durable,
    /// Those whose rows are ranked methods.
    Ranked,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub id: &'static str,
    pub about: About,
    pub find: fn(&Ranking<'_>) -> Found,
}

const fn rule(id: &'static str, about: About, find: fn(&Ranking<'_>) -> Found) -> Rule {
    Rule { id, about, find }
}

/// All rules; within a severity, findings come in this order.
#[rustfmt::skip]
pub(crate) const RULES: [Rule; 37] = [
    rule("cpu-wait",             Every,   machine::cpu_wait),
    rule("ticks",                Ranked,  machine::ticks),
    rule("lies",                 Durable, trust::lies),
    rule("wine",                 Durable, trust::wine),
    rule("memory",               Durable, trust::memory),
    rule("contradicted",         Durable, trust::contradicted),
    rule("bytes-missing",        Durable, trust::bytes_missing),
    rule("too-fast",             Ranked,  trust::too_fast),
    rule("file-state",           Ranked,  trust::file_state),
    rule("failed",               Every,   trust::failed),
    rule("promiser",             Ranked,  trust::promiser),
    rule("unvouched",            Ranked,  trust::unvouched),
    rule("direct-trap",          Ranked,  trust::direct_trap),
    rule("interrupted",          Every,   machine::interrupted),
    rule("busy",                 Every,   machine::busy),
    rule("stolen",               Every,   machine::stolen),
    rule("capped",               Ranked,  machine::capped),
    rule("not-idle",             Durable, machine::not_idle),
    rule("drift",                Ranked,  machine::drift),
    rule("slower-for-minutes",   Ranked,  slower::for_minutes),
    rule("few-samples",          Ranked,  machine::few_samples),
    rule("single-round",         Ranked,  machine::single_round),
    rule("clock",                Ranked,  machine::clock),
    rule("queueing",             Ranked,  machine::queueing),
    rule("outside-range",        Ranked,  trust::outside_range),
    rule("free-flush",           Ranked,  trust::free_flush),
    rule("stalls",               Ranked,  cost::stalls),
    rule("metadata",             Ranked,  cost::metadata),
    rule("amplification",        Ranked,  cost::amplification),
    rule("copy-on-write",        Ranked,  cost::copy_on_write),
    rule("raw-flushes",          Ranked,  raw::raw_flushes),
    rule("fsync-dearer",         Ranked,  cost::fsync_dearer),
    rule("each-write-flushed",   Ranked,  cost::each_write_flushed),
    rule("same-within-noise",    Ranked,  machine::same_within_noise),
    rule("burst-credits",        Ranked,  machine::burst_credits),
    rule("write-buffer",         Ranked,  machine::write_buffer),
    rule("small-journal",        Ranked,  machine::small_journal),
];

/// Everything found, gravest first; a wait for CPUs leads its severity, because it changes the headline.
pub fn find(ranking: &Ranking<'_>) -> Vec<Finding> {
    let study = &ranking.result.study;
    let of = scenario::find(&ranking.result.scenario);
    let applies = |about: About| match about {
        Every => true,
        Durable => study.ranked || of.is_some_and(|of| of.durable),
        Ranked => study.ranked,
    };
    let rules = RULES.iter().filter(|rule| applies(rule.about));
    let mut found: Vec<Finding> = rules
        .filter_map(|rule| {
            let (severity, sentence, remedy) = (rule.find)(ranking)?;
            Some(Finding { rule: rule.id, severity, sentence, remedy })
        })
        .collect();
    found.extend(of.into_iter().flat_map(|of| (of.judge)(study)));
    found.sort_by_key(|finding| finding.severity);
    found
}

/// From when to when the best durable method was slower for minutes, and its id: nanoseconds since the run began.
pub(crate) fn slower_for_minutes<'b>(ranking: &'b Ranking<'_>) -> Option<(&'b str, u64, u64)> {
    if ranking.result.study.ranked { slower::span(ranking) } else { None }
}

pub(crate) fn waiting_for_cpu<'b>(ranking: &'b Ranking<'_>) -> Vec<&'b str> {
    machine::waiting(ranking).iter().map(|(row, _)| row.id()).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grave {
    pub rule: &'static str,
    pub sentence: &'static str,
    /// What to do next, in a clause.
    pub next: &'static str,
}

#[rustfmt::skip]
const GRAVE: [Grave; 6] = [
    Grave { rule: "lies",          sentence: "Something here turns syncs into nothing: see the findings before using a figure.", next: "--verbose names it and the remedy" },
    Grave { rule: "wine",          sentence: "This ran under Wine: the figures are Wine's, not a Windows machine's.",            next: "run it on Windows itself" },
    Grave { rule: "memory",        sentence: "This is memory, not a disk: nothing here outlives a power cut.",                   next: "seawall bench DIR, with a folder on a disk" },
    Grave { rule: "contradicted",  sentence: "Flushes go missing: \"durable\" is not confirmed here.",                              next: "seawall powercut: whether this machine keeps its word" },
    Grave { rule: "bytes-missing", sentence: "Bytes never reached the device: what was acknowledged is in memory only.",         next: "seawall powercut: whether this machine keeps its word" },
    Grave { rule: "too-fast",      sentence: "Too fast for any device: this was answered from memory.",                          next: "seawall powercut: whether this machine keeps its word" },
];

pub(crate) fn grave(ranking: &Ranking<'_>) -> Option<Grave> {
    let says = |id: &str| RULES.iter().any(|rule| rule.id == id && (rule.find)(ranking).is_some());
    GRAVE.into_iter().find(|grave| says(grave.rule))
}

/// A row's name as its table shows it; those of a group share their labels with other groups' and are named by id.
fn shown(row: &Row) -> &str {
    if row.group.is_empty() { &row.label } else { &row.id }
}

/// What a rule says when it has something to say.
#[expect(clippy::unnecessary_wraps, reason = "it is what a rule returns")]
fn say(severity: Severity, sentence: String, remedy: impl Into<String>) -> Found {
    Some((severity, sentence, remedy.into()))
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
