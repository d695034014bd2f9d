//! Selects the commit method and the engine of a log by a short trial, and remembers the result.
//!
//! The rows of the method table that reach the requested durability class in this directory are tried with a few
//! hundred small writes each on a scratch file; the fastest wins. The rounds are interleaved, so that a busy moment
//! does not pick the winner; the earlier row of the preference list wins unless a later one is better by a tenth more than
//! chance explains.
//!
//! A row of `io_uring` must earn its place: asynchronous durable writes go through the kernel's own workers and may have
//! tails of many milliseconds where processors are busy, so it has to beat the best portable row by a tenth in the
//! median and in the mean, which is where tails show.
//!
//! The file `METHOD` keeps the result: one id a line, the fastest first, then the fastest of each other engine that
//! was tried. The first one that may run decides, so that the portable row takes over where `io_uring` is refused,
//! and gives way again where it is permitted; so it stays from one opening to the next. A probe that is requested again
//! replaces it only by a row that is clearly better, in the same sense. `only ID` is the result of a trial for which an engine was requested by
//! name. A line `evidence …` keeps what the devices counted ([`super::evidence`]).

use std::io::{self, Read as _};
use std::path::Path;

use seawall_sys::directory::Directory;
use seawall_sys::durability::{Durability, FileState, classify};
use seawall_sys::engine::{Engine, EngineContext};
use seawall_sys::inspect::Environment;
use seawall_sys::method::Method;
use seawall_sys::{OpenError, methods};

use crate::error::{Error, Result, from_open, from_system};
use crate::format::buffer::AlignedBuf;
use crate::format::free_buffers::FreeBuffers;
use crate::method::eligible::{drivable, reaching};
use crate::method::evidence::{self, Evidence, KeptEvidence};
use crate::method::relaxed::Rows;
use crate::method::shared;
use crate::method::trial::{self, Bounds, Trial, clearly_less};
use crate::options::{EngineChoice, MethodChoice, Options};

/// The file that keeps the selected methods.
pub(crate) const METHOD_FILE: &str = "METHOD";
/// The same while it is being written, by the writer of the log.
pub(crate) const METHOD_STAGING: &str = "METHOD.new";
/// The most that is read of it, bytes.
const METHOD_BYTES_MAX: u64 = 4096;
/// The scratch file of the trial.
pub(crate) const SCRATCH_FILE: &str = "PROBE";
/// A few hundred writes; after two rounds only rows near the best are tried further.
const PROBE: Bounds = Bounds {
    rounds: 8,
    writes_per_round: 8,
    scratch_bytes: 1 << 20,
    screened: Some(2),
    until_ns: None,
    kept: None,
};

/// Where the commit method of an open log comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodOrigin {
    /// It was named in the options.
    Named,
    /// The directory remembers it from an earlier opening.
    Remembered,
    /// Another log of this process has found it on the same disk.
    Shared,
    /// It was found by a probe just now, a few hundred writes.
    Probed,
}

/// The selected method, ready to work.
pub(crate) struct Selected {
    pub(crate) engine: EngineContext,
    pub(crate) origin: MethodOrigin,
    /// The method, and the rows of relaxed commits.
    pub(crate) rows: Rows,
    /// Why another engine was refused and this one took over, if so.
    pub(crate) refused: Option<String>,
    /// What the devices counted.
    pub(crate) evidence: Evidence,
}

/// The rows that reach `class` in `dir`, the most promising first.
fn candidates(dir: &Path, environment: &Environment, class: Durability) -> Result<Vec<&'static Method>> {
    let around = environment.surroundings(FileState::ZeroFilled);
    let rows = reaching(environment, class);
    if rows.is_empty() {
        let drivable = methods::here().iter().filter(|method| drivable(method));
        let best = drivable.map(|method| classify(method, &around)).max_by_key(|found| found.class);
        let because = best.map_or_else(String::new, |best| best.because.join("; "));
        let reason = format!("no commit method outlives {} at {}: {because}", class.name(), dir.display());
        return Err(Error::InvalidOption { option: "durability", reason });
    }
    Ok(rows)
}

