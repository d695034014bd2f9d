//! The faults of a campaign: what each does, where it is possible, and how often it is drawn.

use super::super::cluster::{Cluster, STORE};
use super::super::get;
use super::super::network::Network;
use super::bucket::Bucket;
use super::proxy::Trouble;
use super::{Campaign, in_order, names_another, running, same};
use crate::error::{Error, Result};
use crate::files;
use crate::shell::{Running, command, output, within};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) weight: u64,
    pub(super) possible: fn(&Campaign) -> bool,
    pub(super) inject: fn(&mut Campaign) -> Result,
}

/// Loses what goes from and to a node, or ends that.
type Lose = fn(&Network, usize, bool) -> Result;

enum Hindrance {
    None,
    Killed(usize),
    Cut(usize, Lose),
    /// One in N requests meets it.
    Store(Trouble, u64),
}

const fn always(_: &Campaign) -> bool {
    true
}

fn nodes(all: &Campaign) -> bool {
    all.cluster.is_some()
}

fn wires(all: &Campaign) -> bool {
    all.cluster.as_ref().is_some_and(|cluster| cluster.network.is_some())
}

fn store(all: &Campaign) -> bool {
    all.cluster.is_none()
}

#[rustfmt::skip]
pub(super) const FAULTS: [Fault; 32] = [
    Fault { name: "shipper killed", weight: 6, possible: always, inject: |all| { all.shipper = None; Ok(()) } },
    Fault { name: "appender killed", weight: 4, possible: always, inject: |all| { all.appender = None; Ok(()) } },
    Fault { name: "standby killed", weight: 4, possible: always, inject: |all| { all.standby = None; Ok(()) } },
    Fault { name: "taken over by a rebuild", weight: 2, possible: always, inject: |all| all.take_over(Campaign::rebuild) },
    Fault { name: "taken over by one of two standbys at once", weight: 2, possible: always, inject: |all| all.take_over(Campaign::race) },
    Fault { name: "object deleted", weight: 1, possible: always, inject: |all| all.damage(false) },
    Fault { name: "byte of an object flipped", weight: 1, possible: always, inject: |all| all.damage(true) },
    Fault { name: "node stopped for a while", weight: 4, possible: nodes, inject: stop },
    Fault { name: "node killed", weight: 3, possible: nodes, inject: kill },
    Fault { name: "node lost its disk", weight: 2, possible: nodes, inject: lose_disk },
    Fault { name: "two nodes killed", weight: 2, possible: nodes, inject: kill_two },
    Fault { name: "node cut off", weight: 4, possible: wires, inject: |all| cut(all, Network::cut) },
    Fault { name: "node that hears and is not heard", weight: 3, possible: wires, inject: |all| cut(all, Network::mute) },
    Fault { name: "two nodes that do not hear each other", weight: 3, possible: wires, inject: |all| cut(all, |wires, node, apart| wires.part(node, (node + 1) % 3, apart)) },
    Fault { name: "store that refuses with 503", weight: 3, possible: store, inject: |all| all.trouble(Trouble::Refused) },
    Fault { name: "store that closes connections", weight: 3, possible: store, inject: |all| all.trouble(Trouble::Closed) },
    Fault { name: "answers lost behind the write", weight: 4, possible: store, inject: |all| all.trouble(Trouble::AnswersLost) },
    Fault { name: "answers cut in the middle", weight: 3, possible: store, inject: |all| all.trouble(Trouble::AnswersCut) },
    Fault { name: "slow store", weight: 3, possible: store, inject: |all| all.trouble(Trouble::Slow(Duration::from_millis(700))) },
    Fault { name: "stale lists", weight: 3, possible: store, inject: |all| all.trouble(Trouble::StaleLists) },
    Fault { name: "store killed", weight: 4, possible: store, inject: kill_store },
    Fault { name: "store that takes no writes", weight: 1, possible: store, inject: |all| all.said(Trouble::WritesRefused) },
    Fault { name: "store that never answers", weight: 1, possible: store, inject: |all| all.said(Trouble::Silent) },
    Fault { name: "archive away, as not mounted", weight: 2, possible: store, inject: unmount },
    Fault { name: "another store at the address", weight: 2, possible: always, inject: exchange },
    Fault { name: "archive on a full disk", weight: 1, possible: mounts, inject: fill_archive },
    Fault { name: "standby on a full disk", weight: 1, possible: mounts, inject: fill_standby },
    Fault { name: "log on a full disk", weight: 1, possible: mounts, inject: fill_log },
    Fault { name: "archive compacted, at times half", weight: 2, possible: store, inject: compact },
    Fault { name: "clock ahead for a batch", weight: 1, possible: shim, inject: jump },
    Fault { name: "second shipper of the log", weight: 3, possible: always, inject: second },
    Fault { name: "directory copied, and written to", weight: 2, possible: always, inject: copied },
];

