//! `seawall watch`: samples commit latency gently and without end, and exports it as metrics.
//!
//! ```text
//!   Schedule (pure) ── look ──► counters of the device      metrics ──► HTTP, one thread for all
//!        │                                                     ▲   └──► FILE, renamed into place
//!        └──────────── burst ─► journal of its own ────────────┘
//! ```
//!
//! Invariants: what it costs a day is printed before anything is written; after an error the journal is made again, and the
//! error is counted and printed once, not the end; a signal ends it within a commit, and leaves no file after.

mod metrics;

use crate::exit::{CANNOT_TELL, Failure};
use crate::output::{self, ReplacedFile};
use crate::server::{self, Page};
use crate::signals::{self, STOP};
use crate::{amounts, hints, leftovers, paths};
use clap::Args;
use metrics::Metrics;
use seawall::PROBE_TIME_MAX;
use seawall_gauge::figures::{bytes, count, duration_ns, round_duration};
use seawall_gauge::judgement;
use seawall_gauge::method_names::choose_methods;
use seawall_gauge::preflight::check_place;
use seawall_gauge::rank::EffectiveClass;
use seawall_gauge::report::facts::stamp_of;
use seawall_gauge::testbed::BlockError;
use seawall_gauge::testbed::real::RealTestbed;
use seawall_gauge::watch::schedule::{Decision, Policy, Schedule};
use seawall_gauge::watch::{self, COMMIT_BYTES, JOURNAL};
use seawall_host::text::printable;
use seawall_sys::clock::{monotonic_ns, nanoseconds, unix_seconds};
use seawall_sys::counters::{Reader, Verdict};
use seawall_sys::durability::{DeviceCache, Durability, classify};
use seawall_sys::inspect::{self, Environment};
use seawall_sys::method::Method;
use seawall_sys::methods;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Folder whose disk is watched; a file of 4 MiB is created there, overwritten in a circle, and removed at the end
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Time between bursts of commits, 1s to 1h; longer after a burst that took more than a thousandth of it
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = amounts::time, help_heading = "How much")]
    every: Duration,

    /// Most commits of 4 KiB in a burst
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "How much")]
    commits: u32,

    /// Postpone a burst while others keep the device busy for more than this percentage of a second; 100: never
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=100), help_heading = "How much")]
    busy: u32,

    /// End after this time [default: at a signal]
    #[arg(long, value_name = "TIME", value_parser = amounts::time, help_heading = "How much")]
    time: Option<Duration>,

    /// Commit method, by its id (see `seawall methods`)
    /// [default: the fastest that outlives a power cut, by a probe of at most a second]
    #[arg(long, value_name = "ID", value_parser = hints::methods(), hide_possible_values = true, help_heading = "What")]
    method: Option<String>,

    /// A commit that takes longer counts as a stall
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = amounts::time, help_heading = "What")]
    stall: Duration,

    /// Serve /metrics over HTTP at this address and port; port 0 takes a free one and prints it
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Output")]
    listen: Option<SocketAddr>,

    /// Write the metrics to this file after every burst, replaced atomically: as `OpenMetrics`, or, if its name ends in .prom,
    /// in the older format of `node_exporter`'s textfile collector
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    openmetrics: Option<PathBuf>,

    /// Watch a file system that loses everything: in memory, or with syncs turned off
    #[arg(long, help_heading = "Safety")]
    allow_memory: bool,
}

/// How old what is known of the device may be, nanoseconds: a remount or another write cache changes what commits outlive.
const KNOWN_FOR_NS: u64 = 60_000_000_000;

