//! Recovers and judges every state in which recorded block writes may leave a real file system.
//!
//! A recording is made once per victim; its states are handed to workers, each with disks and loop devices of its
//! own, which put a state in place, mount it, run the real recovery in the mounted directory and judge. Some states
//! are recorded in turn while they are mounted and recovered, and the crashes in *that* are judged as well; those, and
//! those that the library opens, are put on the recorded disk, all others on one that answers faster.
//!
//! A torn write of the superblock of ext4 (whose checksum covers 1024 bytes) can make the mount itself fail. No log
//! can prevent that, so mounts that fail *in torn states* are counted apart; in any other state they are findings.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use seawall::oracle::{Ledger, Violation, judge_records};
use seawall::sim::outside::judge;
use seawall::sim::rng::mix;
use seawall::{Log, Lsn, MethodChoice, Options};

use super::volume::{FileSystem, Mounted, StateVolume, Volume};
use super::window::{Recording, State, Tear, walk};
use crate::directory_disk::{DirectoryDisk, Sabotage, method};
use crate::lock;
use crate::scene::Scene;
use crate::victim::LAYOUT;
use crate::workload::Timeline;

/// The log's directory in the file system.
pub(crate) const LOG: &str = "log";

/// The library's front end opens the log in one of N states.
const LIBRARY_ONE_IN: u64 = 8;

/// The recovery is recorded too in one of N states.
const NESTED_ONE_IN: u64 = 61;
/// How many states of such a recording are judged.
const NESTED_STATES_MAX: u64 = 24;

/// What has been seen.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Counts {
    /// Distinct states judged, each within its recording.
    pub(crate) states: u64,
    /// Of these, states of a disk that lost its power again during recovery.
    pub(crate) nested: u64,
    /// Of these, states with a torn write.
    pub(crate) torn: u64,
    /// Torn states that the kernel refused to mount: not judged.
    pub(crate) unmountable: u64,
}

/// What a state broke.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the file system does not mount: {0}")]
    Mount(io::Error),
    #[error(transparent)]
    Promise(Violation),
}

/// A broken promise and the state that shows it.
#[derive(Debug)]
pub(crate) struct Finding {
    /// The state's number in the recording.
    pub(crate) state: u64,
    /// Set if the power went a second time, during recovery: the state's number in that recording.
    pub(crate) nested: Option<u64>,
    pub(crate) broken: Broken,
    pub(crate) torn: Option<Tear>,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.broken.fmt(f)?;
        self.torn.iter().try_for_each(|tear| write!(f, " ({tear})"))
    }
}

/// Runs the victim on a fresh file system and records the requests to its disk.
pub(crate) fn record(
    file_system: &'static FileSystem,
    scene: &Scene,
    binary: &Path,
) -> io::Result<Recording> {
    record_script(file_system, scene, |volume, dir| scene.victim(dir, Some(volume.marks())).run(binary))
}

/// Records the requests to the disk while `script` runs with the log's directory.
pub(crate) fn record_script(
    file_system: &'static FileSystem,
    scene: &Scene,
    script: impl FnOnce(&Volume, &Path) -> io::Result<()>,
) -> io::Result<Recording> {
    let volume = Volume::new(file_system, scene.seed)?;
    volume.make()?;
    let mounted = volume.mount()?;
    let dir = mounted.path.join(LOG);
    std::fs::create_dir(&dir)?;
    rustix::fs::syncfs(std::fs::File::open(&mounted.path)?)?;
    volume.recorder.hold_back(scene.held_in_1000);
    let start = volume.file.start_record();
    let done = script(&volume, &dir);
    let events = volume.file.take_record();
    volume.recorder.hold_back(0);
    done?;
    let timeline = Timeline::new(scene.seed, scene.transactions);
    Ok(Recording { start, events, timeline, seed: scene.seed })
}

/// What came of a state.
enum StateOutcome {
    Kept,
    Unmountable,
    Broken(Broken),
}

/// The options of a small log by this method.
pub(crate) fn log_options(method: &str) -> Options {
    let options = Options::default().segment_bytes(LAYOUT.segment_bytes).batch_bytes(16 << 10);
    options.memory_bytes(64 << 10).method(MethodChoice::Named(method.to_owned()))
}