fn mounts(_: &Campaign) -> bool {
    cfg!(target_os = "linux") && crate::shell::is_root()
}

fn shim(all: &Campaign) -> bool {
    all.clock.is_some()
}

/// Where the log is archived that is damaged: of a cluster's log an archive beside it, each time another.
fn archive(all: &mut Campaign) -> String {
    all.named += 1;
    if nodes(all) { format!("beside-{}", all.named) } else { "faults".to_owned() }
}

fn node(all: &mut Campaign) -> usize {
    usize::try_from(all.draw(3)).unwrap_or_default()
}

/// Does something to the cluster, if there is one.
fn with(all: &mut Campaign, work: impl FnOnce(&mut Cluster) -> Result) -> Result {
    all.cluster.as_mut().map_or(Ok(()), work)
}

fn kill_nodes(all: &mut Campaign, nodes: &[usize]) {
    if let Some(cluster) = &mut all.cluster {
        for node in nodes {
            cluster.kill(*node);
        }
    }
}

/// Steps of appending: mostly a moment, at times longer than an election.
fn while_it_lasts(all: &mut Campaign) -> u64 {
    if all.draw(5) == 0 { 100 + all.draw(400) } else { all.draw(60) }
}

fn stop(all: &mut Campaign) -> Result {
    let (node, steps) = (node(all), while_it_lasts(all));
    with(all, |cluster| cluster.signal(node, "-STOP"))?;
    let appended = all.append(steps);
    with(all, |cluster| cluster.signal(node, "-CONT"))?;
    appended
}

fn kill(all: &mut Campaign) -> Result {
    let (node, steps) = (node(all), while_it_lasts(all));
    kill_nodes(all, &[node]);
    all.append(steps)?;
    with(all, |cluster| cluster.start(node))
}

/// No majority is left, and nothing is acknowledged.
fn kill_two(all: &mut Campaign) -> Result {
    let (node, steps) = (node(all), while_it_lasts(all));
    let two = [node, (node + 1) % 3];
    kill_nodes(all, &two);
    all.append(steps)?;
    with(all, |cluster| two.into_iter().try_for_each(|node| cluster.start(node)))
}

fn lose_disk(all: &mut Campaign) -> Result {
    let node = node(all);
    // Of one node at a time: two that hold nothing are a majority.
    all.caught_up()?;
    with(all, |cluster| {
        cluster.kill(node);
        cluster.lose_disk(node)?;
        cluster.start(node)
    })?;
    all.caught_up()?;
    with(all, |cluster| is_whole_again(cluster, node))
}

/// Returns when a node that lost its disk has what the others have.
fn is_whole_again(cluster: &Cluster, node: usize) -> Result {
    let held = |node: usize| topic_bytes(&cluster.home(node).join(STORE).join("faults-0"));
    let name = cluster.engine.name;
    let whole = within(120, || {
        if name == "nats" {
            get(cluster.monitor(node), "/healthz").is_ok_and(|(_, answer)| answer.contains("\"ok\""))
        } else {
            (0..3).all(|other| held(other) == held(node) && held(node) > 0)
        }
    });
    ensure!(whole, "node {node} of {name} does not get back what it lost");
    Ok(())
}

/// How much of the topic a node of Kafka holds.
fn topic_bytes(folder: &Path) -> u64 {
    let files = files::list(folder).unwrap_or_default().into_iter();
    let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.filter_map(|path| Some(path.metadata().ok()?.len())).sum()
}

fn cut(all: &mut Campaign, lose: Lose) -> Result {
    let (node, steps) = (node(all), while_it_lasts(all));
    all.wire(node, lose, true)?;
    let appended = all.append(steps);
    all.wire(node, lose, false)?;
    appended
}

