//! Runs the parts of a crash test, from recording to report.
//!
//! Each part of a run is one function that adds to the [`Report`]. The amount of work is fixed by the plan, not by a
//! clock; the clock only ends a run that takes far too long, and then the run has failed.
//!
//! Invariant: a finding is saved as a recording in a file before anything else happens.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

use seawall_sys::clock::monotonic_ns;

use crate::blocks::campaign::{self, Broken, Counts, DiskPool};
use crate::blocks::volume::FileSystem;
use crate::blocks::window::Recording;
use crate::codec::{Kept, Tape};
use crate::faults::{self, FsyncRow};
use crate::files::{self, RULES};
use crate::kill;
use crate::plan::{self, MISTAKES};
use crate::report::{Check, Control, Layer, Report};
use crate::scene::Scene;
use crate::workload::Timeline;

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The release binary.
    pub(crate) binary: PathBuf,
    /// Where recordings of findings go.
    pub(crate) keep: PathBuf,
    /// Disks at work at the same time.
    pub(crate) jobs: usize,
    /// Whether every state of the block recorder is judged, not the bounded portion.
    pub(crate) every_state: bool,
    /// When the run has taken too long, on the monotonic clock.
    pub(crate) deadline_ns: u64,
    pub(crate) report: Report,
}

fn milliseconds_since(start_ns: u64) -> u64 {
    (monotonic_ns() - start_ns) / 1_000_000
}

impl Run {
    fn goes_on(&self) -> io::Result<bool> {
        if monotonic_ns() > self.deadline_ns {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the run took longer than its cap"));
        }
        Ok(!crate::interrupt::requested())
    }

    /// Writes a recording to a file; gives the arguments that judge one state of it.
    fn save(&self, name: &str, kept: &Kept, state: u64) -> io::Result<String> {
        std::fs::create_dir_all(&self.keep)?;
        let path = self.keep.join(format!("{}-{}.recording", name.replace([' ', ','], "-"), kept.seed));
        kept.save(&path)?;
        Ok(format!("replay {} --state {state}", path.display()))
    }

    /// Keeps the recording of a finding and gives the command that judges that state alone.
    fn keep(&mut self, name: &str, kept: &Kept, state: u64, what: &str) -> io::Result<()> {
        let finding = format!("{what}: seawall-crash {}", self.save(name, kept, state)?);
        eprintln!("FOUND {finding}");
        self.report.findings.push(finding);
        Ok(())
    }

    /// Layer b: the file recorder with every method, under both rules.
    pub(crate) fn files(&mut self, seed: u64) -> io::Result<()> {
        let mut layers =
            RULES.map(|(_, name)| Layer { name: format!("files, {name} rule"), ..Layer::default() });
        for scene in plan::file_scenes(seed) {
            if !self.goes_on()? {
                break;
            }
            let record = files::record(&scene, &self.binary)?;
            for (layer, (rules, name)) in layers.iter_mut().zip(RULES) {
                let start = monotonic_ns();
                let timeline = Timeline::new(scene.seed, scene.transactions);
                let (found, states) = files::search(&record, timeline, rules)?;
                layer.recordings += 1;
                layer.counts.states += states;
                layer.milliseconds += milliseconds_since(start);
                if let Some(found) = found {
                    let tape = Tape::Files(record.clone());
                    let kept = Kept { seed: scene.seed, transactions: scene.transactions, tape };
                    self.keep(&format!("files-{name}"), &kept, 0, &format!("{scene}, {name} rule, {found}"))?;
                }
            }
        }
        self.report.layers.extend(layers);
        Ok(())
    }

    /// Layer c: the block recorder on one file system.
    pub(crate) fn blocks(&mut self, file_system: &'static FileSystem, seed: u64) -> io::Result<()> {
        let mut layer = Layer { name: format!("blocks on {}", file_system.name), ..Layer::default() };
        let start = monotonic_ns();
        let ended = self.block_recordings(file_system, seed, &mut layer);
        layer.milliseconds = milliseconds_since(start);
        self.report.layers.push(layer);
        ended
    }

