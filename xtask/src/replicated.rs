//! Is the sync policy that `bench replicated` tells the one that an engine's nodes keep? Counted on real clusters.
//!
//! ```text
//!   for each sync setting:  up · strace on every node · bench with one record in flight · counts · down
//!   always / flush-1        at least one fsync for each acknowledged record, on as many nodes as an acknowledgement counts
//!   default                 fewer than one for ten records, on every node
//! ```
//!
//! Also: a cluster that is away or too small is refused; a run that is interrupted removes its stream; `down`, and Ctrl-C
//! of `up --foreground`, leave nothing running.
//!
//! Invariant: every process that is started is ended, whatever fails: clusters by `down`, tracers with their nodes.

use crate::shell::{cargo, command, has, output, status, target};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Nodes of a cluster, and how many an acknowledgement counts.
const NODES: usize = 3;
const MAJORITY: usize = 2;
/// Generous: whoever measures in quiet may pause us for minutes.
const ACK_TIMEOUT: &str = "10m";

/// An engine under test.
struct Engine {
    name: &'static str,
    /// Ends of the ids of engines that sync first, and of those that sync later, in the clusters started here.
    clusters: &'static [(&'static str, &'static [(&'static str, bool)])],
    needs: &'static [&'static str],
}

const NATS: Engine = Engine {
    name: "nats",
    clusters: &[("always", &[("nats/always", true)]), ("default", &[("nats/2m", false)])],
    needs: &["strace"],
};

/// One cluster: the topic's own setting decides.
const KAFKA: Engine = Engine {
    name: "kafka",
    clusters: &[("default", &[("kafka/flush-1", true), ("kafka/default", false)])],
    needs: &["strace", "java", "mvn"],
};

/// `cargo xtask replicated [--kafka]`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    match arguments {
        [] => nats(),
        [option] if option == "--kafka" => check(&KAFKA),
        _ => Err("the only option is --kafka: Kafka in place of NATS".to_owned()),
    }
}

/// What the step of `cargo xtask test` runs.
pub(crate) fn nats() -> Result<(), String> {
    check(&NATS)
}

/// Why the step cannot be run here, if it cannot.
pub(crate) fn lacking() -> Option<String> {
    let go = has("go") || Path::new("/usr/local/go/bin/go").exists();
    if !cfg!(target_os = "linux") {
        return Some("local clusters are kept track of on Linux only".to_owned());
    }
    if !go {
        return Some("Go 1.26 is missing, which builds the NATS server: put it into PATH".to_owned());
    }
    (!has("strace")).then(|| "strace is missing: `cargo xtask setup` installs it".to_owned())
}

fn check(engine: &Engine) -> Result<(), String> {
    if let Some(missing) = engine.needs.iter().find(|program| !has(program)) {
        return Err(format!("{missing} is missing"));
    }
    status(cargo(&["build", "--quiet", "--package=seawall-cli", "--features", engine.name]))?;
    let bench = Bench { engine, folder: target().join("clusters") };
    bench.down()?;
    let outcome = bench.all();
    // Whatever happened, nothing stays.
    let ended = bench.down();
    outcome.and(ended)
}

struct Bench<'a> {
    engine: &'a Engine,
    folder: PathBuf,
}