/// Judges the log in `dir` by opening and reading it as users do; gives its end.
pub(crate) fn by_library(dir: &Path, method: &str, ledger: &Ledger) -> Result<Lsn, Violation> {
    let refused = |error: seawall::Error| Violation::refused(&error);
    let log = Log::open(dir, log_options(method)).map_err(refused)?;
    let end = log.durable_lsn();
    judge_records(ledger, log.read(log.first_lsn()).map_err(refused)?, end)?;
    log.close().map_err(refused)?;
    Ok(end)
}

/// Whether the library's front end opens the log of `state`.
fn is_for_library(state: &State) -> bool {
    state.number.is_multiple_of(LIBRARY_ONE_IN)
}

/// Judges `state` on a disk that holds it and gives its log's end to `exposed`.
fn judge_mounted(
    mounted: io::Result<Mounted>,
    state: &State,
    exposed: impl FnOnce(Lsn),
) -> io::Result<StateOutcome> {
    let mounted = match mounted {
        Ok(mounted) => mounted,
        Err(_) if state.torn.is_some() => return Ok(StateOutcome::Unmountable),
        Err(error) => return Ok(StateOutcome::Broken(Broken::Mount(error))),
    };
    let id = "buffered+fdatasync";
    let method = method(id).map_err(io::Error::other)?;
    let dir = mounted.path.join(LOG);
    let judged = if is_for_library(state) {
        by_library(&dir, id, &state.ledger)
    } else {
        judge(&mut DirectoryDisk::new(&dir, method, Sabotage::None), &LAYOUT, &state.ledger, false)
    };
    let outcome = match judged {
        Ok(end) => {
            exposed(end);
            StateOutcome::Kept
        }
        Err(violation) => StateOutcome::Broken(Broken::Promise(violation)),
    };
    mounted.unmount()?;
    Ok(outcome)
}

/// Judges `state` and records that; gives the recording if the state was mounted and kept every promise.
fn judge_recorded(volume: &Volume, state: &State) -> io::Result<(StateOutcome, Option<Recording>)> {
    volume.install(state)?;
    let start = volume.file.start_record();
    let outcome = judge_mounted(volume.mount(), state, |end| volume.file.mark(format!("exposed {end}")))?;
    let events = volume.file.take_record();
    let mut timeline = Timeline::new(0, 0);
    timeline.ledger = (*state.ledger).clone();
    let recording = Recording { start, events, timeline, seed: mix(state.number) };
    let kept = matches!(outcome, StateOutcome::Kept);
    Ok((outcome, kept.then_some(recording)))
}

/// What one worker judges states on.
#[derive(Debug)]
struct Disks {
    plain: StateVolume,
    /// For states whose recovery is recorded, and for the library, which refuses what lies in memory.
    recorded: Volume,
}

impl Disks {
    fn new(file_system: &'static FileSystem) -> io::Result<Self> {
        Ok(Self { plain: StateVolume::new(file_system)?, recorded: Volume::new(file_system, 0)? })
    }

    fn judge(&self, state: &State) -> io::Result<StateOutcome> {
        if is_for_library(state) {
            self.recorded.install(state)?;
            return judge_mounted(self.recorded.mount(), state, |_| {});
        }
        self.plain.install(state)?;
        judge_mounted(self.plain.mount(), state, |_| {})
    }
}

/// The disks of one file system that no worker uses now.
#[derive(Debug)]
pub(crate) struct DiskPool {
    pub(crate) file_system: &'static FileSystem,
    idle: Mutex<Vec<Disks>>,
}

impl DiskPool {
    pub(crate) fn new(file_system: &'static FileSystem) -> Self {
        Self { file_system, idle: Mutex::default() }
    }
}

/// What the workers of a search share.
struct Work<'a> {
    states: Mutex<Receiver<State>>,
    counts: Mutex<&'a mut Counts>,
    /// The one of the lowest state.
    finding: Mutex<Option<Finding>>,
    stop: AtomicBool,
}

/// One search through the states of a recording.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    pub(crate) recording: &'a Recording,
    /// Where the states of its file system are judged.
    pub(crate) pool: &'a DiskPool,
    /// States that are judged at the same time.
    pub(crate) jobs: usize,
    /// Judge one in N states, chosen at random over the whole recording.
    pub(crate) one_in: u64,
    /// Judge this state only.
    pub(crate) only: Option<u64>,
    /// Whether crashes during recovery are tried.
    pub(crate) nested: bool,
}

