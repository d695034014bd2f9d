//! Draws states from a record, the likeliest faults first, and has each different one judged.
//!
//! ```text
//!   record ──► cuts × choices ──► candidates (hash) ──► rounds: three of each group, then more ──► workers ──► check
//! ```
//!
//! A group is what was cut off, by whom, and how: its first candidates are judged before any other's fourth. A candidate is a
//! number, not a directory: each round plays the record into the model again and lays out what it judges.
//!
//! Invariant: two candidates with the same contents and the same acknowledgements are judged once.

use crate::call::{Call, Event, Record};
use crate::check::{Answer, Check};
use crate::choices::{Choice, ChoiceKind, arrival, choices};
use crate::content::Hashes;
use crate::error::{Error, Result};
use crate::explain;
use crate::model::{Arrival, Made, Model};
use crate::progress::Progress;
use crate::roles::Roles;
use crate::rule::Rule;
use crate::tree::Tree;
use seawall_sys::clock::{monotonic_ns, nanoseconds};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// How much is searched.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// By whose rules.
    pub rules: Vec<Rule>,
    /// How long at most, explanations included.
    pub budget: Duration,
    /// Checks at once; 0 is 1.
    pub workers: usize,
    /// The seed.
    pub seed: u64,
    /// No power cut before this many events: a check that fails before the first acknowledgement judges none of them.
    pub first_cut: usize,
}

/// A call that would have kept everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The call: `fsync of key#`, `fsync of the directory sub`.
    pub call: String,
    /// After what: `after its last write`, `after rename to key#`.
    pub place: String,
    /// States that were judged with it, none of which broke; fewer than all if `whole` is false.
    pub states: u64,
    /// Whether every state that broke without it, and every one drawn with it, was judged.
    pub whole: bool,
}

/// A state that breaks what was acknowledged.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What the check said.
    pub message: String,
    /// The rules that allow a state that breaks so, the weakest first.
    pub rules: Vec<Rule>,
    /// The power went after this many events of the record.
    pub cut: usize,
    /// The events that did not arrive, by their place in the record.
    pub lost: Vec<usize>,
    /// Whether a part of a lost write arrived: no sync helps against that.
    pub torn: bool,
    /// The events that tell the story, by their place in the record: those on the files that `lost` is about.
    pub story: Vec<usize>,
    /// The call that is missing, if one call is enough.
    pub missing: Option<Missing>,
    /// Whether the time ran out before every call had been tried.
    pub untried: bool,
    /// The directory after the power cut.
    pub state: Tree,
}

impl Finding {
    /// Whether a real file system shows it, or posix is asked for too.
    #[must_use]
    pub fn counts(&self, posix_counts: bool) -> bool {
        posix_counts || self.rules.iter().any(|rule| *rule != Rule::Posix)
    }

    /// Moves it to the record that it is a finding of: `origins` has the place of each event there.
    fn come_from(&mut self, origins: &[usize]) {
        self.cut = self.cut.checked_sub(1).map_or(0, |last| origins[last] + 1);
        for places in [&mut self.lost, &mut self.story] {
            for place in places.iter_mut() {
                *place = origins[*place];
            }
            places.dedup();
        }
    }
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// One finding for each missing call; empty: no state broke.
    pub findings: Vec<Finding>,
    /// States drawn.
    pub drawn: u64,
    /// Different ones among them.
    pub different: u64,
    /// Those that were judged.
    pub judged: u64,
    /// Whether every power cut was drawn at, and every state of it judged; not known of a program that lost something.
    pub whole: bool,
    /// Whether a check was ended before it had answered.
    pub cut_off: bool,
}

/// Findings of one search: one for each missing call.
const FINDINGS_MAX: usize = 4;
/// Cuts at which choices are drawn; of more, the first ones of each group and some of the others.
const CUTS_MAX: usize = 4_000;
/// Candidates of a group in the first round; each later one has four times as many.
const FIRST_ROUND: usize = 3;
/// The kind of a cut at the end of a record, after a call at which no other cut stands.
const END: usize = 4;
/// The round of candidates that only the other ones leave time for.
const LAST_ROUND: u8 = u8::MAX;

