//! Defines the row of a result, [`Row`]: one method, design or load with its figures, block by block.
//!
//! Invariants: ids stay the same from run to run, so that runs can be compared by them; figures are unrounded; a row
//! that did not run states the reason; what is unknown is `None`, never zero.

use crate::latency::Latency;
use seawall_host::thread::Times;
use seawall_sys::OpenError;
use seawall_sys::counters::{Counts, Watched};
use seawall_sys::durability::{Claim, Durability};
use seawall_sys::method::Method;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// A row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Stable name, unique in the study.
    pub id: String,
    /// Its heading in the table, at most 24 characters.
    pub label: String,
    /// What it does, in a sentence.
    #[serde(default)]
    pub what: String,
    /// Rows of the same group belong together, such as one curve of a picture; empty: all are one group.
    #[serde(default)]
    pub group: String,
    /// Where the row stands on its group's axis (writers, cached bytes), if there is one.
    #[serde(default)]
    pub x: Option<f64>,
    /// Index into [`Study::places`](crate::study::Study::places).
    #[serde(default)]
    pub place: Option<usize>,
    /// The method by which it commits, if it is one of the method table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<MethodName>,
    /// How many writers commit at once, if not as many as the plan says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writers: Option<u32>,
    /// Its figures, or why there are none.
    pub outcome: Outcome,
}

/// A row of the method table, as the program that measured knew it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodName {
    /// Its id.
    pub id: String,
    /// Its calls in words.
    pub calls: String,
}

impl From<&Method> for MethodName {
    fn from(method: &Method) -> Self {
        Self { id: method.id.to_owned(), calls: method.calls.to_owned() }
    }
}

/// In a word: a row ran into an error.
pub const FAILED: &str = "failed";

/// The outcome of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It ran.
    Measured(Box<Measured>),
    /// The system, file system or device lacks it.
    NotAvailable {
        /// Why.
        reason: String,
    },
    /// It ran into an error and was stopped at once.
    Failed {
        /// The call, the file and the system's words.
        error: String,
        /// Whether it is by the device, such as `EIO`; in results of earlier programs `false`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        of_device: bool,
    },
}

impl Outcome {
    /// Why there are no figures: `n/a` or [`FAILED`], and the reason; `None` if there are.
    pub fn missing(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Measured(_) => None,
            Self::NotAvailable { reason } => Some(("n/a", reason)),
            Self::Failed { error, .. } => Some((FAILED, error)),
        }
    }
}

/// A row's figures, summed over its blocks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// What an acknowledged operation outlives here, where that is a question. In a file its class is that after the evidence.
    #[serde(default)]
    pub durability: Option<Claim>,
    /// In a file, the class that the calls promise, where the evidence takes it back; judging begins with it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<Durability>,
    /// How deep the calls of the row's method reach: K, O, B or D.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub letter: Option<char>,
    /// Commits acknowledged; 0 where the row makes none.
    #[serde(default)]
    pub commits: u64,
    /// Bytes committed.
    #[serde(default)]
    pub bytes: u64,
    /// Time spent in blocks, nanoseconds.
    pub elapsed_ns: u64,
    /// Distributions by name; the first is the row's main one.
    #[serde(default)]
    pub latencies: Vec<NamedLatency>,
    /// Figures by name.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Call by call, as `truss -c` prints it; empty where the scenario does not count calls.
    #[serde(default)]
    pub calls: Vec<CallTally>,
    /// Figures over time, for pictures.
    #[serde(default)]
    pub series: Vec<Series>,
    /// Block by block; percentiles are those of the main latency.
    #[serde(default)]
    pub rounds: Vec<Round>,
    /// What the devices counted during the blocks; `None` without counters.
    #[serde(default)]
    pub counts: Option<Counts>,
    /// What each level of the stack counted during single commits by the row's method before the blocks; `None` where nothing
    /// counts, or the row has no method of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<Watched>,
    /// The measuring threads' accounts.
    #[serde(default)]
    pub cpu: Times,
    /// What slow operations waited for.
    #[serde(default)]
    pub tail: Tail,
    /// Block by block in figures, where the scenario keeps more than `rounds` has (`path`: an iteration each).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iterations: Vec<Iteration>,
    /// What else is to be known of this row: one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One block's distribution in figures, nanoseconds; a percentile that its samples do not carry is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    /// The mean.
    pub mean_ns: f64,
    /// The smallest sample.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: Option<u64>,
    /// The 90th percentile.
    pub p90_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The 99.9th percentile.
    pub p999_ns: Option<u64>,
    /// The 99.99th percentile.
    pub p9999_ns: Option<u64>,
    /// The largest sample.
    pub max_ns: u64,
    /// How many samples.
    pub count: u64,
}

