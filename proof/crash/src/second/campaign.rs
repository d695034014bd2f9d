//! Cuts the emulated machine's power again and again on one disk, and sums up the verdicts.
//!
//! One disk a campaign. Each boot of the machine judges the state that the previous cut left, then writes until it is
//! cut off itself. The seed draws when the power goes and what the cache keeps; it does not control the emulator's
//! timing, so a cut cannot be repeated exactly: the image of a finding is kept instead.
//!
//! Invariants: a cut counts when its verdict was received; the sums are saved after every cut, so that a campaign is
//! resumable; on an honest disk every broken promise and every file system that does not mount fails the run, on a
//! lying one a campaign that detects no loss does.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall::sim::rng::{Rng, mix};
use seawall_powercut::witness;
use seawall_sys::clock::unix_seconds;

use super::bus::{Bus, Served, serve_tcp};
use super::cache::{Disk, Nature, Traffic};
use super::initramfs::{FRESH, Kernel, METHODS, MachineSpec, Task, build};
use super::machine::{Machine, Message};
use super::nbd::Shared;
use crate::blocks::volume::FileSystem;
use crate::campaign_file;
use crate::error::{Error, Result};
use crate::lock;
use crate::victim::word_of;

/// The options of a campaign.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CutOptions {
    /// Cuts in all, those of earlier sittings included
    #[arg(long, default_value_t = 10)]
    cuts: u64,
    /// Whether the disk keeps its promises
    #[arg(long, value_enum, default_value_t = Nature::Honest)]
    disk: Nature,
    /// How the machine reaches the disk
    #[arg(long, value_enum, default_value_t = Bus::Virtio)]
    pub(super) bus: Bus,
    /// The file system: ext4, xfs or btrfs
    #[arg(long, value_parser = FileSystem::find, default_value = "ext4")]
    pub(super) fs: &'static FileSystem,
    /// What the guest's program was built from, for the results
    #[arg(long, value_name = "TEXT")]
    pub(super) build: Option<String>,
    /// Where the campaign stands, made if there is none; by default the result itself, so that it goes on from there
    #[arg(long, value_name = "FILE")]
    progress: Option<PathBuf>,
    /// The folder that the kernel's package was unpacked to
    #[arg(long, value_name = "DIR", default_value = "target/second-kernel")]
    pub(super) kernel: PathBuf,
    /// The release binary, built static for x86_64-unknown-linux-musl
    #[arg(long, value_name = "FILE", default_value = "target/x86_64-unknown-linux-musl/release/seawall")]
    pub(super) guest_binary: PathBuf,
    /// With --states: this program, built static with the feature mutants
    #[arg(
        long,
        value_name = "FILE",
        default_value = "target/x86_64-unknown-linux-musl/release/seawall-crash"
    )]
    pub(super) victim: PathBuf,
    /// A static busybox
    #[arg(long, value_name = "FILE", default_value = "/bin/busybox")]
    pub(super) busybox: PathBuf,
    /// Commit methods in the machine; by default a few, drawn again for each cut
    #[arg(long, value_name = "IDS")]
    pub(super) methods: Option<String>,
    /// Records the traffic of `seawall log append` and of relaxed commits by each of the methods, and judges the states that
    /// it allows
    #[arg(long)]
    states: bool,
    /// Runs the rows that need FUA, poll queues and atomic writes once under strace; leaves their calls and results there
    #[arg(long, value_name = "DIR", conflicts_with = "states")]
    rows: Option<PathBuf>,
    /// Runs the table of stacks of this program of tests (`real_systems`) once, and prints what it says
    #[arg(long, value_name = "FILE", conflicts_with_all = ["states", "rows"])]
    stacks: Option<PathBuf>,
    /// With --states: judge one in N states
    #[arg(long, default_value_t = 1)]
    pub(super) one_in: u64,
    /// The longest time between the first acknowledgement and the cut, in milliseconds
    #[arg(long, default_value_t = 6_000)]
    life_ms: u64,
}

/// Where the results of a campaign are, and so where it goes on.
const RESULTS: &str = "results/crash";

/// One method in all cuts.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct MethodSum {
    method: String,
    promised: String,
    /// Cuts before which something was acknowledged.
    cuts: u64,
    /// Of these, in its own turn.
    in_turn: u64,
    acknowledged: u64,
    expected: u64,
    lost: u64,
    torn: u64,
    reordered: u64,
    phantom: u64,
    /// Cuts after which a promise was broken.
    broken: u64,
}

