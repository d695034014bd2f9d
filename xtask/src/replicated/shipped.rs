//! Injects faults while a log is shipped to a real `JetStream` or Kafka of three nodes or to an S3-compatible store, and looks for
//! records that are missing, doubled or reordered.
//!
//! ```text
//! seawall log append ──► log ──► seawall log ship ──► three nodes that sync before they acknowledge ([`super::cluster`], [`super::network`])
//!                                                  or a store behind a proxy ([`bucket`], [`proxy`])
//!                                                          │
//!                                seawall log standby ◄─────┘
//!
//! take-over:  by a rebuild into a new folder, or by one of two standbys at once; from then on the old `ship` must end as replaced,
//!             also one that slept meanwhile, also when it is started again ([`faults`])
//! end:        drill, a copy, the standby: every record that was acknowledged here is there, once, in order
//! ```
//!
//! Each record is the next number, so that a look at them says what is wrong. Invariant: every process that is started is ended.

mod bucket;
mod faults;
mod proxy;

use super::cluster::{Cluster, ENGINES, engine};
use super::network::Network;
use crate::error::{Error, Result};
use crate::files;
use crate::runner;
use crate::shell::{Running, cargo, output, status, target};
use crate::tools::{self, For};
use bucket::Bucket;
use clap::Args;
use faults::FAULTS;
use seawall_sys::clock::monotonic_ns;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The engine that is no cluster.
const S3: &str = "s3";

#[derive(Args)]
pub(crate) struct Options {
    /// What the log is shipped to: nodes of it, or the S3-compatible store
    #[arg(long, default_value = "nats", value_parser = ["nats", "kafka", S3])]
    engine: String,
    /// It ends after this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    faults: u64,
    /// It ends after this many, however many faults there were
    #[arg(long, value_name = "N", conflicts_with = "faults", value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// Of the faults
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The file that the counts are added to
    #[arg(skip)]
    tally: Option<PathBuf>,
}

/// `cargo xtask shipped`; in a line what it came to.
pub(crate) fn run(options: &Options) -> Result<String> {
    let name = options.engine.as_str();
    let seawall = build(name)?;
    let folder = target().join("shipped").join(name);
    files::empty_folder(&folder)?;
    let cluster = if name == S3 {
        None
    } else {
        let network = if Network::lacking().is_none() { Some(Network::new()?) } else { None };
        Some(Cluster::new(engine(name)?, "always", &folder, network)?)
    };
    if let Some(lacking) = Network::lacking().filter(|_| cluster.is_some()) {
        println!("SKIPPED: no network is cut: {lacking}");
    }
    let bucket = Bucket::start(bucket::program()?, &folder)?;
    let mut campaign = Campaign::begin(&folder, seawall, cluster, bucket, options.seed);
    let line = campaign.run(options)?;
    if let Some(tally) = &options.tally {
        let after = campaign.add_to(counts(tally)?, name, options.seed);
        files::write(tally, serde_json::to_vec_pretty(&after).map_err(Error::at(tally.display()))?)?;
    }
    Ok(format!("{name}: {line}"))
}

/// Provides what an engine needs, and builds `seawall`.
fn build(engine: &str) -> Result<PathBuf> {
    tools::provide(For::Replicated)?;
    bucket::program()?;
    if engine == "kafka" {
        tools::provide(For::Kafka)?;
        status(cargo(&["build", "--quiet", "--package=seawall-cli", "--features=kafka,s3"]))?;
    } else {
        runner::programs(&["--bin", "seawall"])?;
    }
    Ok(target().join("debug/seawall"))
}

/// What the next turn of the soak needs.
pub(crate) fn prepare(tally: &Path) -> Result {
    super::possible()?;
    build(fewest_runs(&counts(tally)?)).map(drop)
}

/// A turn of the soak, on the engine that has had the fewest of the runs in `tally`; what it came to.
pub(crate) fn soak(minutes: u64, seed: u64, tally: &Path) -> Result<String> {
    let engine = fewest_runs(&counts(tally)?).to_owned();
    run(&Options { engine, faults: 0, minutes: Some(minutes), seed, tally: Some(tally.to_owned()) })
}