impl Iteration {
    /// The figures of `latency`.
    pub fn of(latency: &Latency) -> Self {
        let at = |percent| latency.percentile(percent).ns();
        Self {
            mean_ns: latency.mean_ns(),
            min_ns: latency.min_ns(),
            p50_ns: at(50.0),
            p90_ns: at(90.0),
            p99_ns: at(99.0),
            p999_ns: at(99.9),
            p9999_ns: at(99.99),
            max_ns: latency.max_ns(),
            count: latency.count(),
        }
    }

    /// `mean,min,50,90,99,99.9,99.99,max,count`, nanoseconds, as the published test printed them; `-` for a percentile
    /// that the samples do not carry.
    pub fn line(&self) -> String {
        let at = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| ns.to_string());
        let percentiles = [self.p50_ns, self.p90_ns, self.p99_ns, self.p999_ns, self.p9999_ns].map(at);
        let [mean, min] = [format!("{:.0}", self.mean_ns), self.min_ns.to_string()];
        format!("{mean},{min},{},{},{}", percentiles.join(","), self.max_ns, self.count)
    }
}

/// A distribution with its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedLatency {
    /// Stable name.
    pub name: String,
    /// What was timed, for people.
    pub title: String,
    /// The samples.
    pub latency: Latency,
}

/// A figure with its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Stable name.
    pub name: String,
    /// Its value, unrounded, in the unit of the column that shows it.
    pub value: f64,
}

/// One kind of call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallTally {
    /// Its name, as the manual page has it.
    pub call: String,
    /// How often it was made.
    pub calls: u64,
    /// How often it failed.
    pub errors: u64,
    /// Time in it by the clock, nanoseconds.
    pub wall_ns: u64,
    /// CPU time in it, user and kernel, nanoseconds; `None` where the system does not report it.
    pub cpu_ns: Option<u64>,
}

/// A figure over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Stable name.
    pub name: String,
    /// What it shows, for people; its values are nanoseconds.
    pub title: String,
    /// The points, in order of time.
    pub points: Vec<SeriesPoint>,
}

/// A point of a series: the largest value in a short span, and how many there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// The start of the span, nanoseconds since the run began.
    pub at_ns: u64,
    /// The largest value in it, nanoseconds.
    pub max_ns: u64,
    /// Commits that ended in it; 0 where they were not counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub commits: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "it is what serde calls")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Operations slower than the row's own p99, and how much of that was waiting for a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tail {
    /// How many.
    pub commits: u64,
    /// Their latencies, summed, nanoseconds.
    pub latency_ns: u64,
    /// Of that, waiting on a run queue, nanoseconds.
    pub wait_ns: u64,
}

impl Tail {
    /// Share of slow commits' time that was waiting for a CPU, 0 to 1; `None` without slow commits.
    pub(crate) fn wait_share(&self) -> Option<f64> {
        (self.latency_ns > 0).then(|| self.wait_ns as f64 / self.latency_ns as f64)
    }

    /// Both together.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            commits: self.commits + other.commits,
            latency_ns: self.latency_ns + other.latency_ns,
            wait_ns: self.wait_ns + other.wait_ns,
        }
    }
}

/// One block: a row's share of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Round {
    /// The round, from 0.
    pub round: u32,
    /// When the block began, nanoseconds since the run did.
    pub start_ns: u64,
    /// How long it took, nanoseconds.
    pub elapsed_ns: u64,
    /// Commits in it.
    pub commits: u64,
    /// Their median latency, nanoseconds.
    pub p50_ns: u64,
    /// Their 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// Their maximum, nanoseconds.
    pub max_ns: u64,
    /// What the devices counted.
    pub counts: Option<Counts>,
}

impl Row {
    /// A row that has not run yet.
    pub fn waiting(id: impl Into<String>, label: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            label: label.into(),
            what: String::new(),
            group: String::new(),
            x: None,
            place: None,
            method: None,
            writers: None,
            outcome: Outcome::Measured(Box::default()),
        }
    }

    /// The row's figures, if it ran, to be added to.
    pub fn measured_mut(&mut self) -> Option<&mut Measured> {
        match &mut self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::NotAvailable { .. } | Outcome::Failed { .. } => None,
        }
    }

    /// The row's figures, if it ran.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::NotAvailable { .. } | Outcome::Failed { .. } => None,
        }
    }
}

impl From<OpenError> for Outcome {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Unavailable(reason) => Self::NotAvailable { reason: reason.to_string() },
            OpenError::Failed(error) => {
                Self::Failed { of_device: error.is_of_device(), error: error.to_string() }
            }
        }
    }
}

impl Measured {
    /// The distribution of that name.
    pub fn latency(&self, name: &str) -> Option<&Latency> {
        self.latencies.iter().find(|one| one.name == name).map(|one| &one.latency)
    }