/// The sum of a campaign.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Progress {
    kernel: String,
    command: String,
    disk: Option<Nature>,
    #[serde(default)]
    bus: Bus,
    #[serde(default = "ext4")]
    fs: String,
    /// What the guest's programs were built from.
    #[serde(default)]
    builds: Vec<String>,
    seed: u64,
    /// Cuts that were judged.
    cuts: u64,
    /// Of these, cuts of a life in which the disk saw writes with FUA.
    #[serde(default)]
    forced_cuts: u64,
    /// Cuts after which the file system did not mount.
    unmountable: u64,
    /// Cuts after which the file system mounted and could not be read.
    unreadable: u64,
    /// Cuts after which a promise was found broken.
    convicted: u64,
    /// Writes in the cache at a cut, in all; of these gone; of these torn.
    pending: u64,
    dropped: u64,
    torn: u64,
    traffic: Traffic,
    methods: Vec<MethodSum>,
    findings: Vec<String>,
    unix_seconds: u64,
    /// What is to be known besides, written by hand.
    #[serde(default)]
    notes: Vec<String>,
}

fn ext4() -> String {
    "ext4".to_owned()
}

impl Progress {
    fn load(path: &Path, fresh: Self) -> Result<Self> {
        let Some(known) = campaign_file::load::<Self>(path)? else { return Ok(fresh) };
        let of = |it: &Self| (it.disk, it.seed, it.bus, it.fs.clone());
        if of(&known) != of(&fresh) {
            return Err(Error::OtherCampaign(path.to_owned()));
        }
        let mut builds = known.builds;
        builds.extend(fresh.builds.into_iter().filter(|build| !builds.contains(build)).collect::<Vec<_>>());
        Ok(Self { kernel: fresh.kernel, command: fresh.command, builds, ..known })
    }

    /// Adds what check found after one cut; whether a promise was broken.
    fn add(&mut self, code: i32, json: &str) -> Result<bool> {
        let malformed = || Error::Machine {
            what: format!("check ended with {code} and its verdict is malformed"),
            console: json.to_owned(),
        };
        let verdict: serde_json::Value = serde_json::from_str(json).map_err(|_| malformed())?;
        for stream in verdict["streams"].as_array().ok_or_else(malformed)? {
            let count = |name: &str| stream[name].as_u64().unwrap_or(0);
            if count("acknowledged") == 0 {
                continue;
            }
            let method = stream["method"].as_str().unwrap_or("?");
            let at = self.methods.iter().position(|sum| sum.method == method).unwrap_or_else(|| {
                let promised = stream["promised"].as_str().unwrap_or("?").to_owned();
                self.methods.push(MethodSum { method: method.to_owned(), promised, ..MethodSum::default() });
                self.methods.len() - 1
            });
            let sum = &mut self.methods[at];
            sum.cuts += 1;
            sum.in_turn += u64::from(stream["last"] == true);
            sum.acknowledged += count("acknowledged");
            sum.expected += count("expected");
            sum.lost += count("lost");
            sum.torn += count("torn");
            sum.reordered += count("reordered");
            sum.phantom += count("phantom");
            sum.broken += u64::from(stream["verdict"] == "broken");
        }
        Ok(code == 4)
    }

    /// Whether the disk breaks promises on purpose.
    fn lies(&self) -> bool {
        self.disk.is_some_and(|disk| disk != Nature::Honest)
    }

    /// What makes the campaign fail.
    fn failures(&self) -> Vec<String> {
        let mut failures = self.findings.clone();
        if self.lies() && self.cuts > 0 && self.convicted == 0 {
            failures.push("the lying disk was not convicted by any cut".to_owned());
        }
        failures
    }