impl Bench<'_> {
    fn all(&self) -> Result<(), String> {
        self.away()?;
        for (sync, engines) in self.engine.clusters {
            let options = self.up(sync)?;
            for (id, first) in *engines {
                self.counted(sync, &options, id, *first)?;
            }
            if self.engine.name == "nats" {
                self.interrupted(&options)?;
                self.too_small(sync)?;
            }
            let nodes = self.nodes()?;
            self.down()?;
            if let Some(pid) = nodes.iter().find(|pid| runs(*pid)) {
                return Err(format!("process {pid} still runs after `down`"));
            }
            println!("{} {sync}: nothing runs after `down`", self.engine.name);
        }
        self.foreground()
    }

    fn seawall(words: &[&str]) -> Command {
        let program = target().join("debug/seawall").display().to_string();
        command(&program, words)
    }

    fn cluster(&self, words: &[&str]) -> Command {
        let folder = self.folder.display().to_string();
        let mut all = vec!["cluster"];
        all.extend(words);
        all.extend(["--dir", &folder]);
        Self::seawall(&all)
    }

    /// Starts a cluster; gives the options that name it to the bench.
    fn up(&self, sync: &str) -> Result<Vec<String>, String> {
        let told = output(self.cluster(&["up", self.engine.name, "--sync", sync]))?;
        let options = told.trim().strip_prefix("seawall bench replicated ").map(str::to_owned);
        let options = options.ok_or_else(|| format!("`cluster up` printed {told:?}"))?;
        println!("{} {sync}: {options}", self.engine.name);
        Ok(options.split(' ').map(str::to_owned).collect())
    }

    fn down(&self) -> Result<(), String> {
        output(self.cluster(&["down", self.engine.name])).map(|_| ())
    }

    /// The nodes' processes.
    fn nodes(&self) -> Result<Vec<u32>, String> {
        let told = output(self.cluster(&["status", self.engine.name]))?;
        let pid = |line: &str| line.split_once("process ")?.1.split_whitespace().next()?.parse().ok();
        let pids: Vec<u32> = told.lines().filter_map(pid).collect();
        if pids.len() == NODES { Ok(pids) } else { Err(format!("`cluster status` printed {told}")) }
    }

    fn bench(&self, options: &[String], more: &[&str]) -> Command {
        let mut words =
            vec!["bench", "replicated", "--no-out", "--no-progress", "--ack-timeout", ACK_TIMEOUT];
        words.extend(options.iter().map(String::as_str));
        words.extend(more);
        // One durable method is enough for the local rows.
        words.extend(["--methods", "buffered+fdatasync", "--rounds", "1"]);
        let mut command = Self::seawall(&words);
        command.current_dir(&self.folder);
        command
    }

    /// Lets the engine `id` acknowledge records one at a time, and counts what its nodes sync meanwhile.
    fn counted(&self, sync: &str, options: &[String], id: &str, first: bool) -> Result<(), String> {
        let result = self.folder.join("result.json");
        let name = result.display().to_string();
        let tracers =
            self.nodes()?.iter().map(|pid| Tracer::on(*pid, &self.folder)).collect::<Result<Vec<_>, _>>();
        let ran = output(self.bench(options, &["--writers", "1", "--time", "12s", "--json", &name]));
        let syncs = tracers?.into_iter().map(Tracer::end).collect::<Result<Vec<u64>, _>>()?;
        ran?;
        let text = std::fs::read_to_string(&result).map_err(|error| format!("{name}: {error}"))?;
        let json: Value = serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
        let commits = commits(&json, &format!("{id}/1"))
            .ok_or_else(|| format!("no row {id}/1 in the result of the cluster with sync {sync}"))?;
        println!("{id}: {commits} records acknowledged, fsyncs by node {syncs:?}");
        if commits < 20.0 {
            return Err(format!("{id}: only {commits} records, too few to say anything"));
        }
        let synced = syncs.iter().filter(|syncs| **syncs as f64 >= commits).count();
        if first && synced < MAJORITY {
            return Err(format!(
                "{id} says that it syncs first, and only {synced} nodes did for every record"
            ));
        }
        // A topic beside it that syncs first would be counted too: its row ran in the same bench.
        let alone = self.engine.clusters.iter().all(|(_, engines)| engines.len() == 1);
        if !first && alone && syncs.iter().any(|syncs| *syncs as f64 > commits / 10.0) {
            return Err(format!("{id} says that it syncs later, and nodes synced {syncs:?} times"));
        }
        if first && sync == "default" {
            println!("{id}: a topic's own setting, on a cluster that syncs by default");
        }
        Ok(())
    }

    /// A cluster that is away is an error with its address and a remedy.
    fn away(&self) -> Result<(), String> {
        let option = [format!("--{}", self.engine.name), "127.0.0.1:1".to_owned()];
        std::fs::create_dir_all(&self.folder).map_err(|error| error.to_string())?;
        refused(self.bench(&option, &["--time", "5s"]), &["127.0.0.1:1", "seawall cluster up"])
    }

    /// A server by itself is too small for three copies.
    fn too_small(&self, sync: &str) -> Result<(), String> {
        let program = std::fs::read_dir(self.folder.join("engines")).map_err(|error| error.to_string())?;
        let mut programs = program.flatten().map(|entry| entry.path());
        let program = programs.find(|path| path.display().to_string().contains("nats-server"));
        let program = program.ok_or("the NATS server is not where `cluster up` put it")?;
        let store = self.folder.join(format!("lone-{sync}"));
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.map_err(|error| error.to_string())?.port().to_string();
        let mut lone = Command::new(program);
        lone.args(["-a", "127.0.0.1", "-p", &port, "-js", "-sd"]).arg(&store);
        lone.stdout(Stdio::null()).stderr(Stdio::null());
        let mut lone = lone.spawn().map_err(|error| error.to_string())?;
        let outcome = (0..600)
            .find(|_| {
                std::thread::sleep(Duration::from_millis(100));
                TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()
            })
            .ok_or_else(|| "a lone server does not listen".to_owned())
            .and_then(|_| {
                let option = ["--nats".to_owned(), format!("127.0.0.1:{port}")];
                refused(self.bench(&option, &["--time", "5s"]), &["too small", "three servers"])
            });
        let ended = lone.kill().and_then(|()| lone.wait()).and_then(|_| std::fs::remove_dir_all(&store));
        outcome.and(ended.map_err(|error| error.to_string()))
    }

    /// A run that is interrupted removes its stream.
    fn interrupted(&self, options: &[String]) -> Result<(), String> {
        let monitors = options.last().ok_or("no monitoring ports")?;
        let streams = || -> Result<u64, String> {
            let told = get(monitors.split(',').next().unwrap_or_default(), "/jsz?streams=1")?;
            let json: Value = serde_json::from_str(&told).map_err(|error| error.to_string())?;
            json["streams"].as_u64().ok_or_else(|| "no number of streams".to_owned())
        };
        let mut run = self.bench(options, &["--time", "10m"]);
        let mut run =
            run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
        let seen = (0..1200).find(|_| {
            std::thread::sleep(Duration::from_millis(100));
            streams().is_ok_and(|streams| streams == 1)
        });
        output(command("kill", &["-INT", &run.id().to_string()]))?;
        let ended = run.wait().map_err(|error| error.to_string())?;
        seen.ok_or("no stream of an interrupted run was ever seen")?;
        let left = streams()?;
        println!("interrupted: ended with {ended}, {left} streams left");
        if ended.code() != Some(130) || left != 0 {
            return Err(format!("an interrupted run ended with {ended} and left {left} streams behind"));
        }
        Ok(())
    }

    /// Ctrl-C of `up --foreground` ends its nodes.
    fn foreground(&self) -> Result<(), String> {
        let mut up = self.cluster(&["up", self.engine.name, "--foreground"]);
        let mut up =
            up.stderr(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let mut line = [0; 1];
        // Its first byte on standard output comes when the cluster is up.
        let read = up.stdout.as_mut().map(|stdout| stdout.read(&mut line));
        let nodes = self.nodes();
        output(command("kill", &["-INT", &up.id().to_string()]))?;
        let ended = up.wait().map_err(|error| error.to_string())?;
        if !matches!(read, Some(Ok(1))) {
            return Err("`up --foreground` printed nothing".to_owned());
        }
        let left = nodes?.into_iter().filter(runs).count();
        println!("foreground: ended with {ended}, {left} nodes left");
        if ended.success() && left == 0 {
            Ok(())
        } else {
            Err(format!("`up --foreground` left {left} nodes"))
        }
    }
}