fn kill_store(all: &mut Campaign) -> Result {
    let steps = all.draw(60);
    all.bucket.kill();
    all.append(steps)?;
    all.bucket.restart()
}

/// The archive's folder is not where it was: nothing is made in its place.
fn unmount(all: &mut Campaign) -> Result {
    all.shipper = None;
    let (place, aside) = (all.bucket.folder("faults"), all.folder.join("aside"));
    std::fs::rename(&place, &aside).map_err(Error::at(place.display()))?;
    let (done, said) = Campaign::ran(all.ship(&all.log, &all.address(), &["--once"]))?;
    let made = all.bucket.messages("faults").is_ok_and(|messages| !messages.is_empty());
    if place.exists() {
        files::remove_folder(&place)?;
    }
    std::fs::rename(&aside, &place).map_err(Error::at(place.display()))?;
    ensure!(!done && !made, "another place was taken for the archive: {said}");
    all.append(20)
}

/// The log is archived to a folder, in whose place another archive then lies.
fn exchange(all: &mut Campaign) -> Result {
    let (kept, log) = (all.new_folder("exchanged"), all.log.clone());
    let to = format!("folder:{}", kept.display());
    all.at_last("no archive beside it", |all| all.ship(&log, &to, &["--once"]))?;
    let aside = kept.with_extension("aside");
    std::fs::rename(&kept, &aside).map_err(Error::at(kept.display()))?;
    // That of a log that is shipped there for the first time.
    let other = all.new_folder("other");
    ended(appender(all, &other)?)?;
    all.at_last("no other archive", |all| all.ship(&other, &to, &["--once"]))?;
    let (done, said) = Campaign::ran(all.ship(&log, &to, &["--once"]))?;
    let refused = !done && said.contains("is another destination");
    ensure!(refused, "another archive was taken for that of the log: {said}");
    files::remove_folder(&kept)?;
    std::fs::rename(&aside, &kept).map_err(Error::at(kept.display()))?;
    all.at_last("not shipped on", |all| all.ship(&log, &to, &["--once"])).map(drop)?;
    let name = log.display().to_string();
    all.printed(&["log", "drill", "--from", &to, "--log", &name]).map(drop)?;
    Campaign::forget(&log, &kept)
}

/// A disk of `megabytes` MB in memory, mounted at a new folder; `work` may make it larger.
fn on_disk(all: &mut Campaign, megabytes: u64, work: impl FnOnce(&mut Campaign, &Path) -> Result) -> Result {
    let size = format!("size={megabytes}m");
    mounted(all, &["-t", "tmpfs", "-o", &size, "tmpfs"], work)
}

/// Mounts it at a new folder for as long as `work` takes.
fn mounted(all: &mut Campaign, what: &[&str], work: impl FnOnce(&mut Campaign, &Path) -> Result) -> Result {
    let disk = all.new_folder("disk");
    files::make_folder(&disk)?;
    let place = disk.display().to_string();
    output(command("mount", &[what, &[&place]].concat()))?;
    let worked = work(all, &disk);
    output(command("umount", &["-l", &place]))?;
    worked
}

/// Takes what is free on a disk, to the last block: a sync may give some of what was counted back.
fn fill(filler: &Path) -> Result {
    let file = std::fs::File::options().create(true).append(true).open(filler);
    let mut file = file.map_err(Error::at(filler.display()))?;
    loop {
        let before = file.metadata().map_err(Error::at(filler.display()))?.len();
        for bytes in [4096, 512] {
            while file.write_all(&[1; 4096][..bytes]).is_ok() {}
        }
        let _ = file.sync_all();
        if file.metadata().is_ok_and(|after| after.len() == before) {
            return Ok(());
        }
    }
}

fn grow(disk: &Path) -> Result {
    output(command("mount", &["-o", "remount,size=1g", &disk.display().to_string()])).map(drop)
}

