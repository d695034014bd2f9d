//! Serves the stops of a program and its children: measures the syncs, and tells [`Files`] what became of names.
//!
//! Time spent here is known by the clock; what a stop itself costs is measured by calls that the child makes before it becomes
//! the program. Both are subtracted.

use crate::calls::{self, Effect, SYNC_WRITE};
use crate::files::{Act, Files, Synced};
use crate::price::Run;
use crate::site::{Sites, piece_at, word};
use crate::{End, Options, Report, Syncs};
use seawall_host::ptrace::{Call, Stop, Thread, Tracer, read_string};
use seawall_sys::clock::monotonic_ns;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long children may outlive the program.
const LINGER_NS: u64 = 2_000_000_000;
const POLL: Duration = Duration::from_millis(5);

/// What a call will have done when it succeeds.
enum Doing {
    Sync { name: &'static str, sync: Option<Synced>, everything: bool, lasting: bool, site: Option<String> },
    Open { path: PathBuf, new: bool, writes_sync: bool },
    Map(PathBuf),
    Name(Act, PathBuf),
    Rename { from: PathBuf, to: PathBuf, early: bool },
    Calibrate,
}

type Key = (String, &'static str, Option<String>);

struct Follower {
    tracer: Tracer,
    options: Options,
    files: Files,
    sites: Sites,
    /// What each thread is doing, since when.
    doing: HashMap<Thread, (Doing, u64)>,
    rows: BTreeMap<Key, Syncs>,
    runs: Vec<Run>,
    threads: HashSet<Thread>,
    /// Syncs that run now; since when there is at least one; how long there was one before.
    running: u32,
    since: u64,
    union_ns: u64,
    /// Of how many stretches the union is made.
    stretches: u64,
    rings: u64,
    dsync_files: u64,
    foreign: HashSet<String>,
    /// Times between letting a thread go and its next stop, when it does nothing between.
    inside: Vec<u64>,
    stops: u64,
    /// Stops that made the run longer, and the time spent at them.
    delays: u64,
    spent_ns: u64,
}

pub(crate) fn run(command: Command, options: Options) -> io::Result<Report> {
    let start = monotonic_ns();
    let files = Files::new(command.get_current_dir());
    let tracer = Tracer::start(command, calls::filter(options))?;
    tracer.leave_ctrl_c_to_the_program();
    let follower = Follower {
        tracer,
        options,
        files,
        sites: Sites::default(),
        doing: HashMap::new(),
        rows: BTreeMap::new(),
        runs: Vec::new(),
        threads: HashSet::new(),
        running: 0,
        since: 0,
        union_ns: 0,
        stretches: 0,
        rings: 0,
        dsync_files: 0,
        foreign: HashSet::new(),
        inside: Vec::new(),
        stops: 0,
        delays: 0,
        spent_ns: 0,
    };
    follower.until_the_end(start)
}

fn folder(thread: Thread, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{thread}/{name}"))
}

/// The link of a descriptor, of which the call takes the low half.
fn descriptor(thread: Thread, argument: u64) -> PathBuf {
    folder(thread, &format!("fd/{}", argument & 0xFFFF_FFFF))
}

/// The path at an address, below the folder of a descriptor if it is relative.
fn path(thread: Thread, below: Option<u64>, address: u64) -> Option<PathBuf> {
    let text = PathBuf::from(read_string(thread, address).ok()?);
    if text.is_absolute() {
        return Some(text);
    }
    let here = i64::from(libc::AT_FDCWD).cast_unsigned() & 0xFFFF_FFFF;
    let link = match below {
        Some(argument) if argument & 0xFFFF_FFFF != here => descriptor(thread, argument),
        _ => folder(thread, "cwd"),
    };
    let base = std::fs::read_link(link).ok()?;
    Some(base.join(text).components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect())
}

/// Whether writes through a descriptor are syncs.
fn writes_sync(thread: Thread, argument: u64) -> bool {
    let text = std::fs::read_to_string(folder(thread, &format!("fdinfo/{}", argument & 0xFFFF_FFFF)));
    let text = text.unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags
        .and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| flags & libc::O_DSYNC != 0)
}

impl Follower {
    fn until_the_end(mut self, start: u64) -> io::Result<Report> {
        let (mut end, mut begun, mut killed) = (None, start, 0);
        loop {
            let Some((thread, stop)) = self.tracer.wait(end.is_none())? else {
                let Some((_, at)) = end else { break };
                let left = followed();
                if left.is_empty() || monotonic_ns() > at + LINGER_NS {
                    killed = left.len();
                    for process in left {
                        self.tracer.kill(process);
                    }
                    break;
                }
                std::thread::sleep(POLL);
                continue;
            };
            let at = monotonic_ns();
            let beside = self.running > 0;
            self.stops += 1;
            match stop {
                Stop::Call => self.call(thread),
                Stop::Result => self.result(thread, at),
                Stop::Exec => {
                    if self.foreign.is_empty()
                        && end.is_none()
                        && thread == self.tracer.root()
                        && begun == start
                    {
                        // What came before was this program's own.
                        (begun, self.stops, self.delays, self.spent_ns) = (at, 0, 0, 0);
                    }
                    self.sites.forget(thread);
                    self.note_foreign(thread);
                    self.tracer.resume(thread, 0);
                }
                Stop::Group => self.tracer.stay(thread),
                Stop::Signal(signal) => self.tracer.resume(thread, signal),
                Stop::Other => self.tracer.resume(thread, 0),
                Stop::Exited(code) => end = self.gone(thread, at, End::Code(code)).or(end),
                Stop::Killed(signal) => end = self.gone(thread, at, End::Signal(signal)).or(end),
            }
            // Beside another thread's sync it delays nothing that lasts longer.
            if !(beside && self.running > 0) {
                self.delays += 1;
                self.spent_ns += monotonic_ns() - at;
            }
        }
        let Some((end, ended)) = end else {
            return Err(self.tracer.failure().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()));
        };
        Ok(self.report(end, ended - begun, killed))
    }