/// Whether a process runs; one that has ended and that nobody has asked after yet (a zombie) does not.
fn runs(pid: &impl std::fmt::Display) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

/// Runs what must be refused with exit code 1 and these words.
fn refused(mut command: Command, words: &[&str]) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(1) && words.iter().all(|word| told.contains(word)) {
        println!("refused: {}", told.lines().last().unwrap_or_default());
        return Ok(());
    }
    Err(format!("to be refused with {words:?}, but ended with {}: {told}", output.status))
}

/// The acknowledged records of a row.
fn commits(result: &Value, id: &str) -> Option<f64> {
    let rows = result["study"]["rows"].as_array()?;
    let row = rows.iter().find(|row| row["id"] == id)?;
    let figures = row["outcome"]["measured"]["figures"].as_array()?;
    figures.iter().find(|figure| figure["name"] == "commits")?["value"].as_f64()
}

fn get(address: &str, path: &str) -> Result<String, String> {
    let told = |error: std::io::Error| format!("{address}: {error}");
    let mut stream = TcpStream::connect(address).map_err(told)?;
    stream.set_read_timeout(Some(Duration::from_mins(5))).map_err(told)?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).map_err(told)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(told)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// A process that counts another one's syncs.
struct Tracer {
    child: Child,
    counts: PathBuf,
}

impl Tracer {
    fn on(pid: u32, folder: &Path) -> Result<Self, String> {
        let counts = folder.join(format!("syncs-{pid}"));
        let mut strace = Command::new("strace");
        strace.args(["-f", "-c", "-e", "trace=fsync,fdatasync", "-p", &pid.to_string(), "-o"]).arg(&counts);
        let child = strace.stderr(Stdio::null()).spawn().map_err(|error| format!("strace: {error}"))?;
        // Attached when the kernel says so.
        let traced = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|by| by.trim() != "0"))
        };
        for _ in 0..600 {
            if traced() {
                return Ok(Self { child, counts });
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(format!("strace did not attach to process {pid}"))
    }

    /// The syncs counted.
    fn end(mut self) -> Result<u64, String> {
        output(command("kill", &["-INT", &self.child.id().to_string()]))?;
        self.child.wait().map_err(|error| error.to_string())?;
        let text = std::fs::read_to_string(&self.counts).map_err(|error| error.to_string())?;
        let _ = std::fs::remove_file(&self.counts);
        Ok(calls(&text))
    }
}

/// The sum of `strace -c` over sync calls; nothing was called if there is no table.
fn calls(table: &str) -> u64 {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let call = fields.last().filter(|call| ["fsync", "fdatasync"].contains(call))?;
        let _ = call;
        fields.get(3)?.parse::<u64>().ok()
    };
    table.lines().filter_map(line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_added_up_and_no_table_is_none() {
        let table = "% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 90.00    0.050000          50      1000           fsync
 10.00    0.005000          50       100         1 fdatasync
------ ----------- ----------- --------- --------- ----------------
100.00    0.055000          50      1100         1 total
";
        assert_eq!((calls(table), calls("")), (1100, 0));
    }

    #[test]
    fn a_row_s_records_are_found_in_a_result() {
        let text = r#"{"study":{"rows":[{"id":"nats/2m/1","outcome":{"measured":{"figures":[{"name":"commits","value":7.0}]}}}]}}"#;
        let json: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(commits(&json, "nats/2m/1"), Some(7.0));
        assert_eq!(commits(&json, "nats/always/1"), None);
    }
}