/// Searches `record` by `search`.
///
/// # Errors
/// The check cannot be run.
pub fn search(record: &Record, search: &Search, check: &dyn Check, progress: &Progress) -> Result<Outcome> {
    let judged_before = progress.judged.load(Ordering::Relaxed);
    let judge = Judge::new(search, check, progress);
    let mut outcome = Outcome::default();
    let mut record = record.clone();
    // Where each event was before calls were added to try them.
    let mut origins: Vec<usize> = (0..record.events.len()).collect();
    // The rest of the time belongs to explanations.
    let hunted_until = judge.now().saturating_add(search.budget * 4 / 5);
    for number in 0..FINDINGS_MAX {
        let hunt = hunt(&record, search, &judge, hunted_until)?;
        if number == 0 {
            (outcome.drawn, outcome.different, outcome.whole) = (hunt.drawn, hunt.different, hunt.whole);
        }
        let Some(broken) = hunt.broken else { break };
        let (mut finding, mended) = explain::explain(&record, search, &judge, &broken)?;
        finding.come_from(&origins);
        let again = outcome.findings.iter().any(|known: &Finding| {
            known.missing.as_ref().map(|missing| (&missing.call, &missing.place))
                == finding.missing.as_ref().map(|missing| (&missing.call, &missing.place))
        });
        if again {
            break;
        }
        outcome.findings.push(finding);
        let Some((mended, places)) = mended else { break };
        let origin = |place: usize| origins[places.partition_point(|now| *now <= place).saturating_sub(1)];
        origins = (0..mended.events.len()).map(origin).collect();
        record = mended;
    }
    outcome.judged = progress.judged.load(Ordering::Relaxed) - judged_before;
    outcome.cut_off = judge.cut_off.load(Ordering::Relaxed);
    Ok(outcome)
}

/// Asks the check, once for each content and set of acknowledgements, and keeps the time.
pub(crate) struct Judge<'a> {
    check: &'a dyn Check,
    progress: &'a Progress,
    known: Mutex<HashMap<(u64, usize), Answer>>,
    workers: usize,
    seed: u64,
    started_ns: u64,
    /// Whether a check was ended by the clock: what it was asked counts as kept, and not as judged.
    cut_off: AtomicBool,
}

impl<'a> Judge<'a> {
    fn new(search: &Search, check: &'a dyn Check, progress: &'a Progress) -> Self {
        let budget_ns = nanoseconds(search.budget);
        let started_ns = monotonic_ns();
        progress.deadline_ns.store(started_ns.saturating_add(budget_ns), Ordering::Relaxed);
        Self {
            check,
            progress,
            known: Mutex::default(),
            workers: search.workers.max(1),
            seed: search.seed,
            started_ns,
            cut_off: AtomicBool::new(false),
        }
    }

    /// The time since the search began.
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(monotonic_ns() - self.started_ns)
    }

    /// What is left of the budget.
    pub(crate) fn left(&self) -> Duration {
        if self.progress.stop.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let deadline_ns = self.progress.deadline_ns.load(Ordering::Relaxed);
        Duration::from_nanos(deadline_ns.saturating_sub(monotonic_ns()))
    }

    /// The check's answer for `state`.
    fn ask(&self, fingerprint: u64, state: &Tree, acknowledged: &[Arc<[u8]>]) -> Result<Answer> {
        let key = (fingerprint, acknowledged.len());
        if let Some(answer) = self.lock().get(&key) {
            return Ok(answer.clone());
        }
        let answer = match self.check.judge(state, acknowledged) {
            Err(Error::OutOfTime) => {
                self.cut_off.store(true, Ordering::Relaxed);
                return Ok(Answer::Kept);
            }
            answer => answer?,
        };
        self.progress.judged.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(key, answer.clone());
        Ok(answer)
    }

    /// Whether `state` breaks what was acknowledged, and what the check said.
    pub(crate) fn breaks(&self, state: &Tree, acknowledged: &[Arc<[u8]>]) -> Result<Option<String>> {
        Ok(match self.ask(state.fingerprint(), state, acknowledged)? {
            Answer::Kept => None,
            Answer::Broken(message) => Some(message),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(u64, usize), Answer>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Judge<'_> {
    fn drop(&mut self) {
        // What is judged after the search has a check's own time.
        self.progress.deadline_ns.store(0, Ordering::Relaxed);
    }
}

/// A state that was drawn.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    cut: usize,
    rule: Rule,
    choice: Choice,
    /// The fingerprint of its state.
    content: u64,
    /// When it is judged: the round of its place in its group.
    round: u8,
}

/// A broken state.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) cut: usize,
    pub(crate) rule: Rule,
    pub(crate) arrival: Arrival,
    pub(crate) message: String,
}