/// What the step of `cargo xtask test` runs: a few faults on `JetStream`, of most kinds, the same each time.
pub(crate) fn few() -> Result {
    super::possible()?;
    run(&Options { engine: "nats".to_owned(), faults: 15, minutes: None, seed: 114, tally: None }).map(drop)
}

fn counts(tally: &Path) -> Result<Value> {
    if tally.exists() { files::read_json(tally) } else { Ok(json!({})) }
}

fn fewest_runs(counts: &Value) -> &'static str {
    let engines = ENGINES.iter().map(|engine| engine.name).chain([S3]);
    let runs = |engine: &&str| counts[*engine]["seeds"].as_array().map_or(0, Vec::len);
    engines.min_by_key(runs).unwrap_or(S3)
}

struct Campaign {
    folder: PathBuf,
    seawall: PathBuf,
    /// What the log is shipped to, or none where that is the bucket.
    cluster: Option<Cluster>,
    /// What it is shipped to, or an archive beside the cluster.
    bucket: Bucket,
    random: u64,
    log: PathBuf,
    appender: Option<Running>,
    shipper: Option<Running>,
    /// A copy that follows, and its process.
    copy: PathBuf,
    standby: Option<Running>,
    /// The next record.
    next: u64,
    /// Folders that were named so far.
    named: u64,
    /// Records that were found at the end.
    judged: u64,
    counts: [u64; FAULTS.len()],
    /// Old writers that were refused.
    replaced: u64,
    /// Copies that ended where the destination ended before.
    early: u64,
    /// Take-overs with something in their way.
    hindered: u64,
    /// Starts of `ship` at which the store was refused because of a stale list.
    unfit: u64,
    /// A library that moves the clock of a process, where one could be built.
    clock: Option<PathBuf>,
}

/// The source of a library that moves the wall clock by the seconds in `CLOCK_AHEAD`.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    int r = syscall(SYS_clock_gettime, id, t);
    char *ahead = getenv("CLOCK_AHEAD");
    if (!r && ahead && id == CLOCK_REALTIME) t->tv_sec += atoll(ahead);
    return r;
}
"#;

/// The library, if there is a compiler of C.
fn clock(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    std::fs::write(&source, CLOCK).ok()?;
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    built.ok().filter(std::process::ExitStatus::success).map(|_| library)
}

/// Within this a cluster shows everything again.
const SETTLED: Duration = Duration::from_secs(20);
const LINES: u64 = 20;

impl Campaign {
    fn begin(folder: &Path, seawall: PathBuf, cluster: Option<Cluster>, bucket: Bucket, seed: u64) -> Self {
        Self {
            log: folder.join("log-0"),
            copy: folder.join("standby-0"),
            folder: folder.to_owned(),
            seawall,
            cluster,
            bucket,
            random: seed,
            appender: None,
            shipper: None,
            standby: None,
            next: 0,
            named: 0,
            judged: 0,
            counts: [0; FAULTS.len()],
            replaced: 0,
            early: 0,
            hindered: 0,
            unfit: 0,
            clock: clock(folder),
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = next_random(self.random);
        (self.random >> 33) % below
    }

    fn address(&self) -> String {
        self.cluster.as_ref().map_or_else(
            || Bucket::address("faults"),
            |cluster| format!("{}://{}/faults", cluster.engine.name, cluster.addresses()),
        )
    }

    /// A folder that is not there yet.
    fn new_folder(&mut self, kind: &str) -> PathBuf {
        self.named += 1;
        self.folder.join(format!("{kind}-{}", self.named))
    }

    fn seawall(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.seawall);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.envs(self.bucket.environment());
        command
    }

    fn ship(&self, log: &Path, to: &str, more: &[&str]) -> Command {
        let log = log.display().to_string();
        // An object often, so that there are many.
        let words = [&["log", "ship", &log, "--to", to, "--gather", "100ms"][..], more].concat();
        self.seawall(&words)
    }

