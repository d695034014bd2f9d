//! Measures commit latency in a directory within a time budget, for services at start-up: [`probe`].
//!
//! Invariants: it ends within its budget even if the device does not answer, makes at most [`PROBE_COMMITS_MAX`]
//! commits, and never fails: whatever goes wrong is a field of the result. The scratch file is removed; only if the
//! device does not answer is it left to a thread that removes it when the device does, and the result names the file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use seawall_sys::clock::{monotonic_ns, nanoseconds};
use seawall_sys::durability::{Claim, Durability, FileState, Promiser, classify};
use seawall_sys::inspect::Environment;
use seawall_sys::method::{Method, Set};
use seawall_sys::scratch::Scratch;

use crate::error::from_system;
use crate::method::eligible::reaching;
use crate::method::evidence::{Evidence, judge};
use crate::method::trial::{self, Bounds, Trial};

/// The longest budget; a longer one counts as this.
pub const PROBE_TIME_MAX: Duration = Duration::from_secs(1);
/// The most commits that a probe makes: proofs, the one that makes the file, and those that are timed.
pub const PROBE_COMMITS_MAX: usize = 64;
/// Size of a commit, bytes.
pub const PROBE_COMMIT_BYTES: usize = 4096;

/// What is left of the budget for removing the file and answering.
const RESERVE: Duration = Duration::from_millis(50);

/// What a probe found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Probe {
    /// The fastest of the methods that outlive the most here; `None` if none could be tried.
    pub fastest: Option<Tried>,
    /// All that were tried, the fastest among them.
    pub tried: Vec<Tried>,
    /// What an acknowledged commit of these methods outlives here.
    pub class: Option<Durability>,
    /// Who promises that.
    pub promised_by: Option<Promiser>,
    /// Why the class is not higher, or what it relies on.
    pub because: Vec<String>,
    /// Whether the devices' counters confirm the class; a class that they contradict is lowered.
    pub evidence: Evidence,
    /// How long the probe took.
    pub elapsed: Duration,
    /// What went wrong; `None` if all went well. What was found until then is in the other fields.
    pub problem: Option<String>,
    /// The file that could not be removed yet.
    pub left_behind: Option<PathBuf>,
}

/// What one method showed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// Its id in the method table.
    pub method: &'static str,
    /// Its calls in words.
    pub calls: &'static str,
    /// Commits that were timed.
    pub commits: usize,
    /// The median of write and sync together.
    pub p50: Duration,
    /// The slowest.
    pub max: Duration,
}

/// What a probe can say about a requirement on the 99th percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProbeOutcome {
    /// No commit took longer. A probe's few commits cannot show more.
    NothingAgainst,
    /// Some took longer, but not half of them.
    Doubtful,
    /// Half of the commits or more took longer.
    TooSlow,
}

impl ProbeOutcome {
    /// Its name in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NothingAgainst => "nothing against it",
            Self::Doubtful => "doubtful",
            Self::TooSlow => "too slow",
        }
    }
}

impl Tried {
    fn of(trial: &Trial) -> Option<Self> {
        Some(Self {
            method: trial.method.id,
            calls: trial.method.calls,
            commits: trial.times_ns.len(),
            p50: Duration::from_nanos(trial.median_ns()?),
            max: Duration::from_nanos(*trial.times_ns.last()?),
        })
    }

    /// Compares the figures with a requirement on the 99th percentile.
    #[must_use]
    pub fn against(&self, p99_max: Duration) -> ProbeOutcome {
        if self.max < p99_max {
            ProbeOutcome::NothingAgainst
        } else if self.p50 < p99_max {
            ProbeOutcome::Doubtful
        } else {
            ProbeOutcome::TooSlow
        }
    }
}

impl Probe {
    /// What the method with this id showed, if it was tried.
    #[must_use]
    pub fn tried(&self, method: &str) -> Option<&Tried> {
        self.tried.iter().find(|tried| tried.method == method)
    }

    fn trouble(problem: impl Into<String>) -> Self {
        Self { problem: Some(problem.into()), ..Self::default() }
    }
}

/// Tries the widely supported commit methods on a small file of its own in `dir` (a directory that exists), a few commits
/// of 4 KiB each. Takes `budget` at most, and [`PROBE_TIME_MAX`] whatever the budget; a budget too short for one commit is
/// reported as a problem. It starts a thread, which outlives the call only if the device does not answer.
///
/// ```no_run
/// let probe = seawall::probe(std::path::Path::new("/var/lib/orders"), std::time::Duration::from_millis(300));
/// if let Some(fastest) = &probe.fastest {
///     println!("{}: {:?}, at most {:?}", fastest.method, fastest.p50, fastest.max);
/// }
/// ```
#[must_use]
pub fn probe(dir: &Path, budget: Duration) -> Probe {
    let began_ns = monotonic_ns();
    let budget = budget.min(PROBE_TIME_MAX);
    let until_ns = began_ns + nanoseconds(budget.saturating_sub(RESERVE));
    let (sender, result) = mpsc::channel();
    let own_dir = dir.to_path_buf();
    let folder: Arc<OnceLock<PathBuf>> = Arc::default();
    let made = Arc::clone(&folder);
    let look = move || {
        // The receiver is gone if the device took too long.
        let _ = sender.send(look(&own_dir, &made, until_ns));
    };
    let mut probe = match std::thread::Builder::new().name("seawall-probe".to_owned()).spawn(look) {
        Err(error) => Probe::trouble(format!("no thread for the probe: {error}")),
        Ok(_) => match result.recv_timeout(budget) {
            Ok(probe) => probe,
            Err(mpsc::RecvTimeoutError::Timeout) => Probe {
                left_behind: folder.get().filter(|folder| folder.exists()).cloned(),
                ..Probe::trouble(format!("{} has not answered within {budget:?}", dir.display()))
            },
            Err(mpsc::RecvTimeoutError::Disconnected) => Probe::trouble("the probe ended without an answer"),
        },
    };
    probe.elapsed = Duration::from_nanos(monotonic_ns() - began_ns);
    probe
}