    fn markdown(&self) -> String {
        let nature = match self.disk {
            Some(Nature::Lying) => "a disk that acknowledges flushes and does not do them",
            Some(Nature::IgnoresFlush) => "a disk that ignores flushes and honours FUA",
            Some(Nature::IgnoresFua) => "a disk that ignores FUA and honours flushes",
            Some(Nature::EarlyFua) => "a disk that acknowledges FUA before it is done",
            _ => "a disk that keeps its promises",
        };
        let builds = if self.builds.is_empty() {
            String::new()
        } else {
            format!(", built from {}", self.builds.join(", "))
        };
        let mut text = format!(
            "# Power cuts of a second kernel, {nature}\n\n`{}` on {}, {} behind {}{builds}\n\n{} cuts judged, {} of them with \
             writes with FUA, {} convicted; after {} more the file system did not mount, after {} it could not be read. \
             {} writes were in the disk's cache at the cuts: {} of them lost, {} torn.\nThe disk saw {} writes ({} with \
             FUA), {} flushes, {} trims.\n\n",
            self.command,
            self.kernel,
            self.fs,
            word_of(&self.bus),
            self.cuts,
            self.forced_cuts,
            self.convicted,
            self.unmountable,
            self.unreadable,
            self.pending,
            self.dropped,
            self.torn,
            self.traffic.writes,
            self.traffic.forced,
            self.traffic.flushes,
            self.traffic.trims
        );
        text += "| method | promised to outlive | cuts | in its turn | acknowledged | held against the disk | lost | torn | \
                 reordered | phantom | cuts that broke a promise |\n";
        text += "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
        for sum in &self.methods {
            let MethodSum { method, promised, cuts, in_turn, acknowledged, expected, .. } = sum;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {method} | {promised} | {cuts} | {in_turn} | {acknowledged} | {expected} | {} | {} | {} | {} | {} |",
                sum.lost, sum.torn, sum.reordered, sum.phantom, sum.broken
            );
        }
        if self.lies() {
            let of = |broken: bool| {
                let durable = self.methods.iter().filter(|sum| sum.promised == "power-loss");
                let named = durable.filter(|sum| (sum.broken > 0) == broken).map(|sum| sum.method.as_str());
                let named: Vec<&str> = named.collect();
                if named.is_empty() { "none".to_owned() } else { named.join(", ") }
            };
            let _ = writeln!(text, "\nConvicted by: {}.\nNot convicted by: {}.", of(true), of(false));
        }
        for failure in self.failures() {
            let _ = write!(text, "\n- {failure}");
        }
        let _ = writeln!(text, "\n{} failures", self.failures().len());
        for note in &self.notes {
            let _ = writeln!(text, "\n{note}");
        }
        text
    }
}

/// A campaign under way.
struct Campaign<'a> {
    options: &'a CutOptions,
    keep: &'a Path,
    kernel: Kernel,
    initramfs: PathBuf,
    dir: PathBuf,
    disk: Shared,
    served: Served,
    /// Whether nothing was ever written to the disk.
    fresh: bool,
    /// Whether the disk saw FUA in the life that was cut last.
    forced: bool,
    progress: Progress,
    standing: PathBuf,
}

/// What Debian's kernels do not have, or not for files.
const NOT_THERE: [&str; 3] = ["dontcache", "dontcache+fdatasync", "atomic+dsync"];
/// What needs a device that can be polled.
const POLLED: &str = "uring-direct-iopoll";

/// The log and three other methods, in any order: few, so that each one's turn comes often.
fn draw(rng: &mut Rng, bus: Bus, fs: &FileSystem) -> String {
    // A file of btrfs is on no device of which the gauge knows whether it can be polled.
    let polls = bus == Bus::Nvme && fs.name != "btrfs";
    let known = seawall_sys::methods::here().iter().map(|method| method.id);
    let mut known: Vec<&str> =
        known.filter(|id| !NOT_THERE.contains(id) && (*id != POLLED || polls)).collect();
    let mut drawn = vec!["log"];
    for _ in 0..3 {
        let method = known.swap_remove(rng.index(known.len()));
        drawn.insert(rng.index(drawn.len() + 1), method);
    }
    drawn.join(",")
}