    /// What an acknowledged operation outlives here, where that is a question.
    pub fn class(&self) -> Option<Durability> {
        self.durability.as_ref().map(|durability| durability.class)
    }

    /// The row's main distribution, the first; empty if there is none.
    pub fn main(&self) -> &Latency {
        static EMPTY: LazyLock<Latency> = LazyLock::new(Latency::new);
        self.latencies.first().map_or(&EMPTY, |first| &first.latency)
    }

    /// The figure of that name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|one| one.name == name).map(|one| one.value)
    }

    /// Sets a figure, in place of an earlier value.
    pub fn set(&mut self, name: &str, value: f64) {
        match self.figures.iter_mut().find(|one| one.name == name) {
            Some(figure) => figure.value = value,
            None => self.figures.push(Figure { name: name.to_owned(), value }),
        }
    }

    /// Adds what another block of the same row measured: distributions, sums and accounts.
    pub(crate) fn absorb(&mut self, block: Self) {
        let first = self.rounds.is_empty() && self.elapsed_ns == 0;
        self.counts = if first {
            block.counts
        } else {
            // A sum with a gap would be too small: rather none.
            self.counts.zip(block.counts).map(|(sum, counts)| sum.plus(&counts))
        };
        if first && block.durability.is_some() {
            self.durability = block.durability;
        }
        self.letter = self.letter.or(block.letter);
        self.commits += block.commits;
        self.bytes += block.bytes;
        self.cpu = if first { block.cpu } else { self.cpu.plus(&block.cpu) };
        self.tail = self.tail.plus(&block.tail);
        self.elapsed_ns += block.elapsed_ns;
        for one in block.latencies {
            match self.latencies.iter_mut().find(|known| known.name == one.name) {
                Some(known) => known.latency.add(&one.latency),
                None => self.latencies.push(one),
            }
        }
        for one in block.figures {
            let sum = self.figure(&one.name).unwrap_or(0.0) + one.value;
            self.set(&one.name, sum);
        }
        for one in block.calls {
            match self.calls.iter_mut().find(|known| known.call == one.call) {
                Some(known) => known.add(&one),
                None => self.calls.push(one),
            }
        }
        for one in block.series {
            match self.series.iter_mut().find(|known| known.name == one.name) {
                Some(known) => known.points.extend(one.points),
                None => self.series.push(one),
            }
        }
        self.rounds.extend(block.rounds);
        self.iterations.extend(block.iterations);
        for note in block.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

impl Measured {
    /// For a file: the evidence does not bear the class out, so that a crash of the system is all that may be counted on.
    pub(crate) fn take_back(&mut self) {
        if let Some(durability) = &mut self.durability {
            self.claims = Some(durability.class);
            durability.class = durability.class.min(Durability::SystemCrash);
        }
    }

    /// The class that the calls promise, after reading a file.
    pub(crate) fn claim_again(&mut self) {
        if let (Some(claims), Some(durability)) = (self.claims.take(), &mut self.durability) {
            durability.class = claims;
        }
    }

    /// Commits per second of time spent committing.
    pub fn commits_per_s(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.commits as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    pub(crate) fn bytes_per_s(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.bytes as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Share of the writers' time spent waiting for a CPU, 0 to 1; `None` where the system does not count it.
    pub(crate) fn wait_share(&self) -> Option<f64> {
        let wait_ns = self.cpu.wait_ns?;
        (self.main().count() > 0)
            .then(|| wait_ns as f64 / (self.main().mean_ns() * self.main().count() as f64))
            .filter(|share| share.is_finite())
    }
}

/// Slow commits that a share of their time is worth telling of.
const SLOW_COMMITS_MIN: u64 = 3;

impl Measured {
    /// Share of slow commits' time that was waiting for a CPU, 0 to 1; of all commits' time where too few were slow, as in
    /// short runs. `None` where the system does not count it.
    pub(crate) fn slow_wait_share(&self) -> Option<f64> {
        let slow = self.tail.wait_share().filter(|_| self.tail.commits >= SLOW_COMMITS_MIN);
        slow.or_else(|| self.wait_share()).map(|share| share.min(1.0))
    }

    /// The larger of what slow commits and what all commits waited: above a fifth, the disk is not to blame.
    pub(crate) fn blamed_wait_share(&self) -> Option<f64> {
        let (slow, all) = (self.slow_wait_share(), self.wait_share().map(|share| share.min(1.0)));
        slow.zip(all).map(|(slow, all)| slow.max(all)).or(slow)
    }
}

impl CallTally {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.wall_ns += other.wall_ns;
        self.cpu_ns = self.cpu_ns.zip(other.cpu_ns).map(|(sum, ns)| sum + ns);
    }
}

impl NamedLatency {
    /// A distribution with its name.
    pub fn new(name: &str, title: &str, latency: Latency) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), latency }
    }
}