/// What a hunt came to.
#[derive(Debug)]
pub(crate) struct Hunt {
    pub(crate) broken: Option<Broken>,
    pub(crate) drawn: u64,
    pub(crate) different: u64,
    /// Whether every candidate was judged.
    pub(crate) whole: bool,
}

/// Judges states of `record` until one breaks, or the time is `until`: those of real file systems first.
pub(crate) fn hunt(record: &Record, search: &Search, judge: &Judge<'_>, until: Duration) -> Result<Hunt> {
    let (posix, real): (Vec<Rule>, Vec<Rule>) = search.rules.iter().partition(|rule| **rule == Rule::Posix);
    let roles = Roles::of(record);
    let (mut cuts, thinned) = cuts(record, &roles);
    cuts.retain(|cut| cut.behind >= search.first_cut);
    let mut drawn = Drawn { thinned, ..Drawn::default() };
    let mut hunt = Hunt { broken: None, drawn: 0, different: 0, whole: true };
    // What only posix allows has its share of the time whatever else there is.
    let share = if posix.is_empty() || real.is_empty() {
        until
    } else {
        judge.now() + until.saturating_sub(judge.now()) * 3 / 4
    };
    for (rules, until) in [(real, share), (posix, until)] {
        let mut candidates = Vec::new();
        for rule in rules {
            candidates.extend(drawn.enumerate((record, &roles, &cuts), rule, judge, until));
        }
        judge.progress.different.store(drawn.seen.len() as u64, Ordering::Relaxed);
        (hunt.drawn, hunt.different) = (drawn.count, drawn.seen.len() as u64);
        let (broken, whole) = judge_rounds(record, &mut candidates, judge, until)?;
        hunt.whole &= whole && !drawn.thinned;
        if broken.is_some() {
            hunt.broken = broken;
            break;
        }
    }
    Ok(hunt)
}

/// States that were drawn, and how often.
#[derive(Debug, Default)]
struct Drawn {
    seen: BTreeSet<(u64, usize)>,
    /// For each content the fewest and the most acknowledgements with which it was drawn.
    counts: BTreeMap<u64, (usize, usize)>,
    groups: HashMap<(usize, String, u32, ChoiceKind), usize>,
    count: u64,
    /// Whether not all cuts were used.
    thinned: bool,
}

/// A moment at which the power goes.
struct Cut {
    /// After this many events.
    behind: usize,
    /// The kind of the event that it stands at, and that event.
    kind: usize,
    place: usize,
}

/// The kind of an event that cuts stand at, and whether they stand behind it; the others stand before.
fn kind_of(call: &Call) -> Option<(usize, bool)> {
    match call {
        Call::Sync { .. } | Call::SyncAll => Some((0, false)),
        Call::Rename { .. } => Some((1, false)),
        Call::Remove { .. } => Some((2, false)),
        Call::Acknowledge { .. } => Some((3, true)),
        _ => None,
    }
}

/// The moments of a record, in order; also whether some were left out.
fn cuts(record: &Record, roles: &Roles) -> (Vec<Cut>, bool) {
    let mut cuts: Vec<Cut> = Vec::new();
    let mut of_group: HashMap<(usize, &str, u32), usize> = HashMap::new();
    let mut spare = Vec::new();
    for (place, event) in record.events.iter().enumerate() {
        let Some((kind, behind)) = kind_of(&event.call) else { continue };
        let cut = Cut { behind: place + usize::from(behind), kind, place };
        let seen = of_group.entry((kind, &roles.of[place], event.thread)).or_default();
        *seen += 1;
        if *seen <= FIRST_ROUND { cuts.push(cut) } else { spare.push(cut) }
    }
    if let Some(last) = record.events.last() {
        let kind = kind_of(&last.call).map_or(END, |(kind, _)| kind);
        cuts.push(Cut { behind: record.events.len(), kind, place: record.events.len() - 1 });
    }
    let room = CUTS_MAX.saturating_sub(cuts.len()).max(1);
    let step = spare.len().div_ceil(room).max(1);
    cuts.extend(spare.into_iter().step_by(step));
    cuts.sort_unstable_by_key(|cut| (cut.behind, cut.place));
    (cuts, step > 1)
}

