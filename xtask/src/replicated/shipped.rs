//! Injects faults while a log is shipped to a real `JetStream` of three nodes, and looks for records that are missing, doubled or
//! reordered.
//!
//! ```text
//! seawall log append ──► log ──► seawall log ship ──► three nats-server, sync_interval: always
//!        ▲ killed                    ▲ killed              ▲ killed (the leader too), stopped for a while, disk lost
//!
//! take-over:  seawall log rebuild into a new folder; from then on the old `ship` must end as replaced, also when it is started again
//! end:        drill, and a copy: every record that was acknowledged here is there, once, in order
//! ```
//!
//! Each record is the next number, so that a look at them says what is wrong. Invariant: every process that is started is ended.

use super::{Bench, NATS, engines, free_ports};
use crate::error::{Error, Result};
use crate::files;
use crate::runner;
use crate::shell::{output, target};
use crate::tools;
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

const USAGE: &str = "--faults N, --seed N, --program SEAWALL (default: built anew), --server NATS-SERVER";

/// `cargo xtask shipped [--faults N] [--seed N] [--program SEAWALL] [--server NATS-SERVER]`.
pub(crate) fn run(arguments: &[String]) -> Result {
    let (mut faults, mut seed, mut seawall, mut program) = (50_u64, 1_u64, None, None);
    for pair in arguments.chunks(2) {
        let [option, value] = pair else { return Err(Error::usage(USAGE)) };
        let number = || value.parse().map_err(|_| Error::usage(USAGE));
        match option.as_str() {
            "--faults" => faults = number()?,
            "--seed" => seed = number()?,
            "--program" => seawall = Some(PathBuf::from(value)),
            "--server" => program = Some(PathBuf::from(value)),
            _ => return Err(Error::usage(USAGE)),
        }
    }
    let seawall = if let Some(seawall) = seawall {
        seawall
    } else {
        tools::provide(&tools::REPLICATED)?;
        runner::programs(&["--bin", "seawall"])?;
        target().join("debug/seawall")
    };
    let folder = target().join("shipped");
    files::make_folder(&folder)?;
    let bench = Bench { engine: &NATS, folder: target().join("clusters") };
    let program = if let Some(program) = program.or_else(|| server(&bench.folder)) {
        program
    } else {
        bench.up("always")?;
        bench.down()?;
        server(&bench.folder).ok_or_else(|| Error::check("the NATS server is not where it was put"))?
    };
    let mut campaign = Campaign::begin(&folder, (seawall, program), seed)?;
    let outcome = campaign.run(faults);
    campaign.end();
    outcome
}

fn server(folder: &Path) -> Option<PathBuf> {
    let programs = files::list(&engines(folder)).ok()?;
    programs.into_iter().find(|path| {
        path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with("nats-server") && !name.ends_with(".sha256")
        })
    })
}

/// One server.
struct Node {
    home: PathBuf,
    process: Option<Child>,
}

struct Campaign {
    folder: PathBuf,
    seawall: PathBuf,
    program: PathBuf,
    nodes: Vec<Node>,
    url: String,
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
    fn begin(folder: &Path, (seawall, program): (PathBuf, PathBuf), seed: u64) -> Result<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).map_err(Error::at(folder.display()))?;
        }
        files::make_folder(folder)?;
        let ports = free_ports::<9>()?;
        let at = |node: usize, offset: usize| ports[node * 3 + offset];
        let routes: Vec<String> = (0..3).map(|node| format!("nats://127.0.0.1:{}", at(node, 1))).collect();
        let mut nodes = Vec::new();
        for node in 0..3 {
            let home = folder.join(format!("node-{node}"));
            files::make_folder(&home)?;
            let text = format!(
                "server_name: n{node}\nlisten: 127.0.0.1:{}\nhttp: 127.0.0.1:{}\njetstream {{ store_dir: store, sync_interval: always }}\n\
                 cluster {{ name: shipped, listen: 127.0.0.1:{}, routes: [{}] }}\n",
                at(node, 0),
                at(node, 2),
                at(node, 1),
                routes.join(", ")
            );
            files::write(&home.join("nats.conf"), text)?;
            nodes.push(Node { home, process: None });
        }
        let servers: Vec<String> = (0..3).map(|node| format!("127.0.0.1:{}", at(node, 0))).collect();
        Ok(Self {
            log: folder.join("log-0"),
            folder: folder.to_owned(),
            seawall,
            program,
            nodes,
            url: format!("nats://{}/faults", servers.join(",")),
            random: seed,
            appender: None,
            shipper: None,
            next: 0,
            taken: 0,
            counts: [0; FAULTS.len()],
            replaced: 0,
        })
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

    fn start_node(&mut self, node: usize) -> Result {
        let home = self.nodes[node].home.clone();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(home.join("log"));
        let log = log.map_err(Error::at(home.display()))?;
        let mut command = Command::new(&self.program);
        command.args(["-c", "nats.conf"]).current_dir(&home).stdin(Stdio::null());
        let copy = log.try_clone().map_err(Error::at(home.display()))?;
        command.stdout(copy).stderr(log);
        self.nodes[node].process = Some(command.spawn().map_err(Error::at("nats-server"))?);
        Ok(())
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
            let url = self.url.clone();
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

    fn run(&mut self, faults: u64) -> Result {
        for node in 0..3 {
            self.start_node(node)?;
        }
        self.append(20)?;
        self.caught_up()?;
        let weights: u64 = FAULTS.iter().map(|(_, weight)| weight).sum();
        for number in 0..faults {
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
                let pid = self.nodes[node].process.as_ref().map_or(0, Child::id).to_string();
                output(crate::shell::command("kill", &["-STOP", &pid]))?;
                let steps = self.draw(60);
                let appended = self.append(steps);
                output(crate::shell::command("kill", &["-CONT", &pid]))?;
                appended?;
            }
            "node killed" => {
                end(&mut self.nodes[node].process);
                let steps = self.draw(60);
                self.append(steps)?;
                self.start_node(node)?;
            }
            "node lost its disk" => {
                // Of one node at a time: the others must have caught up before.
                self.caught_up()?;
                end(&mut self.nodes[node].process);
                let store = self.nodes[node].home.join("store");
                std::fs::remove_dir_all(&store).map_err(Error::at(store.display()))?;
                self.start_node(node)?;
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
        let (name, url) = (to.display().to_string(), self.url.clone());
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
        let (log, url) = (self.log.display().to_string(), self.url.clone());
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

    fn judge(&mut self) -> Result {
        end(&mut self.appender);
        self.caught_up()?;
        let (log, copy, url) = (self.log.display().to_string(), self.folder.join("copy"), self.url.clone());
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
        println!(
            "{} records: none missing, doubled or reordered; {} old writers refused",
            there.len(),
            self.replaced
        );
        Ok(())
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

    fn end(&mut self) {
        end(&mut self.appender);
        end(&mut self.shipper);
        for node in &mut self.nodes {
            end(&mut node.process);
        }
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