    fn block_recordings(
        &mut self,
        file_system: &'static FileSystem,
        seed: u64,
        layer: &mut Layer,
    ) -> io::Result<()> {
        let (pool, binary) = (DiskPool::new(file_system), self.binary.clone());
        std::thread::scope(|scope| {
            // The next victim is recorded while the states of this one are judged.
            let (sender, recordings) = sync_channel(0);
            scope.spawn(move || {
                for scene in plan::block_scenes(seed) {
                    let recording = campaign::record(file_system, &scene, &binary);
                    if sender.send((scene, recording)).is_err() {
                        return;
                    }
                }
            });
            while self.goes_on()? {
                let Ok((scene, recording)) = recordings.recv() else { break };
                let recording = recording?;
                layer.recordings += 1;
                if let Some(found) = self.search(&recording, &pool).run(&mut layer.counts)? {
                    let what = format!("{scene} on {}: {found}", file_system.name);
                    self.keep_blocks(file_system, &recording, scene.transactions, &found, &what)?;
                }
            }
            Ok(())
        })
    }

    fn search<'a>(&self, recording: &'a Recording, pool: &'a DiskPool) -> campaign::Search<'a> {
        let one_in = if self.every_state { 1 } else { pool.file_system.bounded_one_in };
        campaign::Search { recording, pool, jobs: self.jobs, one_in, only: None, nested: true }
    }

    fn keep_blocks(
        &mut self,
        file_system: &FileSystem,
        recording: &Recording,
        transactions: u64,
        found: &campaign::Finding,
        what: &str,
    ) -> io::Result<()> {
        let kept = tape_of(file_system, recording, transactions);
        let nested =
            found.nested.map_or(String::new(), |nested| format!(" (state {nested} of its recovery)"));
        self.keep(&format!("blocks-{}", file_system.name), &kept, found.state, &format!("{what}{nested}"))
    }

    /// Layer e on one file system.
    pub(crate) fn faults(&mut self, file_system: &'static FileSystem, seed: u64) -> io::Result<()> {
        if !self.goes_on()? {
            return Ok(());
        }
        // The second fsync of btrfs sometimes fails as well; that it may succeed is what the log must expect.
        let mut row = faults::fsync_table(file_system)?;
        for _ in 0..4 {
            if row == FsyncRow::expected(file_system.name) {
                break;
            }
            row = faults::fsync_table(file_system)?;
        }
        self.report.fsync.push(row);
        let mut check = |name: &str, outcome: io::Result<String>| {
            let outcome = outcome.map_err(|error| error.to_string());
            self.report.checks.push(Check { name: format!("{name} on {}", file_system.name), outcome });
        };
        let full = faults::full_disk(file_system);
        check(
            "full disk",
            full.map(|(before, after)| format!("reported after {before} commits, {after} more with space")),
        );
        check("torn tail on a full disk", faults::torn_and_full(file_system));
        let dead = faults::dead_disk(file_system);
        check(
            "dead disk",
            dead.map(|commits| format!("failed for good, all of {commits} commits there after a remount")),
        );
        check("read-only", faults::read_only(file_system));
        self.failed_then_cut(file_system, (seed, false), "failed commit, reopened, power cut")?;
        let name = "failed commit, reopened through the page cache, power cut";
        self.failed_then_cut(file_system, (seed, true), name)
    }

    fn failed_then_cut(
        &mut self,
        file_system: &'static FileSystem,
        how: (u64, bool),
        name: &str,
    ) -> io::Result<()> {
        let (mut counts, name) = (Counts::default(), format!("{name} on {}", file_system.name));
        match faults::failed_then_cut(file_system, how, &self.binary, self.jobs, &mut counts)? {
            (_, None) => {
                let outcome = Ok(format!("{} states", counts.states));
                self.report.checks.push(Check { name, outcome });
            }
            (recording, Some(found)) => {
                let what = format!("{name}: {found}");
                self.keep_blocks(file_system, &recording, faults::TRANSACTIONS, &found, &what)?;
            }
        }
        Ok(())
    }

    /// Layer e without a failing disk: kill -9.
    pub(crate) fn kills(&mut self, seed: u64, cycles: u64) -> io::Result<()> {
        for engine in kill::VICTIMS {
            let dir = crate::apart::scratch()?;
            let scene = Scene::honest(engine, "direct+dsync", seed, 0, 1000);
            let kills = kill::cycles(&scene, &self.binary, dir.path(), cycles)?;
            if kills.acknowledged == 0 {
                return Err(io::Error::other(format!(
                    "{engine:?} was always killed before it acknowledged anything"
                )));
            }
            self.report.kills.push((format!("{engine:?}").to_lowercase(), kills));
        }
        Ok(())
    }