impl Drawn {
    /// The candidates of `rule` at `cuts` that are new.
    fn enumerate(
        &mut self,
        (record, roles, cuts): (&Record, &Roles, &[Cut]),
        rule: Rule,
        judge: &Judge<'_>,
        until: Duration,
    ) -> Vec<Candidate> {
        let mut model = Model::new(record, rule);
        let (mut taken, mut acknowledged) = (0, 0);
        let (mut found, mut hashes, mut made) = (Vec::new(), Hashes::default(), Made::default());
        // Drawing may take a sixth of the time for each rule; what is judged is worth more than what is counted.
        let drawing_until = judge.now() + until.saturating_sub(judge.now()) / 6;
        for &Cut { behind: cut, kind, place } in cuts {
            if judge.now() > drawing_until || judge.left().is_zero() {
                self.thinned = true;
                break;
            }
            advance(&mut model, record, &mut taken, &mut acknowledged, cut);
            let (name, thread) = (&roles.of[place], record.events[place].thread);
            let mut same = HashSet::new();
            for choice in choices(&model) {
                let arrival = arrival(&model, choice, judge.seed ^ cut as u64);
                self.count += 1;
                if !same.insert(model.lost(&arrival)) {
                    continue;
                }
                let content = model.state_by(&arrival, &mut made).fingerprint_by(&mut hashes);
                if !self.seen.insert((content, acknowledged)) {
                    continue;
                }
                let (fewest, most) = self.counts.entry(content).or_insert((acknowledged, acknowledged));
                // The fewest and the most acknowledgements show most faults; those between come last.
                let between = acknowledged > *fewest && acknowledged < *most;
                (*fewest, *most) = ((*fewest).min(acknowledged), (*most).max(acknowledged));
                let rank = self.groups.entry((kind, name.clone(), thread, choice.kind())).or_default();
                *rank += 1;
                let round = if between { LAST_ROUND } else { round_of(*rank) };
                found.push(Candidate { cut, rule, choice, content, round });
            }
        }
        found
    }
}

/// The round of the `rank`-th candidate of its group, from 1.
fn round_of(rank: usize) -> u8 {
    let (mut end, mut round) = (FIRST_ROUND, 0);
    while rank > end {
        end *= 4;
        round += 1;
    }
    round
}

/// Plays the record into the model up to `cut`.
fn advance(model: &mut Model, record: &Record, taken: &mut usize, acknowledged: &mut usize, cut: usize) {
    for event in &record.events[*taken..cut] {
        model.take(event);
        *acknowledged += usize::from(matches!(event.call, Call::Acknowledge { .. }));
    }
    model.settle();
    *taken = cut;
}

/// The model of `record` when the power goes after `cut` events.
pub(crate) fn model_at(record: &Record, rule: Rule, cut: usize) -> Model {
    played(Model::new(record, rule), record, cut)
}

/// A new model when the power goes after `cut` events.
pub(crate) fn played(mut model: Model, record: &Record, cut: usize) -> Model {
    advance(&mut model, record, &mut 0, &mut 0, cut);
    model
}

/// Judges round by round until one breaks; also whether all were judged.
fn judge_rounds(
    record: &Record,
    candidates: &mut [Candidate],
    judge: &Judge<'_>,
    until: Duration,
) -> Result<(Option<Broken>, bool)> {
    candidates.sort_by_key(|candidate| (candidate.round, candidate.rule, candidate.cut));
    let acknowledged = record.acknowledged(record.events.len());
    for round in candidates.chunk_by(|one, other| one.round == other.round) {
        let (broken, whole) = judge_round(record, round, &acknowledged, judge, until)?;
        if broken.is_some() || !whole {
            return Ok((broken, false));
        }
    }
    Ok((None, true))
}

