//! Injects faults while a log is shipped to a real `JetStream` or Kafka of three nodes, and looks for records that are missing,
//! doubled or reordered.
//!
//! ```text
//! seawall log append ──► log ──► seawall log ship ──► three nodes that sync before they acknowledge ([`cluster`])
//!        ▲ killed                    ▲ killed              ▲ killed (the leader too), stopped for a while, disk lost
//!
//! take-over:  seawall log rebuild into a new folder; from then on the old `ship` must end as replaced, also when it is started again
//! end:        drill, and a copy: every record that was acknowledged here is there, once, in order
//! ```
//!
//! Each record is the next number, so that a look at them says what is wrong. Invariant: every process that is started is ended.

mod cluster;

use crate::error::{Error, Result};
use crate::files;
use crate::options::{above_zero, number, value};
use crate::runner;
use crate::shell::{cargo, output, status, target};
use crate::tools;
use cluster::{Cluster, KINDS, Kind};
use seawall_sys::clock::monotonic_ns;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A fault, and how often it is drawn.
const FAULTS: [(&str, u64); 6] = [
    ("shipper killed", 8),
    ("appender killed", 4),
    ("node stopped for a while", 4),
    ("node killed", 3),
    ("node lost its disk", 1),
    ("taken over by another folder", 2),
];

/// When it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Until {
    Faults(u64),
    Time(Duration),
}

/// What the command line asks for.
struct Request {
    kind: Kind,
    until: Until,
    seed: u64,
    program: Option<PathBuf>,
    server: Option<PathBuf>,
}

fn request(arguments: &[String]) -> Result<Request> {
    let mut asked =
        Request { kind: KINDS[0], until: Until::Faults(50), seed: 1, program: None, server: None };
    let mut words = arguments.iter();
    while let Some(option) = words.next() {
        match option.as_str() {
            "--engine" => {
                let name = value(option, &mut words)?;
                let kind = KINDS.into_iter().find(|kind| kind.name == name);
                asked.kind = kind.ok_or_else(|| Error::usage("--engine is nats or kafka"))?;
            }
            "--faults" => asked.until = Until::Faults(number(option, &mut words)?),
            "--minutes" => asked.until = Until::Time(Duration::from_mins(above_zero(option, &mut words)?)),
            "--seed" => asked.seed = number(option, &mut words)?,
            "--program" => asked.program = Some(value(option, &mut words)?.into()),
            "--server" => asked.server = Some(value(option, &mut words)?.into()),
            _ => {
                return Err(Error::usage(
                    "--engine nats|kafka, --faults N or --minutes N, --seed N, --program SEAWALL (default: built anew), \
                     --server NATS-SERVER or a folder of Kafka's archives",
                ));
            }
        }
    }
    Ok(asked)
}

/// `cargo xtask shipped [--engine nats|kafka] [--faults N | --minutes N] [--seed N] [--program SEAWALL] [--server PATH]`.
pub(crate) fn run(arguments: &[String]) -> Result {
    campaign(arguments).map(drop)
}

fn campaign(arguments: &[String]) -> Result<String> {
    let asked = request(arguments)?;
    let seawall = if let Some(seawall) = asked.program {
        seawall
    } else {
        tools::provide(&tools::REPLICATED)?;
        if asked.kind.name == "kafka" {
            tools::provide(&tools::KAFKA)?;
            tools::provide(&tools::LIBRDKAFKA)?;
            status(cargo(&["build", "--quiet", "--package=seawall-cli", "--features=kafka"]))?;
        } else {
            runner::programs(&["--bin", "seawall"])?;
        }
        target().join("debug/seawall")
    };
    let folder = target().join("shipped");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(Error::at(folder.display()))?;
    }
    files::make_folder(&folder)?;
    let cluster = Cluster::new(asked.kind, &folder, asked.server, &target().join("clusters"))?;
    let mut campaign = Campaign::begin(&folder, seawall, cluster, asked.seed);
    campaign.run(asked.until)
}

/// What a turn of the soak needs.
///
/// # Errors
/// It cannot be run here, or does not build.
pub(crate) fn prepare() -> Result {
    if let Some(what) = super::lacking() {
        return Err(Error::lacking(what));
    }
    tools::provide(&tools::REPLICATED)?;
    runner::programs(&["--bin", "seawall"]).map(drop)
}

/// A turn of the soak on `JetStream`; what it came to.
///
/// # Errors
/// What was found.
pub(crate) fn soak(minutes: u64, seed: u64) -> Result<String> {
    let words = ["--minutes", &minutes.to_string(), "--seed", &seed.to_string()];
    campaign(&words.map(str::to_owned))
}

struct Campaign {
    folder: PathBuf,
    seawall: PathBuf,
    cluster: Cluster,
    random: u64,
    log: PathBuf,
    appender: Option<Child>,
    shipper: Option<Child>,
    /// The next record.
    next: u64,
    taken: u64,
    counts: [u64; FAULTS.len()],
    replaced: u64,
}