    /// A thread is gone: how and when the program ended, if it was that.
    fn gone(&mut self, thread: Thread, at: u64, end: End) -> Option<(End, u64)> {
        self.finish(thread, at, false);
        (thread == self.tracer.root()).then_some((end, at))
    }

    fn note_foreign(&mut self, thread: Thread) {
        use std::io::Read as _;
        let mut head = [0; 5];
        let link = folder(thread, "exe");
        let read = std::fs::File::open(&link).and_then(|mut file| file.read_exact(&mut head));
        if read.is_ok() && head == *b"\x7FELF\x01" {
            let path = std::fs::read_link(&link).unwrap_or(link);
            self.foreign.insert(self.files.role(&path));
        }
    }

    fn call(&mut self, thread: Thread) {
        let doing = self.tracer.call(thread).ok().and_then(|call| self.about_to(thread, call));
        let Some(doing) = doing else {
            self.tracer.resume(thread, 0);
            return;
        };
        self.tracer.to_result(thread);
        let now = monotonic_ns();
        if let Doing::Sync { .. } = doing {
            if self.running == 0 {
                (self.since, self.stretches) = (now, self.stretches + 1);
            }
            self.running += 1;
        }
        self.doing.insert(thread, (doing, now));
    }

    fn about_to(&mut self, thread: Thread, mut call: Call) -> Option<Doing> {
        let traced = calls::of(call.number, &mut call.arguments, self.options)?;
        let arguments = call.arguments;
        let at = |place: usize| arguments[place];
        let named = |below: Option<usize>, place: usize| path(thread, below.map(at), at(place));
        let mut sync = |sync: Option<Synced>, everything: bool, lasting: bool| {
            let site = self.sites.find(&self.tracer, thread, &call);
            Some(Doing::Sync { name: traced.name, sync, everything, lasting, site })
        };
        match traced.effect {
            Effect::Sync
                if at(0) & 0xFFFF_FFFF == 0xFFFF_FFFF
                    && self.inside.len() < seawall_host::ptrace::CALIBRATIONS =>
            {
                Some(Doing::Calibrate)
            }
            Effect::Sync => sync(self.files.sync(&descriptor(thread, at(0))), false, true),
            Effect::SyncAll => sync(None, true, true),
            Effect::SyncMapping => {
                let lasting = at(2) & u64::from(libc::MS_SYNC.cast_unsigned()) != 0;
                // The link to a mapped file below `/proc` needs a privilege.
                let file = piece_at(thread, at(0)).map(|piece| piece.path);
                sync(file.and_then(|file| self.files.sync(Path::new(&file))), false, lasting)
            }
            Effect::FlaggedWrite if at(5) & u64::from(SYNC_WRITE) == 0 => None,
            Effect::Write if !writes_sync(thread, at(0)) => None,
            Effect::WriteBack | Effect::FlaggedWrite | Effect::Write => {
                sync(self.files.sync(&descriptor(thread, at(0))), false, false)
            }
            Effect::Open | Effect::OpenHow => {
                // The flags are the first field of the structure of openat2(2).
                let flags = if traced.effect == Effect::Open { at(2) } else { word(thread, at(2))? };
                let has = |flag: i32| flags & u64::from(flag.cast_unsigned()) != 0;
                let path = named(Some(0), 1)?;
                let new = has(libc::O_CREAT) && std::fs::symlink_metadata(&path).is_err();
                let writes_sync = has(libc::O_DSYNC);
                (new || writes_sync).then_some(Doing::Open { path, new, writes_sync })
            }
            Effect::Map => {
                let writable = at(2) & u64::from(libc::PROT_WRITE.cast_unsigned()) != 0;
                (writable && at(4) & 0xFFFF_FFFF != 0xFFFF_FFFF)
                    .then(|| Doing::Map(descriptor(thread, at(4))))
            }
            Effect::Create(below, place) => Some(Doing::Name(Act::Create, named(below, place)?)),
            Effect::Remove(below, place) => Some(Doing::Name(Act::Remove, named(below, place)?)),
            Effect::Rename(below, from, below_to, to) => {
                let (from, to) = (named(below, from)?, named(below_to, to)?);
                let early = self.files.is_early(&from);
                Some(Doing::Rename { from, to, early })
            }
            Effect::Ring => {
                self.rings += 1;
                None
            }
        }
    }