pub(crate) fn run(options: &WatchArgs) -> Result<ExitCode, Failure> {
    let policy = options.policy()?;
    let place = paths::folder(&options.dir, "name a folder on the disk to be watched")?;
    check_place(&place, options.allow_memory).map_err(Failure::message)?;
    let file = options.openmetrics.as_deref().map(ReplacedFile::find).transpose()?;
    let listener = options.listen.map(server::listen).transpose()?;
    let (sender, stopped) = mpsc::channel();
    signals::listen_and(move || {
        // There is nobody to tell any more once the loop has ended.
        let _ = sender.send(());
    })?;
    leftovers::sweep(&options.dir);
    let method = options.choose()?;
    let metrics = Metrics::new(method.id, options.every, options.stall, place.clone());
    let metrics = Arc::new(Mutex::new(metrics));
    let mut watching = Watching {
        options,
        policy,
        method,
        testbed: None,
        place: place.clone(),
        counters: Reader::open(&place),
        commits: 0,
        metrics: Arc::clone(&metrics),
        class: None,
        p50_ns: None,
        missing: None,
        wrong: None,
        known_at_ns: monotonic_ns(),
        trouble: None,
        unwritten: false,
        file,
    };
    watching.stand_on(place);
    tell!("{}", printable(&watching.announcement()));
    watching.prepare().map_err(Failure::Message)?;
    watching.write().map_or(Ok(()), Err)?;
    if let Some(listener) = listener {
        let address = listener.local_addr().map_err(Failure::message)?;
        let pages = move |path: &str, form| {
            (path == "/metrics").then(|| Page::metrics(form, lock(&metrics).text(form)))
        };
        server::serve(listener, pages)?;
        tell!("metrics at http://{address}/metrics");
    }
    watching.until_stopped(&stopped)?;
    watching.end()
}

impl WatchArgs {
    fn policy(&self) -> Result<Policy, Failure> {
        let hour = Duration::from_hours(1);
        if !(Duration::from_secs(1)..=hour).contains(&self.every) {
            return Err(Failure::Usage("--every must be from 1s to 1h".to_owned()));
        }
        if !(Duration::from_micros(10)..=hour).contains(&self.stall) {
            return Err(Failure::Usage("--stall must be from 10us to 1h".to_owned()));
        }
        if self.time.is_some_and(|time| time.is_zero()) {
            return Err(Failure::Usage("--time must be more than 0".to_owned()));
        }
        if output::is_standard(self.openmetrics.as_deref()) {
            return Err(Failure::Usage(
                "--openmetrics - would print the metrics after every burst: name a file, which is replaced"
                    .to_owned(),
            ));
        }
        Ok(Policy { every_ns: nanoseconds(self.every), commits: self.commits, busy_percent: self.busy })
    }

    /// The method that was named, or the one that a probe finds.
    fn choose(&self) -> Result<&'static Method, Failure> {
        if let Some(name) = &self.method {
            return match choose_methods(name).map_err(Failure::usage)?.as_slice() {
                [one] => Ok(one),
                _ => Err(Failure::Usage(format!("--method {name}: name one method"))),
            };
        }
        let probe = seawall::probe(&self.dir, PROBE_TIME_MAX);
        let found = probe.fastest.as_ref().and_then(|fastest| methods::find(fastest.method));
        found.ok_or_else(|| {
            let why = probe.problem.unwrap_or_else(|| "no method works here".to_owned());
            Failure::Message(format!("cannot watch {}: {why}", self.dir.display()))
        })
    }
}

fn lock(metrics: &Mutex<Metrics>) -> MutexGuard<'_, Metrics> {
    metrics.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Watching<'a> {
    options: &'a WatchArgs,
    policy: Policy,
    method: &'static Method,
    /// Holds the journal; none after an error.
    testbed: Option<RealTestbed>,
    place: Environment,
    counters: Option<Reader>,
    /// All so far.
    commits: u64,
    metrics: Arc<Mutex<Metrics>>,
    class: Option<EffectiveClass>,
    /// The median of the last burst, nanoseconds.
    p50_ns: Option<u64>,
    /// What the devices left out of commits, if they did so once.
    missing: Option<String>,
    /// Why the figures are not a disk's, by the rule of the finding.
    wrong: Option<&'static str>,
    /// When the place was last looked at.
    known_at_ns: u64,
    /// What the last burst ended with, if with an error.
    trouble: Option<String>,
    /// Whether the file could not be written the last time.
    unwritten: bool,
    file: Option<ReplacedFile>,
}

