//! Clusters of three processes whose nodes die: what they acknowledge must outlive the death of any of them, by kill -9 and by power cuts.
//!
//! The processes are a program of the test, which is started as itself. Clients write keys once and read them
//! linearizably while nodes die, leaders above all. A node dies by kill -9, which takes what was not written yet, or, with root,
//! with its disk: an ext4 that is shut down first, so that all goes that was not synced. Judged are
//!
//! * every read: a key that was acknowledged or seen before the read began is found. A key that is written once is linearizable if
//!   and only if this holds, and so are all of them together;
//! * at the end, and after the death of all: every node has every acknowledged key, and all nodes have the same;
//! * the logs, index by index: one log id is that of one entry, on whichever node.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_sys::clock::monotonic_ns;
use seawall_sys::skip::skipped;
use serde_json::{Value, json};

/// What makes this program a node: the name of it.
const NODE: &str = "SEAWALL_NODE";
/// Set for a node that makes the mistake of the test.
pub(crate) const PLANTED: &str = "SEAWALL_NODE_PLANTED";
/// Set after `unshare`: the mounts of this process go with it.
const APART: &str = "SEAWALL_NODES_APART";
const NODES: usize = 3;
const WRITERS: usize = 6;
/// So many deaths prove something, however slow the machine is.
const DEATHS_MIN: u64 = 6;
/// A cluster gets no older: each snapshot writes its whole state, which grows.
const AGE_MAX: Duration = Duration::from_mins(5);
/// Longer than an election takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a cluster did wrong.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// Term and index of entries, and what they hold.
pub(crate) type Entries = Vec<((u64, u64), String)>;

/// A program of one node, which takes its number, its folder and the addresses of all.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) main: fn() -> Result<(), Box<dyn std::error::Error>>,
    /// Those that a dead node has in its log.
    pub(crate) entries: fn(&Path) -> Outcome<Entries>,
}

