//! The faults of a campaign: what each does, where it is possible, and how often it is drawn.

use super::bucket::Bucket;
use super::network::Network;
use super::proxy::Trouble;
use super::{Campaign, REPLACED, end, running, same};
use crate::error::{Error, Result};
use crate::shell::{command, output};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// A row of the table.
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) weight: u64,
    pub(super) possible: fn(&Campaign) -> bool,
    pub(super) inject: fn(&mut Campaign) -> Result,
}

/// Loses what goes from and to a node, or ends that.
type Lose = fn(&Network, usize, bool) -> Result;

/// What is in the way of a take-over.
enum Hindrance {
    None,
    Killed(usize),
    Cut(usize, Lose),
    /// Of so many requests one meets it.
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
pub(super) const FAULTS: [Fault; 21] = [
    Fault { name: "shipper killed", weight: 6, possible: always, inject: |all| { end(&mut all.shipper); Ok(()) } },
    Fault { name: "appender killed", weight: 4, possible: always, inject: |all| { end(&mut all.appender); Ok(()) } },
    Fault { name: "standby killed", weight: 4, possible: always, inject: |all| { end(&mut all.standby); Ok(()) } },
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
];

/// Where the log is archived that is damaged: of a cluster's log an archive beside it, each time another.
fn archive(all: &mut Campaign) -> String {
    all.named += 1;
    if nodes(all) { format!("beside-{}", all.named) } else { "faults".to_owned() }
}

fn node(all: &mut Campaign) -> usize {
    usize::try_from(all.draw(3)).unwrap_or_default()
}

/// Does something to the cluster, if there is one.
fn with(all: &mut Campaign, work: impl FnOnce(&mut super::Cluster) -> Result) -> Result {
    all.cluster.as_mut().map_or(Ok(()), work)
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
    with(all, |cluster| {
        cluster.kill(node);
        Ok(())
    })?;
    all.append(steps)?;
    with(all, |cluster| cluster.start(node))
}

/// No majority is left, and nothing is acknowledged.
fn kill_two(all: &mut Campaign) -> Result {
    let (node, steps) = (node(all), while_it_lasts(all));
    let two = [node, (node + 1) % 3];
    with(all, |cluster| {
        for node in two {
            cluster.kill(node);
        }
        Ok(())
    })?;
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
    with(all, |cluster| cluster.is_whole_again(node))
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

fn signal(child: Option<&Child>, signal: &str) -> Result {
    let Some(child) = child else { return Ok(()) };
    output(command("kill", &[signal, &child.id().to_string()])).map(drop)
}

impl Campaign {
    /// All requests, or some, meet it for a while; at times `ship` and the standby start meanwhile.
    fn trouble(&mut self, trouble: Trouble) -> Result {
        let (steps, one_in) = (self.draw(80), self.draw(3) + 1);
        self.bucket.proxy.set(trouble, one_in);
        let before = self.append(steps / 2);
        if self.draw(3) == 0 {
            end(&mut self.shipper);
            end(&mut self.standby);
        }
        let behind = before.and_then(|()| self.append(steps / 2));
        self.bucket.proxy.clear();
        behind
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
            Hindrance::Killed(node) => with(self, |cluster| {
                cluster.kill(node);
                Ok(())
            })?,
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
        end(&mut self.appender);
        // What the new one has is the beginning of what the old one has, with all that was acknowledged.
        let (before, after) = (self.records(&self.log)?, self.records(&to)?);
        same(&before[..after.len().min(before.len())], &after, "the log that took over")?;
        if after.len() < acknowledged {
            let count = after.len();
            return Err(Error::check(format!(
                "of {acknowledged} acknowledged records {count} were taken over"
            )));
        }
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
            if running(&mut self.shipper) {
                return Err(Error::check(format!("an old writer ships on: {}", self.shipper_said())));
            }
            said = self.shipper_said();
            if names_another(&said) {
                break;
            }
            end(&mut self.shipper);
        }
        if !names_another(&said) {
            return Err(Error::check(format!("an old writer was not refused: {said}")));
        }
        end(&mut self.shipper);
        for _ in 0..20 {
            let (done, said) = Self::ran(self.ship(&old, &url, &["--once"]))?;
            if done {
                return Err(Error::check(format!(
                    "an old writer that started again was not refused: {said}"
                )));
            }
            if names_another(&said) {
                self.replaced += 1;
                return Ok(());
            }
        }
        Err(Error::check("an old writer that started again was not refused"))
    }

    /// The log anew, from its destination.
    fn rebuild(&mut self) -> Result<PathBuf> {
        let to = self.new_folder("log");
        let name = to.display().to_string();
        self.at_last("no rebuild", |all| all.seawall(&["log", "rebuild", &name, "--from", &all.address()]))?;
        Ok(to)
    }

    /// Two standbys at once, one of which may be killed in the middle: exactly one wins.
    fn race(&mut self) -> Result<PathBuf> {
        end(&mut self.standby);
        let standbys = [self.copy.clone(), self.new_folder("standby")];
        for copy in &standbys {
            self.at_last("no standby", |all| all.follow(copy, &["--once"]))?;
        }
        if self.draw(3) == 0 {
            let killed = self.taking(&standbys[0]).spawn().map_err(Error::at("takeover"))?;
            std::thread::sleep(Duration::from_millis(self.draw(400)));
            end(&mut Some(killed));
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
                _ => return Err(Error::check("two standbys took over")),
            }
        }
        Err(Error::check("no standby took over"))
    }

    fn taking(&self, copy: &Path) -> std::process::Command {
        self.seawall(&["log", "takeover", &copy.display().to_string(), "--from", &self.address()])
    }

    /// Whoever comes second is refused, however often it tries.
    fn lost(&self, loser: &Path) -> Result {
        for _ in 0..60 {
            let (done, said) = Self::ran(self.taking(loser))?;
            if done {
                return Err(Error::check(format!("a second standby took over: {said}")));
            }
            if names_another(&said) {
                return std::fs::remove_dir_all(loser).map_err(Error::at(loser.display()));
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        Err(Error::check("a standby that lost was not told so"))
    }

    /// An object is deleted or changed: a drill says which, a rebuild from there alone refuses, and another copy makes up for it.
    fn damage(&mut self, flip: bool) -> Result {
        end(&mut self.appender);
        end(&mut self.standby);
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
            if again.exists() {
                return Err(Error::check("a rebuild that failed left a log"));
            }
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

fn names_another(said: &str) -> bool {
    REPLACED.iter().any(|word| said.contains(word))
}

/// Fails unless a command failed and named this.
fn found((done, said): &(bool, String), named: &str, what: &str) -> Result {
    if *done || !said.contains(named) {
        return Err(Error::check(format!("{what} did not name \"{named}\": {said}")));
    }
    Ok(())
}