impl Campaign {
    fn begin(folder: &Path, seawall: PathBuf, cluster: Cluster, seed: u64) -> Self {
        Self {
            log: folder.join("log-0"),
            folder: folder.to_owned(),
            seawall,
            cluster,
            random: seed,
            appender: None,
            shipper: None,
            next: 0,
            taken: 0,
            counts: [0; FAULTS.len()],
            replaced: 0,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn seawall(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.seawall);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Starts what does not run; an appender that ended is told the next records.
    fn keep_running(&mut self) -> Result {
        let log = self.log.display().to_string();
        if !running(&mut self.appender) {
            // What the log holds decides which number is next.
            self.next = self.records(&self.log)?.len() as u64;
            let mut command = self.seawall(&["log", "append", &log, "--quiet", "--segment-bytes", "1m"]);
            self.appender = Some(command.stdin(Stdio::piped()).spawn().map_err(Error::at("the appender"))?);
        }
        if !running(&mut self.shipper) && self.log.join("LOCK").exists() && self.has_segment() {
            let url = self.cluster.address.clone();
            let errors = std::fs::File::create(self.folder.join("shipper.log"));
            let mut command = self.seawall(&["log", "ship", &log, "--to", &url]);
            command.stderr(errors.map_err(Error::at("shipper.log"))?);
            self.shipper = Some(command.spawn().map_err(Error::at("the shipper"))?);
        }
        Ok(())
    }

    fn has_segment(&self) -> bool {
        self.log.join("00000000000000000001.seg").exists()
    }

    /// Appends for a while.
    fn append(&mut self, steps: u64) -> Result {
        for _ in 0..steps {
            self.keep_running()?;
            let mut lines = String::new();
            for _ in 0..20 {
                let _ = writeln!(lines, "{}", self.next);
                self.next += 1;
            }
            let stdin = self.appender.as_mut().and_then(|appender| appender.stdin.as_mut());
            // One that was killed is started again, and knows what it has.
            if stdin.is_none_or(|stdin| stdin.write_all(lines.as_bytes()).is_err()) {
                end(&mut self.appender);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn run(&mut self, until: Until) -> Result<String> {
        let begun_ns = monotonic_ns();
        for node in 0..3 {
            self.cluster.start(node)?;
        }
        self.append(20)?;
        self.caught_up()?;
        let weights: u64 = FAULTS.iter().map(|(_, weight)| weight).sum();
        let goes_on = |done: u64| match until {
            Until::Faults(faults) => done < faults,
            Until::Time(time) => Duration::from_nanos(monotonic_ns() - begun_ns) < time,
        };
        for number in (0..).take_while(|number| goes_on(*number)) {
            let steps = self.draw(30) + 1;
            self.append(steps)?;
            let mut drawn = self.draw(weights);
            let kind = FAULTS.iter().position(|(_, weight)| {
                let here = drawn < *weight;
                drawn = drawn.saturating_sub(*weight);
                here
            });
            let kind = kind.unwrap_or_default();
            self.counts[kind] += 1;
            self.inject(kind)?;
            if number % 25 == 24 {
                self.caught_up()?;
                println!(
                    "{} faults, {} records, {} refusals of old writers",
                    number + 1,
                    self.next,
                    self.replaced
                );
            }
        }
        self.caught_up()?;
        self.judge()
    }

    fn inject(&mut self, kind: usize) -> Result {
        let node = usize::try_from(self.draw(3)).unwrap_or_default();
        match FAULTS[kind].0 {
            "shipper killed" => end(&mut self.shipper),
            "appender killed" => end(&mut self.appender),
            "node stopped for a while" => {
                self.cluster.signal(node, "-STOP")?;
                let steps = self.draw(60);
                let appended = self.append(steps);
                self.cluster.signal(node, "-CONT")?;
                appended?;
            }
            "node killed" => {
                self.cluster.kill(node);
                let steps = self.draw(60);
                self.append(steps)?;
                self.cluster.start(node)?;
            }
            "node lost its disk" => {
                // Of one node at a time: the others must have caught up before.
                self.caught_up()?;
                self.cluster.kill(node);
                self.cluster.lose_disk(node)?;
                self.cluster.start(node)?;
                self.caught_up()?;
            }
            _ => self.take_over()?,
        }
        Ok(())
    }

    /// Another folder takes over while the old writer runs.
    fn take_over(&mut self) -> Result {
        self.taken += 1;
        let to = self.folder.join(format!("log-{}", self.taken));
        let (name, url) = (to.display().to_string(), self.cluster.address.clone());
        let mut outcome = String::new();
        for _ in 0..20 {
            self.append(1)?;
            let rebuilt =
                self.seawall(&["log", "rebuild", &name, "--from", &url]).stderr(Stdio::piped()).output();
            let rebuilt = rebuilt.map_err(Error::at("rebuild"))?;
            if rebuilt.status.success() {
                outcome.clear();
                break;
            }
            outcome = String::from_utf8_lossy(&rebuilt.stderr).into_owned();
            std::thread::sleep(Duration::from_millis(500));
        }
        if !outcome.is_empty() {
            return Err(Error::check(format!("no rebuild: {outcome}")));
        }
        // The old writer appends on, and its shipper is refused.
        self.append(3)?;
        let old = self.log.display().to_string();
        end(&mut self.shipper);
        let refused =
            self.seawall(&["log", "ship", &old, "--to", &url, "--once"]).stderr(Stdio::piped()).output();
        let refused = refused.map_err(Error::at("ship"))?;
        let text = String::from_utf8_lossy(&refused.stderr);
        if refused.status.success() || !(text.contains("another directory") || text.contains("taken over")) {
            return Err(Error::check(format!("an old writer was not refused: {text}")));
        }
        self.replaced += 1;
        end(&mut self.appender);
        // What the new one has is the beginning of what the old one has.
        let (before, after) = (self.records(&self.log)?, self.records(&to)?);
        if !before.starts_with(&after) {
            return Err(Error::check(format!("{name} is not the beginning of {old}")));
        }
        self.log = to;
        Ok(())
    }

    /// Everything that is durable is acknowledged.
    fn caught_up(&mut self) -> Result {
        end(&mut self.shipper);
        let (log, url) = (self.log.display().to_string(), self.cluster.address.clone());
        let mut text = String::new();
        for _ in 0..60 {
            let shipped =
                self.seawall(&["log", "ship", &log, "--to", &url, "--once"]).stderr(Stdio::piped()).output();
            let shipped = shipped.map_err(Error::at("ship"))?;
            if shipped.status.success() {
                return Ok(());
            }
            text = String::from_utf8_lossy(&shipped.stderr).into_owned();
            std::thread::sleep(Duration::from_secs(1));
        }
        Err(Error::check(format!("the log is not shipped: {text}")))
    }

    /// Looks at everything; says in a line what it came to.
    fn judge(&mut self) -> Result<String> {
        end(&mut self.appender);
        self.caught_up()?;
        let (log, copy, url) =
            (self.log.display().to_string(), self.folder.join("copy"), self.cluster.address.clone());
        let drilled = self.printed(&["log", "drill", "--from", &url, "--log", &log])?;
        print!("{drilled}");
        let name = copy.display().to_string();
        self.printed(&["log", "rebuild", &name, "--from", &url, "--copy"])?;
        let (here, there) = (self.records(&self.log)?, self.records(&copy)?);
        let in_order = there.iter().enumerate().all(|(at, record)| *record == at.to_string());
        if here != there || !in_order {
            let differs = here.iter().zip(&there).position(|(a, b)| a != b);
            return Err(Error::check(format!(
                "{} records here, {} there, first difference {differs:?}",
                here.len(),
                there.len()
            )));
        }
        for ((name, _), count) in FAULTS.iter().zip(self.counts) {
            println!("{count:>5} {name}");
        }
        let (faults, records, replaced) = (self.counts.iter().sum::<u64>(), there.len(), self.replaced);
        let line = format!(
            "{faults} faults, {records} records: none missing, doubled or reordered; {replaced} old writers refused"
        );
        println!("{line}");
        Ok(line)
    }

    fn printed(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.seawall);
        command.args(words);
        output(command)
    }

    /// The records of a log, none if there is no log yet.
    fn records(&self, log: &Path) -> Result<Vec<String>> {
        if !log.join("LOCK").exists() {
            return Ok(Vec::new());
        }
        let printed = self.printed(&["log", "cat", &log.display().to_string()])?;
        Ok(printed.lines().map(str::to_owned).collect())
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        end(&mut self.appender);
        end(&mut self.shipper);
    }
}

fn running(child: &mut Option<Child>) -> bool {
    child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
}

/// Ends a process at once.
fn end(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::{Until, request};
    use crate::options::{refuses, words};
    use std::time::Duration;

    #[test]
    fn what_is_asked_for_is_understood_or_refused() {
        let asked = request(&[]).expect("is understood");
        assert_eq!((asked.kind.name, asked.until, asked.seed), ("nats", Until::Faults(50), 1));
        let asked = request(&words(&["--engine", "kafka", "--minutes", "3", "--seed", "7"]));
        let asked = asked.expect("is understood");
        assert_eq!((asked.kind.name, asked.until), ("kafka", Until::Time(Duration::from_mins(3))));
        for (wrong, named) in [
            (&["--engine", "x"][..], "--engine"),
            (&["--minutes", "0"], "--minutes"),
            (&["--faults"], "--faults"),
            (&["--hours", "1"], "--minutes"),
        ] {
            assert!(request(&words(wrong)).is_err_and(|error| refuses(&error, named)), "{wrong:?}");
        }
    }
}