    /// The negative controls of the file recorder and of kill -9.
    pub(crate) fn file_controls(&mut self, seed: u64) -> io::Result<()> {
        for mistake in &MISTAKES {
            let scene = mistake.scene(seed);
            let record = files::record(&scene, &self.binary)?;
            for ((rules, name), claimed) in RULES.into_iter().zip(mistake.files) {
                let timeline = Timeline::new(scene.seed, scene.transactions);
                let (found, states) = files::search(&record, timeline, rules)?;
                if !claimed {
                    continue;
                }
                let layer = format!("files, {name} rule");
                let tape = Tape::Files(record.clone());
                let kept = Kept { seed: scene.seed, transactions: scene.transactions, tape };
                let replay =
                    found.as_ref().map(|_| self.save(&format!("{} {layer}", mistake.name), &kept, 0));
                let (replay, caught_after) = (replay.transpose()?, found.map(|_| states));
                self.report.controls.push(Control { mistake: mistake.name, layer, caught_after, replay });
            }
            if mistake.kill {
                let dir = crate::apart::scratch()?;
                let scene = Scene { transactions: 1000, ..scene };
                let kills = kill::cycles(&scene, &self.binary, dir.path(), 200)?;
                let (layer, caught_after) = ("kill -9".to_owned(), kills.broken.map(|_| kills.cycles));
                let control = Control { mistake: mistake.name, layer, caught_after, replay: None };
                self.report.controls.push(control);
            }
        }
        Ok(())
    }

    /// The negative controls of the block recorder on one file system.
    pub(crate) fn block_controls(&mut self, file_system: &'static FileSystem, seed: u64) -> io::Result<()> {
        let pool = DiskPool::new(file_system);
        for mistake in MISTAKES.iter().filter(|mistake| mistake.blocks.contains(&file_system.name)) {
            let scene = mistake.scene(seed);
            let recording = campaign::record(file_system, &scene, &self.binary)?;
            let mut counts = Counts::default();
            let search = campaign::Search { one_in: 1, ..self.search(&recording, &pool) };
            let found = search.run(&mut counts)?;
            // A mount that fails is no catch.
            let found = found.filter(|found| matches!(found.broken, Broken::Promise(_)));
            let layer = format!("blocks on {}", file_system.name);
            let replay = found.as_ref().filter(|found| found.nested.is_none()).map(|found| {
                let kept = tape_of(file_system, &recording, scene.transactions);
                self.save(&format!("{} {layer}", mistake.name), &kept, found.state)
            });
            let (replay, caught_after) = (replay.transpose()?, found.map(|_| counts.states));
            self.report.controls.push(Control { mistake: mistake.name, layer, caught_after, replay });
        }
        Ok(())
    }
}

fn tape_of(file_system: &FileSystem, recording: &Recording, transactions: u64) -> Kept {
    let Recording { start, events, seed, .. } = recording;
    let tape = Tape::Blocks(file_system.name.to_owned(), start.clone(), events.clone());
    Kept { seed: *seed, transactions, tape }
}

/// Judges one state of a kept recording again; gives what is broken.
pub(crate) fn replay(path: &Path, state: u64) -> io::Result<Vec<String>> {
    let kept = Kept::load(path)?;
    let timeline = Timeline::new(kept.seed, kept.transactions);
    match kept.tape {
        // The search of files is short: it is made again.
        Tape::Files(record) => {
            let mut broken = Vec::new();
            for (rules, name) in RULES {
                let (found, _) = files::search(&record, timeline.clone(), rules)?;
                broken.extend(found.map(|found| format!("{name} rule, {found}")));
            }
            Ok(broken)
        }
        Tape::Blocks(name, start, events) => {
            let file_system = FileSystem::find(&name).map_err(io::Error::other)?;
            let recording = Recording { start, events, timeline, seed: kept.seed };
            let (mut counts, pool, only) = (Counts::default(), DiskPool::new(file_system), Some(state));
            let (recording, pool) = (&recording, &pool);
            let search = campaign::Search { recording, pool, jobs: 1, one_in: 1, only, nested: true };
            let found = search.run(&mut counts)?;
            if counts.states + counts.unmountable == 0 {
                return Err(io::Error::other("the recording has no such state"));
            }
            Ok(found.map(|found| found.to_string()).into_iter().collect())
        }
    }
}