/// A state on its way to a worker.
struct Due {
    candidate: Candidate,
    state: Tree,
    acknowledged: usize,
}

fn judge_round(
    record: &Record,
    round: &[Candidate],
    acknowledged: &[Arc<[u8]>],
    judge: &Judge<'_>,
    until: Duration,
) -> Result<(Option<Broken>, bool)> {
    let (send, receive) = mpsc::sync_channel::<Due>(judge.workers * 2);
    let receive = Mutex::new(receive);
    let broken: Mutex<Result<Option<(Candidate, String)>>> = Mutex::new(Ok(None));
    let ended = AtomicBool::new(false);
    let work = || loop {
        let due = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(due) = due else { return };
        if ended.load(Ordering::Relaxed) {
            continue;
        }
        let answer = judge.ask(due.candidate.content, &due.state, &acknowledged[..due.acknowledged]);
        if matches!(answer, Ok(Answer::Kept)) {
            continue;
        }
        ended.store(true, Ordering::Relaxed);
        let mut first = broken.lock().unwrap_or_else(PoisonError::into_inner);
        match (answer, &*first) {
            (Err(error), _) => *first = Err(error),
            (Ok(Answer::Broken(message)), Ok(known))
                if known.as_ref().is_none_or(|(known, _)| due.candidate.cut < known.cut) =>
            {
                *first = Ok(Some((due.candidate, message)));
            }
            _ => {}
        }
    };
    let whole = std::thread::scope(|scope| {
        for _ in 0..judge.workers {
            scope.spawn(work);
        }
        for of_rule in round.chunk_by(|one, other| one.rule == other.rule) {
            let mut model = Model::new(record, of_rule[0].rule);
            let (mut taken, mut count) = (0, 0);
            for candidate in of_rule {
                if ended.load(Ordering::Relaxed) || judge.now() > until || judge.left().is_zero() {
                    drop(send);
                    return false;
                }
                advance(&mut model, record, &mut taken, &mut count, candidate.cut);
                let state =
                    model.state(&arrival(&model, candidate.choice, judge.seed ^ candidate.cut as u64));
                let due = Due { candidate: *candidate, state, acknowledged: count };
                if send.send(due).is_err() {
                    return false;
                }
            }
        }
        drop(send);
        true
    });
    let broken = broken.into_inner().unwrap_or_else(PoisonError::into_inner)?.map(|(candidate, message)| {
        let model = model_at(record, candidate.rule, candidate.cut);
        let arrival = arrival(&model, candidate.choice, judge.seed ^ candidate.cut as u64);
        Broken { cut: candidate.cut, rule: candidate.rule, arrival, message }
    });
    Ok((broken, whole && !judge.cut_off.load(Ordering::Relaxed)))
}

/// The roles whose syncs `record` has: what [`without`] can leave out, in words (`fsync of key#`).
#[must_use]
pub fn synced_roles(record: &Record) -> Vec<String> {
    let roles = Roles::of(record);
    let syncs = record.events.iter().enumerate().filter_map(|(place, event)| roles.sync(place, &event.call));
    syncs.collect::<BTreeSet<String>>().into_iter().collect()
}

/// `record` without the syncs of `role`.
#[must_use]
pub fn without(record: &Record, role: &str) -> Record {
    let roles = Roles::of(record);
    let stays = |place: usize, event: &Event| roles.sync(place, &event.call).is_none_or(|sync| sync != role);
    record.edited(stays, |_, _| Vec::new()).0
}

#[cfg(test)]
mod tests {
    use super::{Judge, Progress, Search};
    use crate::check::{Answer, Check};
    use crate::tree::Tree;
    use std::sync::Arc;
    use std::time::Duration;

    struct Keeps;

    impl Check for Keeps {
        fn judge(&self, _: &Tree, _: &[Arc<[u8]>]) -> crate::Result<Answer> {
            Ok(Answer::Kept)
        }
    }

    #[test]
    fn a_search_ends_checks_and_what_comes_after_it_does_not() {
        let progress = Progress::default();
        let judge = Judge::new(&Search::default(), &Keeps, &progress);
        std::thread::sleep(Duration::from_millis(1));
        assert!(progress.is_over() && judge.left().is_zero());
        drop(judge);
        assert!(!progress.is_over());
    }
}