fn now() -> Duration {
    Duration::from_nanos(monotonic_ns())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program; the reason if it fails.
fn run(program: &str, arguments: &[&str]) -> Outcome {
    let done =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    if done.status.success() { Ok(()) } else { Err(format!("{program} {}: {said}", arguments.join(" "))) }
}

/// The disk of a node: a folder, or an ext4 of its own there, which can lose what was not synced.
struct Disk {
    at: PathBuf,
    image: Option<PathBuf>,
}

impl Disk {
    fn text(path: &Path) -> &str {
        path.to_str().expect("is text")
    }

    /// One of its own if that is possible, and why not if it is not.
    fn new(dir: &Path, node: usize) -> (Self, Outcome) {
        let (at, image) = (dir.join(node.to_string()), dir.join(format!("{node}.ext4")));
        std::fs::create_dir(&at).expect("a folder");
        let file = std::fs::File::create(&image).expect("a file");
        file.set_len(256 << 20).expect("has space");
        let mut disk = Self { at, image: None };
        let made = run("perl", &["-e", "1"]);
        let made = made.and_then(|()| run("mkfs.ext4", &["-q", "-m", "0", Self::text(&image)]));
        let made = made.and_then(|()| disk.mount(&image));
        if made.is_ok() {
            disk.image = Some(image);
        }
        (disk, made)
    }

    fn mount(&self, image: &Path) -> Outcome {
        run("mount", &["-o", "loop", Self::text(image), Self::text(&self.at)])
    }

    /// Stops the file system where it is: nothing that is in memory only reaches the disk any more.
    fn cut(&self) -> Outcome {
        // EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH.
        const SHUTDOWN: &str =
            "my $how = pack 'I', 2; open F, '<', shift and ioctl F, 0x8004587d, $how or die $!";
        run("perl", &["-e", SHUTDOWN, Self::text(&self.at)])
    }

    /// What a disk without power shows when it has some again.
    fn renew(&self) -> Outcome {
        let Some(image) = &self.image else { return Ok(()) };
        let start = now();
        while let Err(why) = run("umount", &[Self::text(&self.at)]) {
            if now() > start + PATIENCE {
                return Err(why);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.mount(image)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.image.is_some() {
            // Nothing more can be done about it in a test.
            let _ = run("umount", &["--lazy", Self::text(&self.at)]);
        }
    }
}

/// A connection to a node.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        // Openraft 0.9 never answers a write whose entry is cut off.
        stream.set_read_timeout(Some(Duration::from_secs(3)))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// The answer, or what the node said against it.
    fn ask(&mut self, request: &Value) -> io::Result<Result<Value, Value>> {
        writeln!(self.0.get_mut(), "{request}")?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let mut answer: BTreeMap<String, Value> = serde_json::from_str(&line)?;
        Ok(answer.remove("Ok").ok_or_else(|| answer.remove("Err").unwrap_or_default()))
    }
}

/// Three nodes. They die with it.
struct Cluster {
    program: &'static Program,
    planted: bool,
    addresses: Vec<String>,
    disks: Vec<Disk>,
    nodes: Mutex<Vec<Option<Child>>>,
    _dir: tempfile::TempDir,
}

impl Cluster {
    fn new(program: &'static Program, planted: bool) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let ports = [(); NODES].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let address = |port: &TcpListener| port.local_addr().expect("is bound").to_string();
        let addresses = ports.iter().map(address).collect();
        let made: Vec<_> = (0..NODES).map(|node| Disk::new(dir.path(), node)).collect();
        let (disks, mounted): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        if let Some(Err(why)) = mounted.into_iter().find(Result::is_err) {
            skipped(format_args!("nodes are killed and their disks not cut: {why}"));
        }
        let nodes = Mutex::new((0..NODES).map(|_| None).collect());
        let cluster = Self { program, planted, addresses, disks, nodes, _dir: dir };
        drop(ports);
        for node in (0..NODES).rev() {
            cluster.start(node);
        }
        cluster
    }

    fn start(&self, node: usize) {
        let mut command = Command::new(std::env::current_exe().expect("has a path"));
        command
            .env(NODE, self.program.name)
            .arg(node.to_string())
            .arg(&self.disks[node].at)
            .args(&self.addresses);
        if self.planted {
            command.env(PLANTED, "1");
        }
        let said = std::fs::File::options().create(true).append(true).open(self.said(node)).expect("opens");
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(said).spawn();
        lock(&self.nodes)[node] = Some(child.expect("starts"));
    }

    /// Where a node's standard error goes.
    fn said(&self, node: usize) -> PathBuf {
        self.disks[node].at.with_extension("said")
    }

    fn kill(&self, node: usize) {
        let child = lock(&self.nodes)[node].take();
        if let Some(mut child) = child {
            child.kill().expect("is killed");
            child.wait().expect("is gone");
        }
    }

    /// Lets nodes die at once, with their disks if those can.
    fn die(&self, nodes: &[usize], power: bool) -> Outcome {
        for node in nodes {
            if power && self.disks[*node].image.is_some() {
                self.disks[*node].cut()?;
            }
        }
        for node in nodes {
            self.kill(*node);
        }
        for node in nodes.iter().filter(|_| power) {
            self.disks[*node].renew()?;
        }
        Ok(())
    }

    /// What a node, or the first one that does, answers.
    fn ask_until(
        &self,
        only: Option<usize>,
        request: &Value,
        good: impl Fn(&Value) -> bool,
    ) -> Outcome<Value> {
        let start = now();
        let mut last = "nobody answers".to_owned();
        while now() < start + PATIENCE {
            for node in (0..NODES).filter(|node| only.is_none_or(|only| only == *node)) {
                match Client::connect(&self.addresses[node]).and_then(|mut node| node.ask(request)) {
                    Ok(Ok(answer)) if good(&answer) => return Ok(answer),
                    Ok(answer) => last = format!("{answer:?}").chars().take(300).collect(),
                    Err(error) => last = error.to_string(),
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let said = |node| std::fs::read_to_string(self.said(node)).unwrap_or_default();
        let said: Vec<_> = (0..NODES).map(said).collect();
        Err(format!("{request} of {only:?} was not served in {PATIENCE:?}: {last}; the nodes said {said:#?}"))
    }

    /// The node that serves writes.
    fn leader(&self) -> Option<usize> {
        let served = |node: &usize| {
            let asked =
                Client::connect(&self.addresses[*node]).and_then(|mut node| node.ask(&json!({"Get": ""})));
            matches!(asked, Ok(Ok(_)))
        };
        (0..NODES).find(served)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..NODES).for_each(|node| self.kill(node));
    }
}

/// What must be there from now on.
#[derive(Default)]
struct Known {
    /// Of each writer its keys below this number: it goes on when one is acknowledged.
    keys: [AtomicU64; WRITERS],
    reads: AtomicU64,
    stop: AtomicBool,
    wrong: Mutex<Option<String>>,
}

impl Known {
    fn keys(&self) -> [u64; WRITERS] {
        self.keys.each_ref().map(|keys| keys.load(Ordering::SeqCst))
    }

    fn count(&self) -> u64 {
        self.keys().iter().sum()
    }
}

fn key(writer: usize, number: u64) -> String {
    format!("{writer}/{number}")
}

fn value(key: &str) -> String {
    format!("value of {key}").repeat(5)
}

/// Asks whoever serves, from the node `at` on, until one does or the test ends. A request may be served more than once.
fn serve(
    cluster: &Cluster,
    known: &Known,
    at: &mut (usize, Option<Client>),
    request: &Value,
) -> Option<Value> {
    while !known.stop.load(Ordering::SeqCst) {
        let connected = at.1.take().map_or_else(|| Client::connect(&cluster.addresses[at.0]), Ok);
        let asked = connected.and_then(|mut client| Ok((client.ask(request)?, client)));
        if let Ok((Ok(answer), client)) = asked {
            at.1 = Some(client);
            return Some(answer);
        }
        at.0 = (at.0 + 1) % NODES;
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

fn write(cluster: &Cluster, known: &Known, writer: usize) {
    let mut at = (writer % NODES, None);
    for number in 0.. {
        let key = key(writer, number);
        if serve(cluster, known, &mut at, &json!({"Set": [key, value(&key)]})).is_none() {
            return;
        }
        known.keys[writer].fetch_max(number + 1, Ordering::SeqCst);
    }
}

/// Reads keys that are known, and the next one of a writer, which then is.
fn read(cluster: &Cluster, known: &Known) {
    let mut at = (0, None);
    while !known.stop.load(Ordering::SeqCst) {
        let writer = fastrand::usize(..WRITERS);
        let next = known.keys[writer].load(Ordering::SeqCst);
        let number = if fastrand::bool() { next } else { fastrand::u64(..=next) };
        let key = key(writer, number);
        let Some(found) = serve(cluster, known, &mut at, &json!({"Get": key})) else { return };
        if found == json!(value(&key)) {
            known.keys[writer].fetch_max(number + 1, Ordering::SeqCst);
        } else if number < next || !found.is_null() {
            let wrong = format!("a read that began when {key} was known found {found}");
            lock(&known.wrong).get_or_insert(wrong);
        }
        known.reads.fetch_add(1, Ordering::SeqCst);
    }
}

/// Lets nodes die until `end`; then how often, and how many of them with their disks.
fn let_die(cluster: &Cluster, known: &Known, end: Duration) -> Outcome<(u64, u64)> {
    let (mut deaths, mut cuts) = (0, 0);
    while (now() < end || deaths < DEATHS_MIN) && lock(&known.wrong).is_none() {
        let leader = cluster.leader().unwrap_or(0);
        let others = [(leader + 1) % NODES, (leader + 2) % NODES];
        let dying = match fastrand::u8(..20) {
            0 => vec![0, 1, 2],
            1..=2 => vec![leader, others[fastrand::usize(..2)]],
            3..=6 => vec![others[fastrand::usize(..2)]],
            _ => vec![leader],
        };
        let power = cluster.disks[leader].image.is_some() && fastrand::bool();
        cluster.die(&dying, power)?;
        deaths += dying.len() as u64;
        cuts += if power { dying.len() as u64 } else { 0 };
        std::thread::sleep(Duration::from_millis(fastrand::u64(..300)));
        for node in &dying {
            cluster.start(*node);
        }
        // It goes on, and for a moment of any length.
        let written = known.count();
        cluster.ask_until(None, &json!({"Set": ["", ""]}), |_| true)?;
        let start = now();
        while known.count() < written + 50 && now() < start + PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(fastrand::u64(..400)));
    }
    Ok((deaths, cuts))
}

/// Whether every node has what is known, and all the same.
fn compare_states(cluster: &Cluster, known: &Known, barrier: &str) -> Outcome {
    // Later than every entry before it, on every node.
    cluster.ask_until(None, &json!({"Set": [barrier, ""]}), |_| true)?;
    let dump = |node| {
        let has_barrier = |map: &Value| map.get(barrier).is_some();
        cluster.ask_until(Some(node), &json!("Dump"), has_barrier)
    };
    let maps = (0..NODES).map(dump).collect::<Outcome<Vec<_>>>()?;
    let keys_of = |(writer, next)| (0..next).map(move |number| key(writer, number));
    let keys: Vec<_> = (0..).zip(known.keys()).flat_map(keys_of).collect();
    let is_lost = |map: &Value, key: &str| map[key] != json!(value(key));
    let lost = |map: &Value| keys.iter().filter(|key| is_lost(map, key)).collect::<Vec<_>>();
    let lost: Vec<_> = maps.iter().map(lost).collect();
    if lost.iter().any(|lost| !lost.is_empty()) {
        return Err(format!("{barrier}: known and not there, by node: {lost:?}"));
    }
    if maps.iter().any(|map| *map != maps[0]) { Err(format!("{barrier}: the nodes differ")) } else { Ok(()) }
}

/// The logs of dead nodes: one log id is that of one entry, on whichever node. Returns the last term that has entries.
fn compare_logs(cluster: &Cluster) -> Outcome<u64> {
    let mut all = BTreeMap::new();
    for node in 0..NODES {
        for (id, payload) in (cluster.program.entries)(&cluster.disks[node].at.join("log"))? {
            let (first, same) = all.entry(id).or_insert_with(|| (node, payload.clone()));
            if *same != payload {
                return Err(format!(
                    "log id {id:?} is on node {first} that of {same} and on node {node} of {payload}"
                ));
            }
        }
    }
    Ok(all.last_key_value().map_or(0, |((term, _), _)| *term))
}

/// What clusters went through: deaths of nodes, those with the disk, terms, writes, reads.
pub(crate) type Counts = [u64; 5];

/// Runs a cluster for this long, or until it does something wrong.
pub(crate) fn try_cluster(program: &'static Program, planted: bool, time: Duration) -> Outcome<Counts> {
    let cluster = Cluster::new(program, planted);
    let known = Known::default();
    cluster.ask_until(None, &json!({"Set": ["", ""]}), |_| true)?;
    let end = now() + time;
    let died = std::thread::scope(|scope| {
        let (cluster, known) = (&cluster, &known);
        (0..WRITERS).for_each(|writer| drop(scope.spawn(move || write(cluster, known, writer))));
        (0..2).for_each(|_| drop(scope.spawn(|| read(cluster, known))));
        let died = let_die(cluster, known, end);
        known.stop.store(true, Ordering::SeqCst);
        died
    });
    let wrong = lock(&known.wrong).take().map_or(Ok(()), Err);
    let judged = died.and_then(|died| wrong.map(|()| died));
    let judged = judged.and_then(|died| compare_states(&cluster, &known, "at the end").map(|()| died));
    let all = [0, 1, 2];
    cluster.die(&all, true)?;
    // First, because the logs say why, where the others say that a key is missing.
    let terms = compare_logs(&cluster)?;
    let (deaths, cuts) = judged?;
    for node in all {
        cluster.start(node);
    }
    compare_states(&cluster, &known, "after the death of all")?;
    let (writes, reads) = (known.count(), known.reads.load(Ordering::SeqCst));
    assert!(writes > 100 && reads > 20, "{writes} writes and {reads} reads prove little");
    Ok([deaths, cuts, terms, writes, reads])
}

pub(crate) fn outlives(program: &'static Program, time: Duration) {
    let mut all = Counts::default();
    let clusters = time.as_secs().div_ceil(AGE_MAX.as_secs());
    for number in 1..=clusters {
        let span = time / u32::try_from(clusters).expect("is small");
        let more = try_cluster(program, false, span).expect("nothing is lost");
        all.iter_mut().zip(more).for_each(|(all, more)| *all += more);
        let [deaths, cuts, terms, writes, reads] = all;
        println!(
            "{}: {number} of {clusters} clusters: {deaths} deaths, {cuts} of them with the disk; \
             {terms} terms, {writes} writes, {reads} reads",
            program.name
        );
    }
}

pub(crate) type Test = (&'static str, fn(Duration));

/// The test program: a node if it was started as one, else the tests.
pub(crate) fn main(programs: &[&'static Program], tests: &[Test]) -> ExitCode {
    if let Ok(name) = std::env::var(NODE) {
        // It ends with the test, however that ends.
        drop(std::thread::spawn(|| {
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            std::process::exit(1)
        }));
        let program = programs.iter().find(|program| program.name == name).expect("is one of them");
        eprintln!("{:?}", (program.main)());
        return ExitCode::FAILURE;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        // None is marked as ignored.
        let ignored = arguments.iter().any(|argument| argument == "--ignored");
        for (name, _) in tests.iter().filter(|_| !ignored) {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let apart = ["--mount", "--propagation", "private"];
    if std::env::var_os(APART).is_none() && run("unshare", &[&apart[..], &["true"]].concat()).is_ok() {
        let mut again = Command::new("unshare");
        again.args(apart).arg(std::env::current_exe().expect("has a path")).args(&arguments).env(APART, "1");
        let ended = again.status().expect("runs");
        return if ended.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let minutes = arguments.iter().skip_while(|argument| *argument != "--minutes").nth(1);
    let time = minutes.map_or(Duration::from_secs(20), |minutes| {
        Duration::from_mins(minutes.parse().expect("--minutes is followed by a number"))
    });
    let named = |name: &str| arguments.iter().any(|argument| name == argument);
    let all = !tests.iter().any(|(name, _)| named(name));
    for (name, test) in tests.iter().filter(|(name, _)| all || named(name)) {
        test(time);
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}