    fn result(&mut self, thread: Thread, at: u64) {
        let done = self.tracer.result(thread).is_ok_and(|result| result >= 0);
        self.finish(thread, at, done);
        self.tracer.resume(thread, 0);
    }

    /// A call ended, or its thread.
    fn finish(&mut self, thread: Thread, at: u64, done: bool) {
        let Some((doing, since)) = self.doing.remove(&thread) else { return };
        match doing {
            Doing::Calibrate => self.inside.push(at - since),
            Doing::Sync { name, sync, everything, lasting, site } => {
                self.running -= 1;
                if self.running == 0 {
                    self.union_ns += at - self.since;
                }
                self.threads.insert(thread);
                let role = sync.as_ref().map_or("(everything)", |sync| &sync.role);
                let role = if sync.is_none() && !everything { "(unknown)" } else { role }.to_owned();
                let number = self.rows.len();
                let key = (role.clone(), name, site.clone());
                let new = || Syncs { role, call: name, site, number, ..Syncs::default() };
                let row = self.rows.entry(key).or_insert_with(new);
                row.count += 1;
                let (thread, time_ns) = (thread.unsigned_abs(), at - since);
                row.time_ns += time_ns;
                row.failed += u64::from(!done);
                self.runs.push(Run { thread, span_ns: (since, at), time_ns, row: row.number, failed: !done });
                if let Some(bytes) = sync.as_ref().and_then(|sync| sync.dirty) {
                    row.dirty_bytes.0 += bytes;
                    row.dirty_bytes.1 += 1;
                }
                row.redundant += u64::from(lasting && sync.as_ref().is_some_and(|sync| sync.redundant));
                match sync {
                    Some(sync) if done && lasting => self.files.synced(&sync),
                    None if done && everything => self.files.synced_all(),
                    _ => {}
                }
            }
            _ if !done => {}
            Doing::Open { path, new, writes_sync } => {
                self.dsync_files += u64::from(writes_sync);
                self.files.opened(&path, new, writes_sync);
            }
            Doing::Map(link) => self.files.mapped(&link),
            Doing::Name(act, path) => {
                self.files.named(act, &path, None);
            }
            Doing::Rename { from, to, early } => self.files.renamed(&from, &to, early),
        }
    }

    fn report(mut self, end: End, elapsed_ns: u64, killed: usize) -> Report {
        self.inside.sort_unstable();
        // Both ways: into the stop and out of it.
        let round_ns = self.inside.get(self.inside.len() / 2).copied().unwrap_or(0);
        let own_ns = (self.spent_ns + self.delays * round_ns / 2).min(elapsed_ns);
        let mut syncs: Vec<Syncs> = self.rows.into_values().collect();
        for row in &mut syncs {
            row.time_ns = row.time_ns.saturating_sub(row.count * round_ns);
        }
        syncs.sort_by_key(|row| std::cmp::Reverse(row.time_ns));
        for run in &mut self.runs {
            run.time_ns = run.time_ns.saturating_sub(round_ns);
        }
        let mut not_seen = Vec::new();
        if self.rings > 0 {
            not_seen.push(format!("{} io_uring rings: their syncs are not seen; try --no-uring", self.rings));
        }
        if self.dsync_files > 0 && !self.options.writes {
            let files = self.dsync_files;
            not_seen.push(format!(
                "{files} files opened with O_DSYNC: each write is a sync; --writes counts them"
            ));
        }
        let mut foreign: Vec<String> = self.foreign.into_iter().collect();
        foreign.sort();
        not_seen.extend(
            foreign.into_iter().map(|path| format!("{path}: a 32-bit program, its calls are not seen")),
        );
        if killed > 0 {
            not_seen
                .push(format!("{killed} processes still ran 2 s after the program ended, and were ended"));
        }
        let wall_ns = elapsed_ns - own_ns;
        Report {
            end,
            wall_ns,
            own_ns,
            stops: self.stops,
            syncs,
            runs: self.runs,
            threads: self.threads.len(),
            union_ns: self.union_ns.saturating_sub(self.stretches * round_ns).min(wall_ns),
            missing: self.files.missing(),
            not_seen,
        }
    }
}

/// Processes that this thread follows.
fn followed() -> Vec<Thread> {
    let own = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let own = format!("TracerPid:\t{}", own.file_name().unwrap_or_default().to_string_lossy());
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<Thread>().ok());
    let ours = |process: &Thread| {
        let status = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status"));
        status.is_ok_and(|status| status.lines().any(|line| line == own) && !status.contains("State:\tZ"))
    };
    numbers.filter(ours).collect()
}