impl Campaign<'_> {
    fn number(&self) -> u64 {
        self.progress.cuts + self.progress.unmountable + self.progress.unreadable
    }

    /// Starts over with a disk of its own.
    fn renew(&mut self, image: &[u8]) -> io::Result<()> {
        self.sum_up();
        self.fresh = true;
        self.disk = Arc::new(Mutex::new(Disk::new(self.options.disk, image.to_vec())));
        self.served = self.options.bus.serve(&self.dir, &self.disk)?;
        Ok(())
    }

    /// Adds what was asked of the disk since the last time, and gives it.
    fn sum_up(&mut self) -> Traffic {
        let traffic = std::mem::take(&mut lock(&self.disk).traffic);
        let sum = &mut self.progress.traffic;
        sum.writes += traffic.writes;
        sum.forced += traffic.forced;
        sum.flushes += traffic.flushes;
        sum.trims += traffic.trims;
        traffic
    }

    fn keep(&mut self, what: &str) -> io::Result<()> {
        std::fs::create_dir_all(self.keep)?;
        let path = self.keep.join(format!("second-kernel-{}-{}.img", self.progress.seed, self.number()));
        std::fs::write(&path, &lock(&self.disk).current)?;
        let finding = format!("cut {}: {what}; the disk is in {}", self.number(), path.display());
        eprintln!("FOUND {finding}");
        self.progress.findings.push(finding);
        Ok(())
    }

    /// One life: judges the cut before, if there was one, writes, and is cut off.
    fn life(&mut self, blank: &[u8]) -> Result<()> {
        // The verdict on the last cut is still to come.
        let lives = self.number() + u64::from(!self.fresh);
        let mut rng = Rng::new(mix(self.progress.seed ^ mix(lives)));
        let methods =
            self.options.methods.clone().unwrap_or_else(|| draw(&mut rng, self.options.bus, self.options.fs));
        let fresh = if self.fresh { FRESH } else { "" };
        let words = format!("{METHODS}{methods} {fresh}");
        let mut machine = Machine::start(&self.kernel, &self.initramfs, &self.served, None, &words)?;
        loop {
            match machine.expect()? {
                Message::Writes => break,
                Message::Verdict(_, json) if json.is_empty() => {
                    let words = machine.last_lines();
                    machine.cut()?;
                    if !self.progress.lies() {
                        self.keep(&format!("what is left could not be judged:\n{words}"))?;
                    }
                    self.progress.unreadable += 1;
                    return Ok(self.renew(blank)?);
                }
                Message::Verdict(code, json) => self.verdict(code, &json)?,
                Message::Unmountable => {
                    let words = machine.last_lines();
                    machine.cut()?;
                    if self.fresh {
                        return Err(machine_error("a new file system does not mount", words));
                    }
                    if !self.progress.lies() {
                        self.keep(&format!("the file system did not mount:\n{words}"))?;
                    }
                    self.progress.unmountable += 1;
                    return Ok(self.renew(blank)?);
                }
                Message::Ready | Message::Ended => {
                    return Err(machine_error("the run ended", machine.last_lines()));
                }
            }
        }
        if self.number() >= self.options.cuts {
            return Ok(machine.cut()?);
        }
        let life = Duration::from_millis(300 + rng.below(self.options.life_ms));
        if let Some(said) = machine.next_message(life)? {
            let what = format!("the machine reported {said:?} before its cut");
            return Err(machine_error(&what, machine.last_lines()));
        }
        machine.cut()?;
        self.fresh = false;
        // What the emulator had sent before it was killed still arrives.
        std::thread::sleep(Duration::from_millis(500));
        self.forced = self.sum_up().forced > 0;
        let cut = lock(&self.disk).cut(&mut rng);
        self.progress.pending += cut.pending as u64;
        self.progress.dropped += cut.dropped as u64;
        self.progress.torn += cut.torn as u64;
        Ok(())
    }

    fn verdict(&mut self, code: i32, json: &str) -> Result<()> {
        let convicted = self.progress.add(code, json)?;
        self.progress.convicted += u64::from(convicted);
        if convicted && !self.progress.lies() {
            self.keep(&format!("a promise was broken: {json}"))?;
        }
        self.progress.cuts += 1;
        self.progress.forced_cuts += u64::from(self.forced);
        Ok(())
    }
}

pub(super) fn machine_error(what: &str, console: String) -> Error {
    Error::Machine { what: what.to_owned(), console }
}

/// The results' name: what differs from an honest ext4 behind virtio.
pub(super) fn results_name(options: &CutOptions, kernel: &Kernel) -> String {
    let mut name = "second-kernel".to_owned();
    if options.bus != Bus::Virtio || options.fs.name != "ext4" {
        // Writing to a string cannot fail.
        let _ = write!(name, "-{}-{}-{}", word_of(&options.bus), options.fs.name, kernel.version());
    }
    if options.disk != Nature::Honest {
        let _ = write!(name, "-{}", word_of(&options.disk));
    }
    name
}