/// The rows of the highest class that any reaches, those of the published experiments only: they exist everywhere, and
/// fewer rows leave more commits for each.
fn rows(environment: &Environment) -> Vec<&'static Method> {
    let of_class = |class: &Durability| {
        let mut rows = reaching(environment, *class);
        rows.retain(|method| method.set == Set::Published);
        rows
    };
    let found = Durability::ALL.iter().rev().map(of_class).find(|rows| !rows.is_empty());
    found.unwrap_or_default()
}

/// `made` takes the name of the folder that the probe makes.
fn look(dir: &Path, made: &OnceLock<PathBuf>, until_ns: u64) -> Probe {
    let environment = match seawall_sys::inspect::tried_environment(dir) {
        Ok(environment) => environment,
        Err(error) => return Probe::trouble(error.to_string()),
    };
    let rows = rows(&environment);
    let around = environment.surroundings(FileState::ZeroFilled);
    let durability: Option<Claim> = rows.first().map(|method| classify(method, &around));
    // One commit makes the file, and one proves each row.
    let rounds = (PROBE_COMMITS_MAX - 1).checked_div(rows.len()).unwrap_or(0).saturating_sub(1);
    let scratch_bytes = (PROBE_COMMITS_MAX * PROBE_COMMIT_BYTES) as u64;
    let bounds = Bounds {
        rounds,
        writes_per_round: 1,
        scratch_bytes,
        screened: None,
        until_ns: Some(until_ns),
        kept: None,
    };
    let tried = Scratch::new_in(dir).map_err(|error| from_system(&error)).and_then(|folder| {
        // Only this call sets it.
        let _ = made.set(folder.name().to_path_buf());
        let held = crate::lock::open_dir(folder.path())?;
        trial::run((&held, "probe"), &environment, &rows, PROBE_COMMIT_BYTES, &bounds)
    });
    let (trials, failed) = match tried {
        Ok(trials) => (trials, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let durability = durability.map(|claimed| borne_out(claimed, &trials, &environment));
    let (durability, evidence, honest) = match durability {
        Some((durability, evidence, honest)) => (Some(durability), evidence, honest),
        None => (None, Evidence::default(), Vec::new()),
    };
    let fastest = trial::fastest(honest).and_then(Tried::of);
    let none = || "no commit fits into the budget, or no method works here".to_owned();
    Probe {
        problem: failed.or_else(|| fastest.is_none().then(none)),
        fastest,
        tried: trials.iter().filter_map(Tried::of).collect(),
        class: durability.as_ref().map(|durability| durability.class),
        promised_by: durability.as_ref().map(|durability| durability.promised_by),
        because: durability.map(|durability| durability.because).unwrap_or_default(),
        evidence,
        elapsed: Duration::ZERO,
        left_behind: made.get().filter(|folder| folder.exists()).cloned(),
    }
}

/// The highest class that the counters leave to some of `trials`, with their evidence: the class that was `claimed`, unless each
/// of them left out what it needs.
fn borne_out<'a>(
    mut claimed: Claim,
    trials: &'a [Trial],
    environment: &Environment,
) -> (Claim, Evidence, Vec<&'a Trial>) {
    let mut missing = None;
    for class in Durability::ALL.into_iter().rev().filter(|class| *class <= claimed.class) {
        let (mut honest, mut evidence) = (Vec::new(), None);
        for trial in trials {
            match judge(trial, environment, class) {
                Ok(found) => {
                    honest.push(trial);
                    evidence = evidence.or(Some(found));
                }
                Err(what) => missing = missing.or(Some(what)),
            }
        }
        if honest.is_empty() && !trials.is_empty() {
            continue;
        }
        if class < claimed.class {
            claimed.because.splice(0..0, missing);
        }
        return (Claim { class, ..claimed }, evidence.unwrap_or_else(none_made), honest);
    }
    (claimed, none_made(), Vec::new())
}

/// What the counters say where no commit could be made, as on a full disk.
fn none_made() -> Evidence {
    Evidence::NotConfirmed("no commit was made".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(p50_ms: u64, max_ms: u64) -> Tried {
        let ms = Duration::from_millis;
        Tried { method: "dsync", calls: "", commits: 10, p50: ms(p50_ms), max: ms(max_ms) }
    }

    #[test]
    fn a_verdict_says_no_more_than_few_commits_can_show() {
        let demand = Duration::from_millis(10);
        assert_eq!(tried(1, 9).against(demand), ProbeOutcome::NothingAgainst);
        assert_eq!(tried(1, 10).against(demand), ProbeOutcome::Doubtful);
        assert_eq!(tried(10, 10).against(demand), ProbeOutcome::TooSlow);
    }

    #[test]
    fn a_trial_that_did_not_come_to_a_commit_is_no_figure() {
        let method = &seawall_sys::methods::here()[0];
        let trial = |times: &[u64]| Trial { method, times_ns: times.to_vec(), watched: None };
        assert!(Tried::of(&trial(&[])).is_none());
        let three = Tried::of(&trial(&[1, 2, 9])).expect("figures");
        assert_eq!((three.commits, three.p50.as_nanos(), three.max.as_nanos()), (3, 2, 9));
        assert!(trial::fastest(&[trial(&[])]).is_none());
        let near = [trial(&[100]), trial(&[95])];
        assert_eq!(
            trial::fastest(&near).map(|best| best.times_ns[0]),
            Some(100),
            "within a tenth the earlier"
        );
    }
}