fn refused(option: &'static str, reason: String) -> Error {
    Error::InvalidOption { option, reason }
}

/// The rows that a log may use, found before anything of it is made.
pub(crate) struct Permitted {
    environment: Environment,
    /// The one that was named, or all that may be probed.
    rows: Vec<&'static Method>,
    named: bool,
    /// Why another engine is refused.
    refused: Option<String>,
}

/// The rows that the log in `dir` may use.
pub(crate) fn permit(dir: &Path, options: &Options) -> Result<Permitted> {
    let environment = seawall_sys::inspect::tried_environment(dir).map_err(|error| from_system(&error))?;
    let mut rows = candidates(dir, &environment, options.durability)?;
    let mut reason = None;
    if let MethodChoice::Named(id) = &options.method {
        let rows = vec![named(dir, id, options, &rows)?];
        return Ok(Permitted { environment, rows, named: true, refused: None });
    }
    match options.engine {
        EngineChoice::Only(engine) => {
            let remedy =
                "or choose the engine `automatic` (--engine automatic), which falls back on the portable one";
            engine.probe().map_err(|reason| {
                refused("engine", format!("{} is refused here: {reason}; do so, {remedy}", engine.name()))
            })?;
            rows.retain(|row| row.engine() == engine);
        }
        EngineChoice::Automatic if Engine::IoUring.is_known_here() => {
            reason = Engine::IoUring.probe().err().map(|reason| reason.to_string());
            rows.retain(|row| reason.is_none() || row.engine() != Engine::IoUring);
        }
        EngineChoice::Automatic => {}
    }
    Ok(Permitted { environment, rows, named: false, refused: reason })
}

impl Permitted {
    /// The method for the log in `dir`, on its engine, which may register `buffers`, the warm ones at once.
    pub(crate) fn select(
        self,
        dir: &Directory,
        options: &Options,
        block: u16,
        buffers: &FreeBuffers,
    ) -> Result<Selected> {
        let Self { environment, rows: mut allowed, named, refused: mut reason } = self;
        let mut again = options.method == MethodChoice::ProbeAgain;
        let warm: Vec<_> = buffers.warm().iter().filter_map(AlignedBuf::registrable).collect();
        loop {
            let (method, origin, found) = match allowed.as_slice() {
                [method] if named => (*method, MethodOrigin::Named, None),
                rows => fastest(dir, (&environment, rows), options, again, block)?,
            };
            let evidence = evidence_of(dir, &environment, (method, options), found)?;
            match EngineContext::start(method, options.in_flight_max, buffers.len(), &warm) {
                Ok(engine) => {
                    if let Some(reason) = &reason {
                        tracing::info!(dir = %dir.path().display(), %reason, "io_uring is refused: using the portable engine");
                    }
                    let around = environment.surroundings(FileState::ZeroFilled);
                    let rows = Rows::select(method, options.durability, &around, methods::here());
                    return Ok(Selected { engine, origin, rows, refused: reason, evidence });
                }
                // Allowed in general, but not for this log: too little memory may be locked.
                Err(OpenError::Unavailable(why))
                    if options.engine == EngineChoice::Automatic
                        && !named
                        && method.engine() != Engine::Portable =>
                {
                    reason = Some(why.to_string());
                    allowed.retain(|row| row.engine() == Engine::Portable);
                    again = false;
                }
                Err(error) => return Err(from_open(error, method, dir.path())),
            }
        }
    }
}