/// An archive's disk is full: that is said with the reason, nothing is left there, and all goes on once there is room.
fn fill_archive(all: &mut Campaign) -> Result {
    let log = all.log.clone();
    on_disk(all, 1, |all, disk| {
        let (kept, said) = (disk.join("archive"), all.folder.join("full.log"));
        let to = format!("folder:{}", kept.display());
        let errors = std::fs::File::create(&said).map_err(Error::at(said.display()))?;
        fill(&disk.join("filler"))?;
        let mut shipping = Some(Running::start(all.ship(&log, &to, &[]).stderr(errors))?);
        let read = || std::fs::read_to_string(&said).unwrap_or_default();
        within(60, || read().contains("o space") || !running(&mut shipping));
        drop(shipping);
        let told = read().to_lowercase().contains("space");
        ensure!(told, "a full disk was not named within a minute: {}", read());
        grow(disk)?;
        all.at_last("not shipped once there was room", |all| all.ship(&log, &to, &["--once"]))?;
        let mut left = files::list(&kept)?.into_iter();
        let staged = left.find(|path| path.display().to_string().contains("staged-"));
        ensure!(staged.is_none(), "a full disk was filled with what failed on it");
        all.printed(&["log", "drill", "--from", &to, "--log", &log.display().to_string()]).map(drop)?;
        Campaign::forget(&log, &kept)
    })
}

/// A disk is full in the middle of a copy, which says so, and of a standby, which goes on once there is room.
fn fill_standby(all: &mut Campaign) -> Result {
    on_disk(all, 3, |all, disk| {
        let again = disk.join("again").display().to_string();
        let (fits, said) =
            Campaign::ran(all.seawall(&["log", "rebuild", &again, "--from", &all.address(), "--copy"]))?;
        let named = fits || said.to_lowercase().contains("space");
        ensure!(named, "a disk that is too small was not named: {said}");
        files::list(disk)?.iter().try_for_each(|left| files::remove_folder(left))?;
        let copy = disk.join("copy");
        let (fits, said) = Campaign::ran(all.follow(&copy, &["--once"]))?;
        ensure!(fits || said.to_lowercase().contains("space"), "a full disk was not named: {said}");
        grow(disk)?;
        all.at_last("a standby did not go on once there was room", |all| all.follow(&copy, &["--once"]))
            .map(drop)
    })
}

/// The log's disk is full, where the note on its archive lies too: that is said, by `status` as well, and all goes on once there is room.
fn fill_log(all: &mut Campaign) -> Result {
    let kept = all.new_folder("kept");
    let to = format!("folder:{}", kept.display());
    // No log that outlives power loss lies in memory.
    let image = all.new_folder("image");
    let made = std::fs::File::create(&image).and_then(|image| image.set_len(24 << 20));
    made.map_err(Error::at(image.display()))?;
    let image = image.display().to_string();
    output(command("mkfs.ext4", &["-q", "-F", "-m", "0", &image]))?;
    mounted(all, &["-o", "loop", &image], |all, disk| {
        let (log, filler, said) = (disk.join("log"), disk.join("filler"), all.folder.join("full.log"));
        let mut appending = appender(all, &log)?;
        hand(&mut appending, 0..100)?;
        // One that finds no room before its log is there ends, and leaves nothing to ship.
        let committed = within(60, || all.records(&log).is_ok_and(|records| records.len() == 100));
        ensure!(committed, "an appender committed nothing");
        let errors = std::fs::File::create(&said).map_err(Error::at(said.display()))?;
        let mut shipping = Some(Running::start(all.ship(&log, &to, &[]).stderr(errors))?);
        let read = || std::fs::read_to_string(&said).unwrap_or_default();
        let stored = || files::list(&kept.join("messages")).unwrap_or_default().len();
        let shipped = within(60, || read().contains("shipping from") && stored() > 1);
        ensure!(shipped, "nothing is shipped from a disk with room: {}", read());
        let mut next = 100;
        let told = within(60, || {
            // What the log has prepared takes these, and the note finds no room: that of before gives its own back, a moment later.
            let _ = fill(&filler).and_then(|()| hand(&mut appending, next..next + 1));
            next += 1;
            read().contains("o space") || !running(&mut shipping)
        });
        let log_name = log.display().to_string();
        let known = within(60, || {
            all.printed(&["log", "status", &log_name]).is_ok_and(|status| status.contains("fails, "))
        });
        drop(shipping);
        let how = if told { "its status" } else { "it" };
        ensure!(told && known, "the log's full disk, a minute, and not by {how}: {}", read());
        std::fs::remove_file(&filler).map_err(Error::at(filler.display()))?;
        hand(&mut appending, next..next + 100)?;
        ended(appending)?;
        in_order(&all.records(&log)?)?;
        all.at_last("not shipped once there was room", |all| all.ship(&log, &to, &["--once"]))?;
        let drilled = all.printed(&["log", "drill", "--from", &to, "--log", &log_name])?;
        let records = format!("{} records", next + 100);
        found(&(false, drilled), &records, "a drill of a log whose disk had been full")
    })
}