    /// Runs it to its end; whether it succeeded, and what it said.
    fn ran(mut command: Command) -> Result<(bool, String)> {
        let ran = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let ran = ran.map_err(Error::at("seawall"))?;
        let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        Ok((ran.status.success(), said.into_owned()))
    }

    /// Runs again and again what an engine that settles may refuse for a while.
    fn at_last(&self, what: &str, command: impl Fn(&Self) -> Command) -> Result<String> {
        let mut said = String::new();
        for _ in 0..60 {
            let (done, text) = Self::ran(command(self))?;
            if done {
                return Ok(text);
            }
            said = text;
            std::thread::sleep(Duration::from_secs(1));
        }
        fail!("{what}: {said}")
    }

    /// Starts an appender if none runs; it is told the records after those that the log holds.
    fn keep_appending(&mut self) -> Result {
        if running(&mut self.appender) {
            return Ok(());
        }
        let log = self.log.display().to_string();
        self.next = self.records(&self.log)?.len() as u64;
        let mut command = self.seawall(&["log", "append", &log, "--quiet", "--segment-bytes", "1m"]);
        self.appender = Some(Running::start(command.stdin(Stdio::piped()))?);
        Ok(())
    }

    /// Starts a shipper if none runs.
    fn keep_shipping(&mut self) -> Result {
        // Its first segment is not the first that was begun, if the appender was killed before it had written anything.
        let segments = files::list(&self.log).unwrap_or_default().into_iter();
        let mut segments = segments.filter(|path| path.extension().is_some_and(|name| name == "seg"));
        if running(&mut self.shipper) || segments.next().is_none() {
            return Ok(());
        }
        let errors =
            std::fs::File::create(self.folder.join("shipper.log")).map_err(Error::at("shipper.log"))?;
        let mut command = self.ship(&self.log, &self.address(), &[]);
        self.shipper = Some(Running::start(command.stderr(errors))?);
        Ok(())
    }

    fn shipper_said(&self) -> String {
        std::fs::read_to_string(self.folder.join("shipper.log")).unwrap_or_default()
    }

    /// Starts a standby if none runs; one may end only because its destination is away.
    fn keep_following(&mut self) -> Result {
        let log = self.folder.join("standby.log");
        if running(&mut self.standby) {
            return Ok(());
        }
        if self.standby.take().is_some() {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            ensure!(!said.contains("damaged") && !names_another(&said), "a standby ended: {said}");
        }
        let errors = std::fs::File::create(&log).map_err(Error::at("standby.log"))?;
        let mut command = self.follow(&self.copy, &[]);
        self.standby = Some(Running::start(command.stderr(errors))?);
        Ok(())
    }

    fn follow(&self, copy: &Path, more: &[&str]) -> Command {
        let (copy, from) = (copy.display().to_string(), self.address());
        self.seawall(&[&["log", "standby", &copy, "--from", &from][..], more].concat())
    }

    /// Starts what does not run; the log's own writer is never refused.
    fn keep_running(&mut self) -> Result {
        self.keep_appending()?;
        if self.shipper.is_some() && !running(&mut self.shipper) {
            let said = self.shipper_said();
            self.unfit += u64::from(said.contains("no store for an archive"));
            ensure!(!names_another(&said), "the log's own writer was refused: {said}");
            self.shipper = None;
        }
        self.keep_shipping()?;
        self.keep_following()
    }

    /// Hands a few records to the appender.
    fn write(&mut self) {
        let mut lines = String::new();
        for _ in 0..LINES {
            let _ = writeln!(lines, "{}", self.next);
            self.next += 1;
        }
        let stdin = self.appender.as_mut().and_then(|appender| appender.0.stdin.as_mut());
        // One that was killed is started again, and knows what it has.
        if stdin.is_none_or(|stdin| stdin.write_all(lines.as_bytes()).is_err()) {
            self.appender = None;
        }
    }