impl Search<'_> {
    /// Judges states until one breaks a promise, and adds to `counts`, also when it fails; gives the first finding.
    pub(crate) fn run(&self, counts: &mut Counts) -> io::Result<Option<Finding>> {
        let (sender, states) = sync_channel::<State>(2 * self.jobs);
        let (states, counts, finding) = (Mutex::new(states), Mutex::new(counts), Mutex::default());
        let work = Work { states, counts, finding, stop: AtomicBool::new(false) };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs).map(|_| scope.spawn(|| self.work(&work))).collect();
            let walked = walk(self.recording, |state| {
                let drawn = mix(self.recording.seed ^ mix(!state.number)).is_multiple_of(self.one_in.max(1));
                if self.only.map_or(!drawn, |only| only != state.number) {
                    return true;
                }
                !work.stop.load(Ordering::SeqCst)
                    && !crate::interrupt::requested()
                    && sender.send(state).is_ok()
            });
            drop(sender);
            for worker in workers {
                worker.join().map_err(|_| io::Error::other("a worker panicked"))??;
            }
            walked.map_err(io::Error::other)
        })?;
        let finding = lock(&work.finding).take();
        Ok(finding)
    }

    fn work(&self, work: &Work<'_>) -> io::Result<()> {
        let stop = || work.stop.store(true, Ordering::SeqCst);
        let idle = lock(&self.pool.idle).pop();
        let mut disks = idle.map_or_else(|| Disks::new(self.pool.file_system), Ok).inspect_err(|_| stop());
        loop {
            let next = lock(&work.states).recv();
            // After an error states are still taken, otherwise the walk would wait for room for ever.
            let Ok(state) = next else { break };
            let Ok(ready) = &disks else { continue };
            if work.stop.load(Ordering::SeqCst) {
                continue;
            }
            match self.state(ready, &state, &work.counts) {
                Ok(None) => {}
                Ok(Some(found)) => {
                    stop();
                    let mut first = lock(&work.finding);
                    if first.as_ref().is_none_or(|first| first.state > found.state) {
                        *first = Some(found);
                    }
                }
                Err(error) => {
                    stop();
                    disks = Err(error);
                }
            }
        }
        lock(&self.pool.idle).push(disks?);
        Ok(())
    }

    fn state(
        &self,
        disks: &Disks,
        state: &State,
        counts: &Mutex<&mut Counts>,
    ) -> io::Result<Option<Finding>> {
        let again = self.nested && mix(self.recording.seed ^ mix(state.number)).is_multiple_of(NESTED_ONE_IN);
        let (outcome, recording) =
            if again { judge_recorded(&disks.recorded, state)? } else { (disks.judge(state)?, None) };
        if let Some(broken) = lock(counts).add(state, outcome) {
            return Ok(Some(Finding { state: state.number, nested: None, broken, torn: state.torn }));
        }
        let Some(recording) = recording else { return Ok(None) };
        let mut nested = Vec::new();
        walk(&recording, |state| {
            nested.push(state);
            true
        })
        .map_err(io::Error::other)?;
        // Spread over the whole recovery.
        let step = usize::try_from((nested.len() as u64).div_ceil(NESTED_STATES_MAX)).unwrap_or(1).max(1);
        for second in nested.iter().step_by(step) {
            let outcome = disks.judge(second)?;
            lock(counts).nested += 1;
            if let Some(broken) = lock(counts).add(second, outcome) {
                let nested = Some(second.number);
                return Ok(Some(Finding { state: state.number, nested, broken, torn: second.torn }));
            }
        }
        Ok(None)
    }
}

impl Counts {
    fn add(&mut self, state: &State, outcome: StateOutcome) -> Option<Broken> {
        if matches!(outcome, StateOutcome::Unmountable) {
            self.unmountable += 1;
            return None;
        }
        self.states += 1;
        self.torn += u64::from(state.torn.is_some());
        match outcome {
            StateOutcome::Broken(broken) => Some(broken),
            _ => None,
        }
    }
}