/// Appends to a log beside the campaign's.
fn appender(all: &Campaign, log: &Path) -> Result<Running> {
    let log = log.display().to_string();
    let mut append = all.seawall(&["log", "append", &log, "--quiet", "--segment-bytes", "1m"]);
    Running::start(append.stdin(Stdio::piped()))
}

fn hand(appending: &mut Running, numbers: std::ops::Range<u64>) -> Result {
    let lines: Vec<String> = numbers.map(|number| format!("{number}\n")).collect();
    let stdin = appending.0.stdin.as_mut();
    stdin.map_or(Ok(()), |stdin| stdin.write_all(lines.concat().as_bytes())).map_err(Error::at("an appender"))
}

fn ended(mut appending: Running) -> Result {
    drop(appending.0.stdin.take());
    let ended = appending.0.wait().map_err(Error::at("an appender"))?;
    ensure!(ended.success(), "an appender failed");
    Ok(())
}

/// Small objects are copied into larger ones, which all that reads takes in their place from then on; at times that is killed half way.
fn compact(all: &mut Campaign) -> Result {
    all.append(20)?;
    let mut command = all.seawall(&["log", "compact", "--at", &all.address()]);
    let mut compacting = Running::start(&mut command)?;
    let (steps, whole) = (all.draw(10), all.draw(2) == 0);
    let appended = all.append(steps);
    let ended = whole.then(|| compacting.0.wait());
    drop(compacting);
    match ended {
        Some(Ok(status)) if !status.success() => Err(Error::check("an archive was not compacted")),
        _ => appended,
    }
}

/// A batch is written ten years ahead: what was before it is rebuilt to any time, and what comes after it too.
fn jump(all: &mut Campaign) -> Result {
    const YEARS: &str = "315360000";
    all.appender = None;
    all.caught_up()?;
    all.next = all.records(&all.log)?.len() as u64;
    let (log, shim) = (all.log.display().to_string(), all.clock.clone().unwrap_or_default());
    let mut append = all.seawall(&["log", "append", &log, "--quiet", "--segment-bytes", "1m"]);
    append.env("LD_PRELOAD", shim).env("CLOCK_AHEAD", YEARS).stdin(Stdio::piped());
    all.appender = Some(Running::start(&mut append)?);
    all.write();
    drop(all.appender.as_mut().and_then(|appender| appender.0.stdin.take()));
    if let Some(mut appender) = all.appender.take() {
        appender.0.wait().map_err(Error::at("the appender"))?;
    }
    all.append(20)?;
    all.appender = None;
    all.caught_up()?;
    let looked = all.printed(&["log", "stat", &log])?;
    found(&(false, looked), "ahead of this clock", "`stat` of a log with a batch of the future")?;
    std::thread::sleep(Duration::from_secs(2));
    let (records, copy) = (all.records(&all.log)?, all.new_folder("earlier"));
    let to = copy.display().to_string();
    all.printed(&["log", "rebuild", &to, "--from", &all.address(), "--ago", "1s"])?;
    same(&records, &all.records(&copy)?, "a copy to a second ago behind a jump of the clock")
}

/// By hand beside the service: refused, and the service goes on.
fn second(all: &mut Campaign) -> Result {
    all.append(20)?;
    let (log, to) = (all.log.clone(), all.address());
    let serves = running(&mut all.shipper) && all.shipper_said().contains("shipping from");
    let (done, said) = Campaign::ran(all.ship(&log, &to, &["--once"]))?;
    let refused = !done && said.contains("already");
    ensure!(refused || !serves || !running(&mut all.shipper), "a second shipper was not refused: {said}");
    all.append(20)
}