/// What the devices counted of `method`: as the probe that chose it `found`, as the directory keeps it, or as a few commits show.
fn evidence_of(
    dir: &Directory,
    environment: &Environment,
    (method, options): (&'static Method, &Options),
    found: Option<Evidence>,
) -> Result<Evidence> {
    let of = (method, options.durability);
    let mut known = Known::read(dir)?;
    let kept = known.evidence.as_ref().and_then(|kept| kept.of(dir.path(), environment, of));
    if let Some(kept) = kept.filter(|_| found.is_none()) {
        return Ok(kept);
    }
    let evidence = match found {
        Some(found) => found,
        None => evidence::watch(dir, environment, method, options.durability)?,
    };
    let keep = KeptEvidence::new(dir.path(), environment, of, &evidence);
    if keep.is_some() && known.evidence != keep {
        known.evidence = keep;
        // On a full disk the next opening looks again.
        let _ = remember(dir, &known, options);
    }
    Ok(evidence)
}

/// The row called `id`, if the log may use it.
fn named(dir: &Path, id: &str, options: &Options, rows: &[&'static Method]) -> Result<&'static Method> {
    let known = methods::find(id).filter(|method| drivable(method));
    let method = known
        .ok_or_else(|| refused("method", format!("{id} is no method that a log can use on this system")))?;
    let engine = method.engine();
    if let EngineChoice::Only(only) = options.engine
        && only != engine
    {
        let reason = format!("{id} runs on {} and not on {}", engine.name(), only.name());
        return Err(refused("engine", reason));
    }
    if !rows.iter().any(|row| row.id == method.id) {
        let class = options.durability.name();
        return Err(refused("method", format!("{id} does not outlive {class} at {}", dir.display())));
    }
    engine.probe().map_err(|reason| {
        refused("method", format!("{id} is not available: {reason}; or choose a method of another engine"))
    })?;
    Ok(method)
}

/// The fastest of `rows`: as remembered, or as a probe finds it.
fn fastest(
    dir: &Directory,
    (environment, rows): (&Environment, &[&'static Method]),
    options: &Options,
    again: bool,
    block: u16,
) -> Result<(&'static Method, MethodOrigin, Option<Evidence>)> {
    let only = options.engine != EngineChoice::Automatic;
    let known = Known::read(dir)?;
    let mut usable = known.ranked.iter().chain(known.alone.iter().filter(|_| only));
    let kept = usable.find(|known| rows.iter().any(|row| row.id == known.id)).copied();
    if let Some(method) = kept.filter(|_| !again) {
        return Ok((method, MethodOrigin::Remembered, None));
    }
    let bytes = usize::from(block).max(4096);
    let class = options.durability;
    let probe = || {
        let trials = trial::run((dir, SCRATCH_FILE), environment, rows, bytes, &Bounds { kept, ..PROBE })?;
        borne_out(trials, environment, kept, class)
            .map_err(|what| evidence::refusal(dir.path(), class, &what))
    };
    let place = shared::Place { dir: dir.path(), environment, rows, bytes, class };
    let (found, probed) = shared::found(&place, again, probe)?;
    let first = found.first().cloned();
    let (first, evidence) = first.ok_or_else(|| {
        refused(
            "method",
            format!("no commit method of the requested class works at {}", dir.path().display()),
        )
    })?;
    let found: Vec<&'static Method> = found.into_iter().map(|(method, _)| method).collect();
    let mut known = known.with(&found, only);
    known.evidence = KeptEvidence::new(dir.path(), environment, (first, class), &evidence);
    remember(dir, &known, options)?;
    Ok((first, if probed { MethodOrigin::Probed } else { MethodOrigin::Shared }, Some(evidence)))
}

/// The rows as [`judge`] orders them, without those that the devices' counters contradict; as an error what is missing if that is
/// all of them.
fn borne_out(
    trials: Vec<Trial>,
    environment: &Environment,
    kept: Option<&'static Method>,
    class: Durability,
) -> std::result::Result<shared::Ranked, String> {
    let (mut honest, mut evidence, mut missing) = (Vec::new(), Vec::new(), None);
    for trial in trials {
        match evidence::judge(&trial, environment, class) {
            Ok(found) => {
                evidence.push((trial.method, found));
                honest.push(trial);
            }
            Err(what) => missing = missing.or(Some(what)),
        }
    }
    if let (true, Some(missing)) = (honest.is_empty(), missing) {
        return Err(missing);
    }
    let of = |row: &'static Method| evidence.iter().find(|(method, _)| method.id == row.id).cloned();
    Ok(judge(&honest, kept).into_iter().filter_map(of).collect())
}

/// What the log in a directory remembers of its probes. Lines that this system does not know are left out.
#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    /// The fastest row of each engine that was tried, the one to use first.
    ranked: Vec<&'static Method>,
    /// Rows of engines that were requested by name and not compared with others: they count only when requested again.
    alone: Vec<&'static Method>,
    /// What the devices counted of the method that was used last.
    evidence: Option<KeptEvidence>,
}

const ALONE: &str = "only ";

fn remember(dir: &Directory, known: &Known, options: &Options) -> Result<()> {
    dir.replace_content((METHOD_FILE, METHOD_STAGING), options.permissions, known.text().as_bytes())
        .map_err(|source| Error::io("write", dir.path().join(METHOD_FILE), source))
}

/// The text of `METHOD`; empty if there is none.
pub(crate) fn read_text(dir: &Directory) -> io::Result<String> {
    let mut file = match dir.open_file(METHOD_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        opened => opened?,
    };
    let mut text = Vec::new();
    file.by_ref().take(METHOD_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > METHOD_BYTES_MAX {
        let reason = format!(
            "it is longer than {METHOD_BYTES_MAX} bytes: remove it, and the next opening probes again"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

impl Known {
    fn read(dir: &Directory) -> Result<Self> {
        let text = read_text(dir);
        let text = text.map_err(|source| Error::io("read", dir.path().join(METHOD_FILE), source))?;
        let (alone, ranked): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with(ALONE));
        let find = |line: &str| methods::find(line.trim_start_matches(ALONE).trim());
        Ok(Self {
            ranked: ranked.into_iter().filter_map(find).collect(),
            alone: alone.into_iter().filter_map(find).collect(),
            evidence: text.lines().find_map(KeptEvidence::parse),
        })
    }

    /// The same after a probe. What is known of engines that were not tried stays known, after what was found.
    fn with(mut self, found: &[&'static Method], only: bool) -> Self {
        let tried = |row: &&'static Method| found.iter().any(|tried| tried.engine() == row.engine());
        self.ranked.retain(|row| !tried(row));
        self.alone.retain(|row| !tried(row));
        let place = if only { &mut self.alone } else { &mut self.ranked };
        place.splice(0..0, found.iter().copied());
        self
    }

    fn text(&self) -> String {
        let ranked = self.ranked.iter().map(|row| ["", row.id, "\n"].concat());
        let alone = self.alone.iter().map(|row| [ALONE, row.id, "\n"].concat());
        ranked.chain(alone).chain(self.evidence.iter().map(KeptEvidence::line)).collect()
    }
}

/// The method that the log in `dir` remembers as the one to use, if it was probed.
pub(crate) fn remembered(dir: &Directory) -> Result<Option<&'static Method>> {
    let known = Known::read(dir)?;
    Ok(known.ranked.first().or(known.alone.first()).copied())
}

/// What the log in `dir` remembers of what the devices counted; `None` if that was of another mount, or nothing is known.
pub(crate) fn remembered_evidence(dir: &Directory, class: Durability) -> Result<Option<Evidence>> {
    let Some(kept) = Known::read(dir)?.evidence else { return Ok(None) };
    let Some(method) = methods::find(kept.method()) else { return Ok(None) };
    let environment = seawall_sys::inspect::environment(dir.path()).map_err(|error| from_system(&error))?;
    Ok(kept.of(dir.path(), &environment, (method, class)))
}

/// The fastest trial of each engine, the one to use first. The trials come in the order of preference; `kept` goes before
/// all others, and its engine before the other ones, as long as nothing is clearly better.
fn judge(trials: &[Trial], kept: Option<&'static Method>) -> Vec<&'static Method> {
    let is_kept = |trial: &&Trial| kept.is_some_and(|kept| kept.id == trial.method.id);
    let in_order = || trials.iter().filter(is_kept).chain(trials.iter().filter(|trial| !is_kept(trial)));
    let best_of = |engine: Engine| trial::fastest(in_order().filter(|trial| trial.method.engine() == engine));
    let mut best: Vec<&Trial> = Vec::new();
    for trial in Engine::ALL.into_iter().filter_map(best_of) {
        let holds = kept.is_some_and(|kept| kept.engine() == trial.method.engine());
        let earned = best.first().is_none_or(|first| {
            let better = |one: &Trial, other: &Trial| {
                [clearly_less(one.median(), other.median()), clearly_less(one.mean(), other.mean())]
            };
            if holds { better(first, trial) == [false; 2] } else { better(trial, first) == [true; 2] }
        });
        best.insert(if earned { 0 } else { best.len() }, trial);
    }
    best.into_iter().map(|trial| trial.method).collect()
}

#[cfg(test)]
mod tests {
    use super::{Known, METHOD_FILE, METHOD_STAGING, Trial, judge, remember, remembered};
    use crate::method::eligible::drivable;
    use crate::options::Options;
    use seawall_sys::method::{Depth, Method};
    use seawall_sys::{Engine, methods};

    fn row(engine: Engine) -> Option<&'static Method> {
        methods::here()
            .iter()
            .find(|row| row.engine() == engine && drivable(row) && row.reach().data == Depth::Stable)
    }

    fn trial(method: &'static Method, times: [u64; 5]) -> Trial {
        Trial { method, times_ns: times.to_vec(), watched: None }
    }

    #[test]
    fn every_engine_of_this_system_has_a_durable_row_that_a_log_can_drive() {
        for engine in Engine::ALL {
            assert_eq!(row(engine).is_some(), engine.is_known_here(), "{}", engine.name());
        }
    }

    #[test]
    fn within_a_tenth_the_preferred_row_wins() {
        let rows: Vec<_> = methods::here().iter().filter(|row| row.engine() == Engine::Portable).collect();
        let (first, second) = (rows[0], rows[1]);
        let close = [trial(first, [100; 5]), trial(second, [95; 5])];
        assert_eq!(judge(&close, None), [first]);
        let clear = [trial(first, [100; 5]), trial(second, [80; 5])];
        assert_eq!(judge(&clear, None), [second]);
        assert!(judge(&[], None).is_empty());
    }

    #[test]
    fn a_ring_must_earn_its_place_in_the_median_and_in_the_tail() {
        let (Some(calls), Some(ring)) = (row(Engine::Portable), row(Engine::IoUring)) else { return };
        for (times, first) in [
            ([50, 50, 50, 50, 50], ring),
            ([95, 95, 95, 95, 95], calls),
            // Twice as fast, but for one write that met a busy kernel worker.
            ([50, 50, 50, 50, 8000], calls),
        ] {
            let found = judge(&[trial(calls, [100; 5]), trial(ring, times)], None);
            assert_eq!((found[0], found.len()), (first, 2), "{times:?}: the other one is remembered too");
        }
        assert_eq!(judge(&[trial(ring, [100; 5])], None), [ring], "where it is alone");
    }

    /// What chance adds to a commit that takes `ns`: two fifths at most, and now and then much more.
    fn noisy(method: &'static Method, ns: u64, seed: u64) -> Trial {
        let mut chance = seawall_sys::chance::SplitMix64::new(seed);
        let mut times_ns: Vec<u64> = (0..64)
            .map(|_| {
                let word = chance.next_u64();
                ns + ns * (word % 40) / 100 + if word.is_multiple_of(97) { 3 * ns } else { 0 }
            })
            .collect();
        times_ns.sort_unstable();
        Trial { method, times_ns, watched: None }
    }

    #[test]
    fn what_lies_within_noise_is_kept_and_what_is_clearly_better_replaces_it() {
        let calls: Vec<_> =
            methods::here().iter().filter(|row| row.engine() == Engine::Portable && drivable(row)).collect();
        let (a, b) = (calls[0], calls[1]);
        let rows = [Some(a), Some(b), row(Engine::IoUring)];
        let pairs =
            [(a, b), (b, a)].into_iter().chain(rows[2].into_iter().flat_map(|ring| [(a, ring), (ring, a)]));
        for (kept, other) in pairs {
            for seed in 0..200 {
                let judged = |kept_ns, other_ns| {
                    let mut trials = vec![noisy(kept, kept_ns, seed), noisy(other, other_ns, seed + 1000)];
                    // In the order of preference, whichever of the two is kept.
                    trials.sort_by_key(|trial| rows.iter().position(|row| *row == Some(trial.method)));
                    judge(&trials, Some(kept))[0]
                };
                let what = format!("{} and {}, seed {seed}", kept.id, other.id);
                assert_eq!(judged(100_000, 100_000), kept, "{what}: the same");
                assert_eq!(judged(100_000, 95_000), kept, "{what}: within a tenth");
                assert_eq!(judged(100_000, 40_000), other, "{what}: less than half");
                assert_eq!(judged(40_000, 100_000), kept, "{what}: the kept one is better");
            }
        }
    }

    #[test]
    fn a_wide_spread_explains_more_than_a_tenth() {
        let calls: Vec<_> = methods::here().iter().filter(|row| row.engine() == Engine::Portable).collect();
        let (first, second) = (calls[0], calls[1]);
        // Medians of 100 and 80, which five values that lie so far apart do not show.
        let wide = [trial(first, [20, 50, 100, 150, 180]), trial(second, [10, 40, 80, 140, 170])];
        assert_eq!(judge(&wide, None), [first]);
        assert_eq!(judge(&wide, Some(second)), [second], "nor the other way round");
        let narrow = [trial(first, [98, 99, 100, 101, 102]), trial(second, [78, 79, 80, 81, 82])];
        assert_eq!(judge(&narrow, None), [second]);
        assert_eq!(judge(&narrow, Some(first)), [second]);
    }

    #[test]
    fn what_a_probe_of_one_engine_found_decides_only_when_that_engine_is_requested() {
        let dir = tempfile::tempdir().expect("a directory");
        let rows: Vec<_> = methods::here().iter().filter(|row| drivable(row)).collect();
        let (a, b) = (rows[0], rows[rows.len() - 1]);
        let known = Known::default().with(&[b], true);
        assert_eq!((known.ranked.len(), known.alone.as_slice()), (0, &[b][..]));
        let known = Known { ranked: vec![a], ..Known::default() }.with(&[a], true);
        assert_eq!(known.text(), format!("only {}\n", a.id));
        let known = Known { ranked: vec![a], ..Known::default() };
        std::fs::write(dir.path().join(METHOD_FILE), format!("no-such-row\n{}", known.text()))
            .expect("writes");
        let held = seawall_sys::Directory::open(dir.path()).expect("opens");
        assert_eq!(Known::read(&held).expect("reads"), known);
        assert_eq!(remembered(&held).expect("reads"), Some(a));
        // Written again it is the same, and no staging file is left, nor one of a crash.
        std::fs::write(dir.path().join(METHOD_STAGING), "half").expect("writes");
        remember(&held, &known, &Options::default()).expect("writes");
        assert_eq!(Known::read(&held).expect("reads"), known);
        assert_eq!(held.list().expect("lists").len(), 1);
        std::fs::write(dir.path().join(METHOD_FILE), [b'x'; 4097]).expect("writes");
        let refused = remembered(&held).expect_err("is too long").to_string();
        assert!(refused.contains("METHOD") && refused.contains("remove it"), "{refused}");
    }
}