    fn append(&mut self, steps: u64) -> Result {
        for _ in 0..steps {
            self.keep_running()?;
            self.write();
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn run(&mut self, options: &Options) -> Result<String> {
        let begun_ns = monotonic_ns();
        if let Some(cluster) = &mut self.cluster {
            for node in 0..3 {
                cluster.start(node)?;
            }
        }
        self.keep_appending()?;
        self.write();
        self.caught_up()?;
        self.append(20)?;
        let able: Vec<usize> = (0..FAULTS.len()).filter(|kind| (FAULTS[*kind].possible)(self)).collect();
        let weights: u64 = able.iter().map(|kind| FAULTS[*kind].weight).sum();
        let goes_on = |done: u64| match options.minutes {
            None => done < options.faults,
            Some(minutes) => Duration::from_nanos(monotonic_ns() - begun_ns) < Duration::from_mins(minutes),
        };
        for number in (0..).take_while(|number| goes_on(*number)) {
            let steps = self.draw(15) + 1;
            self.append(steps)?;
            let mut drawn = self.draw(weights);
            let kind = able.iter().copied().find(|kind| {
                let weight = FAULTS[*kind].weight;
                let here = drawn < weight;
                drawn = drawn.saturating_sub(weight);
                here
            });
            let kind = kind.unwrap_or_default();
            let (name, inject) = (FAULTS[kind].name, FAULTS[kind].inject);
            inject(self).map_err(Error::at(format!("fault {}, {name}", number + 1)))?;
            self.counts[kind] += 1;
            if number % 25 == 24 {
                self.caught_up()?;
                let (replaced, seconds) = (self.replaced, (monotonic_ns() - begun_ns) / 1_000_000_000);
                println!(
                    "{} faults in {seconds} s, {} records handed over, {replaced} old writers refused",
                    number + 1,
                    self.next
                );
            }
        }
        self.judge()
    }

    fn caught_up(&mut self) -> Result {
        self.shipper = None;
        self.at_last("the log is not shipped", |all| all.ship(&all.log, &all.address(), &["--once"]))
            .map(drop)
    }

    /// Looks at everything; says in a line what it came to.
    fn judge(&mut self) -> Result<String> {
        self.appender = None;
        self.caught_up()?;
        let (log, from) = (self.log.display().to_string(), self.address());
        print!("{}", self.printed(&["log", "drill", "--from", &from, "--log", &log])?);
        let records = self.records(&self.log)?;
        in_order(&records)?;
        self.copied(&records)?;
        // The standby has everything too, and becomes the log.
        self.take_over(|all| {
            all.standby = None;
            let copy = all.copy.display().to_string();
            all.at_last("no take-over", |all| {
                all.seawall(&["log", "takeover", &copy, "--from", &all.address(), "--fence"])
            })?;
            Ok(all.copy.clone())
        })?;
        let last = self.records(&self.log)?;
        same(&records, &last[..records.len().min(last.len())], "the standby")?;
        in_order(&last)?;
        for (fault, count) in FAULTS.iter().zip(self.counts).filter(|(_, count)| *count > 0) {
            println!("{count:>5} {}", fault.name);
        }
        let (faults, met) = (self.counts.iter().sum::<u64>(), self.bucket.proxy.met());
        println!("{} take-overs with something in their way", self.hindered);
        if self.cluster.is_none() {
            println!("{met} requests met a trouble, {} starts of ship refused a stale store", self.unfit);
        }
        let line = format!(
            "{faults} faults, {} records: none missing, doubled or reordered; {} old writers refused",
            last.len(),
            self.replaced
        );
        println!("{line}");
        self.judged = last.len() as u64;
        Ok(line)
    }

    /// A copy has every record. It ends where the destination shows its end, which may be an earlier one for as long as leaders change:
    /// one that is shorter is counted, and made again.
    fn copied(&mut self, records: &[String]) -> Result {
        let begun_ns = monotonic_ns();
        loop {
            let copy = self.new_folder("rebuilt");
            let name = copy.display().to_string();
            self.printed(&["log", "rebuild", &name, "--from", &self.address(), "--copy"])?;
            let there = self.records(&copy)?;
            let settled = Duration::from_nanos(monotonic_ns() - begun_ns) > SETTLED;
            if settled || self.cluster.is_none() || there.len() >= records.len() {
                return same(records, &there, "a copy");
            }
            same(&records[..there.len()], &there, "a copy that ends early")?;
            println!("a copy ended early, with {} of {} records", there.len(), records.len());
            self.early += 1;
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// The counts of earlier campaigns and this one.
    fn add_to(&self, mut counts: Value, engine: &str, seed: u64) -> Value {
        let more = |count: &mut Value, by: u64| *count = json!(count.as_u64().unwrap_or(0) + by);
        let of = &mut counts[engine];
        if let Some(seeds) = of["seeds"].as_array_mut() {
            seeds.push(json!(seed));
        } else {
            of["seeds"] = json!([seed]);
        }
        more(&mut of["records"], self.judged);
        more(&mut of["old writers refused"], self.replaced);
        more(&mut of["copies that ended early"], self.early);
        more(&mut of["take-overs with something in their way"], self.hindered);
        for (fault, count) in FAULTS.iter().zip(self.counts).filter(|(_, count)| *count > 0) {
            more(&mut of["faults"][fault.name], count);
            more(&mut of["faults in all"], count);
        }
        counts
    }

    fn printed(&self, words: &[&str]) -> Result<String> {
        let (done, said) = Self::ran(self.seawall(words))?;
        ensure!(done, "seawall {} failed: {said}", words.join(" "));
        Ok(said)
    }

    /// The records of a log, none if there is no log yet.
    fn records(&self, log: &Path) -> Result<Vec<String>> {
        if !log.join("LOCK").exists() {
            return Ok(Vec::new());
        }
        let mut command = self.seawall(&["log", "cat", &log.display().to_string()]);
        command.stdout(Stdio::piped());
        Ok(output(command)?.lines().map(str::to_owned).collect())
    }
}

fn in_order(records: &[String]) -> Result {
    for (at, record) in records.iter().enumerate() {
        ensure!(*record == at.to_string(), "record {at} is {record:?}");
    }
    Ok(())
}

fn same(here: &[String], there: &[String], what: &str) -> Result {
    let differs = here.iter().zip(there).position(|(a, b)| a != b);
    let [ours, theirs] = [here.len(), there.len()];
    ensure!(here == there, "{ours} records here, {theirs} in {what}, first difference {differs:?}");
    Ok(())
}

/// Whether `ship` said that another writer has the destination.
fn names_another(said: &str) -> bool {
    ["another directory", "taken over"].iter().any(|word| said.contains(word))
}

/// The number after another one, of which the upper half is as good as random.
const fn next_random(number: u64) -> u64 {
    number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

fn running(child: &mut Option<Running>) -> bool {
    child.as_mut().is_some_and(|child| matches!(child.0.try_wait(), Ok(None)))
}

#[cfg(test)]
mod tests {
    use super::{fewest_runs, in_order, same};
    use serde_json::json;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn what_is_missing_doubled_or_reordered_is_found() {
        assert!(in_order(&words(&["0", "1", "2"])).is_ok() && in_order(&[]).is_ok());
        for wrong in [&["1"][..], &["0", "2"], &["0", "0", "1"], &["0", "2", "1"]] {
            assert!(in_order(&words(wrong)).is_err(), "{wrong:?}");
        }
        assert!(same(&words(&["0"]), &words(&["0"]), "x").is_ok());
        assert!(same(&words(&["0", "1"]), &words(&["0"]), "x").is_err());
    }

    #[test]
    fn the_engines_take_turns() {
        assert_eq!(fewest_runs(&json!({})), "nats");
        assert_eq!(fewest_runs(&json!({ "nats": { "seeds": [1] } })), "kafka");
        assert_eq!(fewest_runs(&json!({ "nats": { "seeds": [1] }, "kafka": { "seeds": [2] } })), "s3");
    }
}