/// A copy of the directory with its hold goes another way: it takes nothing, and the service goes on.
fn copied(all: &mut Campaign) -> Result {
    all.appender = None;
    all.caught_up()?;
    let clone = all.new_folder("clone");
    output(command("cp", &["-a", &all.log.display().to_string(), &clone.display().to_string()]))?;
    let mut appending = appender(all, &clone)?;
    hand(&mut appending, 0..1)?;
    ended(appending)?;
    // Only once this one has gone on is the copy's way another one.
    let before = all.records(&all.log)?.len();
    while all.records(&all.log)?.len() == before {
        all.append(20)?;
    }
    all.appender = None;
    all.caught_up()?;
    all.append(5)?;
    for _ in 0..20 {
        let (done, said) = Campaign::ran(all.ship(&clone, &all.address(), &["--once"]))?;
        ensure!(!done, "a copy of the directory that went another way was shipped: {said}");
        if said.contains("does not continue") {
            return all.append(20);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    fail!("a copy of the directory was not told that it went another way")
}

fn signal(child: Option<&Running>, signal: &str) -> Result {
    let Some(child) = child else { return Ok(()) };
    output(command("kill", &[signal, &child.0.id().to_string()])).map(drop)
}

impl Campaign {
    /// All requests, or some, meet it for a while; at times `ship` and the standby start meanwhile.
    fn trouble(&mut self, trouble: Trouble) -> Result {
        let (steps, one_in) = (self.draw(80), self.draw(3) + 1);
        self.bucket.proxy.set(trouble, one_in);
        let before = self.append(steps / 2);
        if self.draw(3) == 0 {
            self.shipper = None;
            self.standby = None;
        }
        let behind = before.and_then(|()| self.append(steps / 2));
        self.bucket.proxy.clear();
        behind
    }

    /// As long as it lasts nothing is stored: the service has to say so within a minute.
    fn said(&mut self, trouble: Trouble) -> Result {
        self.append(20)?;
        self.standby = None;
        let starts = self.draw(2) == 0;
        self.bucket.proxy.set(trouble, 1);
        if starts {
            self.shipper = None;
            self.keep_shipping()?;
        }
        let before = self.shipper_said().matches("away: ").count();
        self.write();
        let told = within(60, || {
            self.shipper_said().matches("away: ").count() > before || !running(&mut self.shipper)
        });
        self.bucket.proxy.clear();
        ensure!(told, "a minute in which nothing was stored, and nothing was said: {}", self.shipper_said());
        self.append(20)
    }

    /// The log is not shipped there any more.
    fn forget(log: &Path, kept: &Path) -> Result {
        let kept =
            format!("to folder:{}\n", kept.canonicalize().map_err(Error::at(kept.display()))?.display());
        for path in files::list(log)? {
            let is_hold = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("HOLD-"));
            if is_hold && std::fs::read_to_string(&path).is_ok_and(|text| text.contains(&kept)) {
                std::fs::remove_file(&path).map_err(Error::at(path.display()))?;
            }
        }
        Ok(())
    }

    /// What is in the way of a take-over, at times.
    fn hinder(&mut self) -> Result<Hindrance> {
        let (drawn, node) = (self.draw(6), node(self));
        let hindrance = match drawn {
            0 if nodes(self) => Hindrance::Killed(node),
            1 if wires(self) => Hindrance::Cut(node, Network::cut),
            2 if wires(self) => Hindrance::Cut(node, Network::mute),
            0 if store(self) => Hindrance::Store(Trouble::StaleLists, 1),
            1 if store(self) => Hindrance::Store(Trouble::AnswersLost, 3),
            2 if store(self) => Hindrance::Store(Trouble::AnswersCut, 3),
            _ => Hindrance::None,
        };
        match hindrance {
            Hindrance::None => {}
            Hindrance::Killed(node) => kill_nodes(self, &[node]),
            Hindrance::Cut(node, lose) => self.wire(node, lose, true)?,
            Hindrance::Store(trouble, one_in) => self.bucket.proxy.set(trouble, one_in),
        }
        self.hindered += u64::from(!matches!(hindrance, Hindrance::None));
        Ok(hindrance)
    }

    fn end_hindrance(&mut self, hindrance: &Hindrance) -> Result {
        match *hindrance {
            Hindrance::None => Ok(()),
            Hindrance::Killed(node) => with(self, |cluster| cluster.start(node)),
            Hindrance::Cut(node, lose) => self.wire(node, lose, false),
            Hindrance::Store(..) => {
                self.bucket.proxy.clear();
                Ok(())
            }
        }
    }

    fn wire(&self, node: usize, lose: Lose, apart: bool) -> Result {
        let network = self.cluster.as_ref().and_then(|cluster| cluster.network.as_ref());
        network.map_or(Ok(()), |network| lose(network, node, apart))
    }

    /// Another folder takes over while the old writer runs, or sleeps and goes on when it is too late.
    pub(super) fn take_over(&mut self, by: fn(&mut Self) -> Result<PathBuf>) -> Result {
        let acknowledged = self.records(&self.log)?.len();
        self.caught_up()?;
        let running = self.draw(10) + 1;
        self.append(running)?;
        let sleeps = self.draw(2) == 0;
        if sleeps {
            signal(self.shipper.as_ref(), "-STOP")?;
        }
        let hindrance = self.hinder()?;
        let to = by(self);
        self.end_hindrance(&hindrance)?;
        if sleeps {
            signal(self.shipper.as_ref(), "-CONT")?;
        }
        let to = to?;
        self.refused()?;
        self.appender = None;
        // What the new one has is the beginning of what the old one has, with all that was acknowledged.
        let (before, after) = (self.records(&self.log)?, self.records(&to)?);
        same(&before[..after.len().min(before.len())], &after, "the log that took over")?;
        let count = after.len();
        ensure!(count >= acknowledged, "of {acknowledged} acknowledged records {count} were taken over");
        self.log = to;
        Ok(())
    }

    /// The old writer appends on, and its shipper ends as refused by itself; also when it is started again.
    fn refused(&mut self) -> Result {
        let (old, url) = (self.log.clone(), self.address());
        let mut said = String::new();
        for _ in 0..20 {
            self.keep_appending()?;
            self.keep_shipping()?;
            for _ in 0..600 {
                if !running(&mut self.shipper) {
                    break;
                }
                self.keep_appending()?;
                self.write();
                std::thread::sleep(Duration::from_millis(100));
            }
            ensure!(!running(&mut self.shipper), "an old writer ships on: {}", self.shipper_said());
            said = self.shipper_said();
            if names_another(&said) {
                break;
            }
            self.shipper = None;
        }
        ensure!(names_another(&said), "an old writer was not refused: {said}");
        self.shipper = None;
        for _ in 0..20 {
            let done;
            (done, said) = Self::ran(self.ship(&old, &url, &["--once"]))?;
            if done {
                break;
            }
            if names_another(&said) {
                self.replaced += 1;
                return Ok(());
            }
        }
        fail!("an old writer that started again was not refused: {said}")
    }

    /// The log again, from its destination.
    fn rebuild(&mut self) -> Result<PathBuf> {
        let to = self.new_folder("log");
        let name = to.display().to_string();
        self.at_last("no rebuild", |all| {
            all.seawall(&["log", "rebuild", &name, "--from", &all.address(), "--fence"])
        })?;
        Ok(to)
    }

    /// Two standbys at once, one of which may be killed in the middle: exactly one wins.
    fn race(&mut self) -> Result<PathBuf> {
        self.standby = None;
        let standbys = [self.copy.clone(), self.new_folder("standby")];
        for copy in &standbys {
            self.at_last("no standby", |all| all.follow(copy, &["--once"]))?;
        }
        if self.draw(3) == 0 {
            let killed = Running::start(&mut self.taking(&standbys[0]))?;
            std::thread::sleep(Duration::from_millis(self.draw(400)));
            drop(killed);
        }
        let is_log = |copy: &PathBuf| !copy.join("REBUILDING").exists();
        for _ in 0..60 {
            let taking: Result<Vec<Child>> = standbys
                .iter()
                .filter(|copy| !is_log(copy))
                .map(|copy| self.taking(copy).stderr(Stdio::piped()).spawn().map_err(Error::at("takeover")))
                .collect();
            for taking in taking? {
                taking.wait_with_output().map_err(Error::at("takeover"))?;
            }
            let winners: Vec<&PathBuf> = standbys.iter().filter(|copy| is_log(copy)).collect();
            match winners[..] {
                [] => std::thread::sleep(Duration::from_secs(1)),
                [winner] => {
                    let loser = standbys.iter().find(|copy| *copy != winner).cloned().unwrap_or_default();
                    self.lost(&loser)?;
                    self.copy = self.new_folder("standby");
                    return Ok(winner.clone());
                }
                _ => fail!("two standbys took over"),
            }
        }
        fail!("no standby took over")
    }

    fn taking(&self, copy: &Path) -> std::process::Command {
        self.seawall(&["log", "takeover", &copy.display().to_string(), "--from", &self.address(), "--fence"])
    }

    /// Whoever comes second is refused, however often it tries.
    fn lost(&self, loser: &Path) -> Result {
        for _ in 0..60 {
            let (done, said) = Self::ran(self.taking(loser))?;
            ensure!(!done, "a second standby took over: {said}");
            if names_another(&said) {
                return files::remove_folder(loser);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        fail!("a standby that lost was not told so")
    }

    /// An object is deleted or changed: a drill says which, a rebuild from there alone refuses, and another copy makes up for it.
    fn damage(&mut self, flip: bool) -> Result {
        self.appender = None;
        self.standby = None;
        self.caught_up()?;
        let prefix = archive(self);
        let (damaged, log) = (Bucket::address(&prefix), self.log.clone());
        let sound = if nodes(self) {
            self.address()
        } else {
            format!("folder:{}", self.new_folder("second").display())
        };
        let other = if nodes(self) { damaged.clone() } else { sound.clone() };
        self.at_last("no second copy", |all| all.ship(&log, &other, &["--once", "--object-bytes", "4k"]))?;
        let records = self.records(&log)?;
        // Messages under a sound pack are not looked at, and a pack is never needed.
        let packs = files::list(&self.bucket.folder(&prefix).join("packs")).unwrap_or_default();
        for pack in packs {
            std::fs::remove_file(&pack).map_err(Error::at(pack.display()))?;
        }
        let messages = self.bucket.messages(&prefix)?;
        // A log by itself cannot tell that its last message is missing.
        let among = messages.len() as u64 - u64::from(!flip);
        let at = usize::try_from(self.draw(among)).unwrap_or_default();
        let (path, named) = (&messages[at], format!("message {} of", at + 1));
        let bytes = std::fs::read(path).map_err(Error::at(path.display()))?;
        if flip {
            let mut changed = bytes.clone();
            let byte = usize::try_from(self.draw(bytes.len() as u64)).unwrap_or_default();
            changed[byte] ^= 1 << self.draw(8);
            std::fs::write(path, changed).map_err(Error::at(path.display()))?;
        } else {
            // Beside the bucket, with its attributes.
            std::fs::rename(path, self.folder.join("deleted")).map_err(Error::at(path.display()))?;
        }
        let name = log.display().to_string();
        let drilled = Self::ran(self.seawall(&["log", "drill", "--from", &damaged, "--log", &name]))?;
        found(&drilled, &named, "a drill")?;
        let again = self.new_folder("again");
        let to = again.display().to_string();
        if self.draw(2) == 0 {
            let alone = Self::ran(self.seawall(&["log", "rebuild", &to, "--copy", "--from", &damaged]))?;
            found(&alone, &named, "a rebuild from there alone")?;
            ensure!(!again.exists(), "a rebuild that failed left a log");
        }
        let both = ["log", "rebuild", &to, "--copy", "--from", &damaged, "--from", &sound];
        let rebuilt = Self::ran(self.seawall(&both))?;
        found(&rebuilt, "made up for it", "a rebuild from both")?;
        same(&records, &self.records(&again)?, "what was rebuilt from both")?;
        if flip {
            std::fs::write(path, bytes).map_err(Error::at(path.display()))?;
        } else {
            std::fs::rename(self.folder.join("deleted"), path).map_err(Error::at(path.display()))?;
        }
        self.printed(&["log", "drill", "--from", &damaged, "--log", &name]).map(drop)
    }
}

/// Fails unless a command failed and named this.
fn found((done, said): &(bool, String), named: &str, what: &str) -> Result {
    ensure!(!done && said.contains(named), "{what} did not name \"{named}\": {said}");
    Ok(())
}