/// Removes the ledgers of all runs but the last one, while the machine is off: they were judged.
fn forget_judged(ledger: &Path) -> io::Result<()> {
    let mut runs = Vec::new();
    for run in std::fs::read_dir(ledger)? {
        let run = run?;
        runs.push((run.metadata()?.modified()?, run.path()));
    }
    runs.sort();
    runs.pop();
    runs.iter().try_for_each(|(_, run)| std::fs::remove_dir_all(run))
}

/// Makes the campaign's cuts; whether every promise was kept, or every lie found.
pub(crate) fn run(options: &CutOptions, seed: u64, keep: &Path, results: Option<&Path>) -> Result<bool> {
    crate::interrupt::listen()?;
    if let Some(folder) = &options.rows {
        return super::rows::run(options, folder);
    }
    if let Some(tests) = &options.stacks {
        return super::stacks::run(options, tests);
    }
    let results = results.unwrap_or(Path::new(RESULTS));
    if options.states {
        return super::states::run(options, seed, results);
    }
    let scratch = tempfile::tempdir()?;
    let dir = scratch.path().to_owned();
    // The ledger's log wants a disk, which a temporary folder need not be.
    std::fs::create_dir_all(keep)?;
    let ledger = tempfile::tempdir_in(keep)?;
    let folder = ledger.path().to_owned();
    // The machine says what becomes of its witness.
    let port = serve_tcp(move |stream| drop(witness::serve(stream, stream, &folder)))?;
    let kernel = Kernel::find(&options.kernel)?;
    let run = "--turn 300ms --journal 128KiB --window 8".to_owned();
    let initramfs = dir.join("initramfs");
    let CutOptions { bus, fs, disk: nature, .. } = *options;
    let spec = MachineSpec { bus, file_system: fs.name, task: Task::Powercut { port, run } };
    std::fs::write(&initramfs, build(&kernel, &options.busybox, &options.guest_binary, &spec)?)?;
    let blank = fs.image(&dir, fs.disk_bytes)?;
    let name = results_name(options, &kernel);
    let nature = word_of(&nature);
    let standing = options.progress.clone().unwrap_or_else(|| results.join(format!("{name}.json")));
    let (cuts, life_ms) = (options.cuts, options.life_ms);
    let mut command = format!(
        "cargo xtask crash --second-kernel --linux {} --bus {} --fs {} --seed {seed} --disk {nature} --cuts {cuts} --life-ms {life_ms}",
        kernel.version(),
        word_of(&bus),
        fs.name
    );
    if let Some(methods) = &options.methods {
        command += " --methods ";
        command += methods;
    }
    let fresh = Progress {
        kernel: format!("Linux {} in {}", kernel.release, super::machine::EMULATOR),
        command,
        disk: Some(options.disk),
        bus,
        fs: fs.name.to_owned(),
        builds: options.build.clone().into_iter().collect(),
        seed,
        ..Progress::default()
    };
    let progress = Progress::load(&standing, fresh)?;
    let disk = Arc::new(Mutex::new(Disk::new(options.disk, blank.clone())));
    let served = bus.serve(&dir, &disk)?;
    let (fresh, forced) = (true, false);
    let mut campaign =
        Campaign { options, keep, kernel, initramfs, dir, disk, served, fresh, forced, progress, standing };
    while campaign.number() < options.cuts
        && !crate::interrupt::requested()
        && campaign.progress.findings.is_empty()
    {
        let before = campaign.number();
        forget_judged(ledger.path())?;
        campaign.life(&blank)?;
        if campaign.number() > before {
            campaign.progress.unix_seconds = unix_seconds();
            campaign_file::save(&campaign.standing, &campaign.progress)?;
            eprintln!("{} cuts, {} convicted", campaign.number(), campaign.progress.convicted);
        }
    }
    campaign.sum_up();
    campaign_file::save(&campaign.standing, &campaign.progress)?;
    let progress = &campaign.progress;
    print!("{}", progress.markdown());
    std::fs::create_dir_all(results)?;
    std::fs::write(results.join(format!("{name}.md")), progress.markdown())?;
    let json = results.join(format!("{name}.json"));
    if json != campaign.standing {
        campaign_file::save(&json, progress)?;
    }
    Ok(progress.failures().is_empty() && campaign.number() >= options.cuts)
}