impl Watching<'_> {
    fn announcement(&self) -> String {
        let Self { policy, method, options, .. } = self;
        let outlives = self.class.map_or("nothing that is known", EffectiveClass::name);
        let commits = policy.commits_a_day();
        let busy = if self.counters.is_none() {
            "this system has no I/O counters of the device, so no burst is postponed".to_owned()
        } else {
            format!(
                "bursts are postponed while others keep the device busy for more than {} %",
                policy.busy_percent
            )
        };
        format!(
            "watches {} by {} (outlives: {outlives}): at most {} commits of {} every {}, {} commits and {} MiB a day, and 0.1 % of the disk's time unless commits stall; {busy}",
            options.dir.display(),
            method.id,
            policy.commits,
            bytes(COMMIT_BYTES as u64),
            round_duration(policy.every_ns),
            count(commits),
            count((commits * COMMIT_BYTES as u64).div_ceil(1 << 20)),
        )
    }

    /// Takes note of what commits outlive in this place, and says so if it changed.
    fn stand_on(&mut self, place: Environment) {
        let durability = classify(self.method, &place.surroundings(JOURNAL.state));
        let asks = self.method.reach().letter() == 'D';
        let missing = self.missing.clone().filter(|_| durability.class == Durability::PowerLoss);
        let wrong = judgement::distrust(&place, self.p50_ns.filter(|_| asks))
            .or_else(|| missing.map(|what| ("contradicted", what)));
        let class = EffectiveClass::of(durability.class, wrong.is_some());
        let before = self.class.replace(class);
        if before.is_some_and(|before| before != class) {
            let because = wrong.as_ref().map(|(_, why)| why.clone()).into_iter().chain(durability.because);
            let because = because.collect::<Vec<_>>().join("; ");
            let class = class.name();
            let what = format!("from now on a commit by {} outlives: {class}; {because}", self.method.id);
            tell!("{}", printable(&what));
        }
        self.wrong = wrong.map(|(rule, _)| rule);
        lock(&self.metrics).stands_on(class, self.wrong, &place);
        self.place = place;
    }

    fn prepare(&mut self) -> Result<(), String> {
        let place = inspect::tried_environment(&self.options.dir).map_err(|error| error.to_string())?;
        let mut testbed = RealTestbed::in_folder(&self.options.dir, place.clone());
        let watched = watch::prepare(&mut testbed, self.method).map_err(|error| in_words(&error))?;
        self.testbed = Some(testbed);
        let volatile = place.device_cache() != DeviceCache::WriteThrough;
        if let Some(Verdict::Missing(what)) = watched.map(|watched| watched.verdict(volatile)) {
            self.missing = Some(what);
        }
        self.stand_on(place);
        Ok(())
    }

    fn until_stopped(&mut self, stopped: &Receiver<()>) -> Result<(), Failure> {
        let began_ns = monotonic_ns();
        let end_ns = self.options.time.map_or(u64::MAX, |time| began_ns.saturating_add(nanoseconds(time)));
        let mut schedule = Schedule::new(self.policy, began_ns);
        loop {
            if !waited(stopped, schedule.look_at_ns(), end_ns) {
                return Ok(());
            }
            let (looked_ns, before) = (monotonic_ns(), self.busy_ms());
            if !waited(stopped, looked_ns + self.policy.look_ns(), end_ns) {
                return Ok(());
            }
            let now_ns = monotonic_ns();
            let busy_ms = before.zip(self.busy_ms()).map(|(before, after)| after.saturating_sub(before));
            let decision = schedule.looked(now_ns, busy_ms, now_ns - looked_ns);
            match decision {
                Decision::PutOff => lock(&self.metrics).put_off += 1,
                Decision::BurstUnread => lock(&self.metrics).unread += 1,
                Decision::Burst => {}
            }
            if decision == Decision::PutOff {
                self.line("postponed: others keep the device busy")?;
            } else {
                self.burst(&mut schedule)?;
            }
            self.export();
        }
    }

    fn busy_ms(&self) -> Option<u64> {
        self.counters.as_ref()?.busy_ms().ok()
    }

    fn burst(&mut self, schedule: &mut Schedule) -> Result<(), Failure> {
        if monotonic_ns() - self.known_at_ns >= KNOWN_FOR_NS
            && let Ok(place) = inspect::tried_environment(&self.options.dir)
        {
            // A device that was away has other counters.
            self.counters = Reader::open(&place);
            self.known_at_ns = monotonic_ns();
            self.stand_on(place);
        }
        let counts = |counters: &Option<Reader>| counters.as_ref()?.read().ok();
        let (began_ns, before) = (monotonic_ns(), counts(&self.counters));
        let ended = self.commit();
        let counted = before.zip(counts(&self.counters)).map(|(before, after)| after.since(&before));
        match ended {
            Ok(block) => {
                schedule.done(began_ns, block.elapsed_ns);
                let Some(sample) = block.samples.first().filter(|sample| sample.commits > 0) else {
                    return Ok(());
                };
                self.commits += sample.commits;
                self.p50_ns = Some(sample.latency.p50_ns());
                // Once is enough: what drops a flush now and then is not believed at other times.
                self.missing = self.missing.take().or_else(|| {
                    counted.and_then(|counted| {
                        watch::missing(&self.place, self.method, sample.commits, &counted)
                    })
                });
                // Before the burst is counted: it must not stand under a class that its own speed refutes.
                self.stand_on(self.place.clone());
                lock(&self.metrics).burst(&sample.latency, unix_seconds());
                if self.trouble.take().is_some() {
                    tell!("commits work again");
                }
                let times = [sample.latency.p50_ns(), sample.latency.max_ns()].map(duration_ns);
                self.line(&format!(
                    "{} commits by {}, p50 {}, max {}",
                    sample.commits, self.method.id, times[0], times[1]
                ))
            }
            Err(error) => {
                schedule.done(began_ns, monotonic_ns() - began_ns);
                // Nothing is certain about the journal any more.
                self.testbed = None;
                lock(&self.metrics).failed += 1;
                if self.trouble.as_ref() != Some(&error) {
                    tell!(
                        "{}",
                        printable(&format!("a burst failed and is retried with a new journal: {error}"))
                    );
                }
                self.trouble = Some(error);
                Ok(())
            }
        }
    }

    fn commit(&mut self) -> Result<seawall_gauge::testbed::Block, String> {
        if self.testbed.is_none() {
            self.prepare()?;
        }
        let Some(testbed) = &mut self.testbed else { return Err("there is no journal".to_owned()) };
        watch::burst(testbed, self.method, &self.policy, self.commits, &STOP)
            .map_err(|error| in_words(&error))
    }

    /// Prints what happened, where nothing else shows it.
    fn line(&self, what: &str) -> Result<(), Failure> {
        if self.options.listen.is_some() || self.file.is_some() {
            return Ok(());
        }
        output::print(&format!("{} {what}\n", stamp_of(unix_seconds())))
    }

    fn write(&self) -> Option<Failure> {
        let file = self.file.as_ref()?;
        let text = lock(&self.metrics).text(file.form());
        file.write(text.as_bytes()).err()
    }

    /// Writes the file, and says once if that fails.
    fn export(&mut self) {
        let failed = self.write();
        if let Some(failure) = failed.as_ref().filter(|_| !self.unwritten) {
            failure.print();
        }
        self.unwritten = failed.is_some();
    }

    /// Removes what was made; after a signal also the file of metrics, which would look as if somebody still watched.
    fn end(mut self) -> Result<ExitCode, Failure> {
        self.testbed = None;
        if let Some(file) = self.file.filter(|_| STOP.load(Ordering::SeqCst)) {
            file.remove()?;
        }
        Ok(if self.wrong.is_some() { ExitCode::from(CANNOT_TELL) } else { ExitCode::SUCCESS })
    }
}

fn in_words(error: &BlockError) -> String {
    match error {
        BlockError::Row(error) | BlockError::Run(error) => error.to_string(),
    }
}

/// Waits until `deadline_ns`; whether to continue then: no signal came, and the clock has not reached `end_ns`.
fn waited(stopped: &Receiver<()>, deadline_ns: u64, end_ns: u64) -> bool {
    let left_ns = deadline_ns.min(end_ns).saturating_sub(monotonic_ns());
    let heard = stopped.recv_timeout(Duration::from_nanos(left_ns));
    heard == Err(RecvTimeoutError::Timeout) && monotonic_ns() < end_ns
}
