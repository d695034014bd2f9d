//! The interpreter of `tests/behaviour/cases.txt` for Rust; the head of that file defines its language.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use seawall::{
    Durability, Error, LeftInMemory, Log, Lsn, MethodChoice, Options, ReadPin, Record, StreamId, Tail, View,
    ViewStreamFollower,
};

/// Makes the command of a child that is given these arguments.
pub(crate) type StartChild<'a> = &'a dyn Fn(&[String]) -> Result<Command, String>;

/// What a step gives, or the name of its error.
type Given = Result<String, String>;

/// Runs an interpreter with its arguments; gives how many cases failed, or why it cannot run.
pub(crate) fn run(arguments: &[String], start: StartChild<'_>) -> Result<usize, String> {
    let usage = "usage: CASES ROOT write|check|child LINE";
    let [cases, root, mode, line @ ..] = arguments else { return Err(usage.to_owned()) };
    let text = std::fs::read_to_string(cases).map_err(|error| format!("{cases}: {error}"))?;
    let lines: Vec<&str> = text.lines().collect();
    let run = Run { lines: &lines, cases, root: Path::new(root), start };
    match (mode.as_str(), line) {
        ("write" | "check", []) => run.all(mode == "check"),
        ("child", [line]) => run.child(line.parse().map_err(|_| usage.to_owned())?),
        _ => Err(usage.to_owned()),
    }
}

struct Run<'a> {
    lines: &'a [&'a str],
    cases: &'a str,
    root: &'a Path,
    start: StartChild<'a>,
}

impl Run<'_> {
    fn name(&self, line: usize) -> Option<&str> {
        self.lines.get(line)?.strip_prefix("case ")
    }

    /// Where the case that begins at `line` ends.
    fn end(&self, line: usize) -> usize {
        (line + 1..self.lines.len()).find(|at| self.name(*at).is_some()).unwrap_or(self.lines.len())
    }

    fn all(&self, check: bool) -> Result<usize, String> {
        let (mut cases, mut failed, mut names) = (0, 0, HashSet::new());
        for begin in (0..self.lines.len()).filter(|at| self.name(*at).is_some()) {
            let name = self.name(begin).unwrap_or_default();
            if !names.insert(name) {
                return Err(format!("{}: the case {name} is there twice", begin + 1));
            }
            let end = self.end(begin);
            let then = (begin..end).find(|at| self.lines[*at] == "then").unwrap_or(end);
            if !check {
                std::fs::create_dir(self.root.join(name)).map_err(|error| format!("{name}: {error}"))?;
            }
            let mut state = State::new(self.root.join(name));
            let problem = self.steps(&mut state, if check { then } else { begin } + 1, end);
            (cases, failed) = (cases + 1, failed + usize::from(problem.is_err()));
            problem.unwrap_or_else(|problem| println!("{problem}"));
        }
        println!("{cases} cases, {failed} failed");
        if cases == 0 { Err(format!("{} has no cases", self.cases)) } else { Ok(failed) }
    }

    /// What the child of `line` runs; it ends when it is killed, or its parent is.
    fn child(&self, line: usize) -> Result<usize, String> {
        let begin = (0..line).rev().find_map(|at| self.name(at)).ok_or("no case has this line")?;
        let mut state = State::new(self.root.join(begin));
        let ends = |at: &usize| matches!(self.lines[*at], "meanwhile" | "killed");
        let end = (line..self.lines.len()).find(ends).ok_or("the child has no end")?;
        if let Err(problem) = self.steps(&mut state, line, end) {
            println!("{problem}");
            return Ok(1);
        }
        println!("ready");
        let _ = std::io::stdin().read(&mut [0]);
        Ok(0)
    }

    /// Runs the lines from `from` to before `to`, counted from 0; the first step that gave something else.
    fn steps(&self, state: &mut State, from: usize, to: usize) -> Result<(), String> {
        let mut at = from;
        let mut child = None;
        while at < to {
            let line = self.lines[at];
            at += 1;
            match line {
                "" | "meanwhile" => {}
                "then" => *state = State::new(state.root.clone()),
                _ if line.starts_with('#') => {}
                "child" => {
                    child = Some(self.start_child(at)?);
                    let ends = |at: &usize| matches!(self.lines[*at], "meanwhile" | "killed");
                    at = (at..to).find(ends).ok_or_else(|| format!("{at}: the child has no end"))?;
                }
                "killed" => {
                    let mut child = child.take().ok_or_else(|| format!("{at}: there is no child"))?;
                    let ended = child.0.kill().and_then(|()| child.0.wait());
                    ended.map_err(|error| format!("{at}: {error}"))?;
                }
                _ => {
                    let (step, expected) = expectation(line);
                    let given = state.step(step);
                    let as_expected = match (&given, &expected) {
                        (Ok(given), Some(Ok(words))) => given == words,
                        (Err(given), Some(Err(error))) => given == error,
                        (Ok(_), None) => true,
                        _ => false,
                    };
                    if !as_expected {
                        let shown = given.unwrap_or_else(|error| format!("! {error}"));
                        return Err(format!("{at}: {line}: gave {shown}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn start_child(&self, line: usize) -> Result<Child, String> {
        let arguments =
            [self.cases, &self.root.to_string_lossy(), "child", &line.to_string()].map(str::to_owned);
        let mut command = (self.start)(&arguments)?;
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = Child(started.map_err(|error| format!("{line}: {error}"))?);
        let mut said = Vec::new();
        for line in BufReader::new(child.0.stdout.take().ok_or("no pipe")?).lines().map_while(Result::ok) {
            if line == "ready" {
                return Ok(child);
            }
            said.push(line);
        }
        Err(said.join("; "))
    }
}

/// A child, which does not outlive this.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A line as its step and what that must give.
fn expectation(line: &str) -> (&str, Option<Given>) {
    if let Some((step, error)) = line.split_once(" ! ") {
        return (step, Some(Err(error.to_owned())));
    }
    match line.split_once(" =") {
        Some((step, words)) if words.is_empty() || words.starts_with(' ') => {
            (step, Some(Ok(words.trim_start().to_owned())))
        }
        _ => (line, None),
    }
}

fn payload(word: &str) -> Vec<u8> {
    match word.split_once('*') {
        Some((letter, count)) => letter.repeat(count.parse().unwrap_or(0)).into_bytes(),
        None => if word == "\"\"" { "" } else { word }.into(),
    }
}

fn shown(record: &Record) -> String {
    let stream = record.stream.map_or(String::new(), |at| format!("{}/{}:", at.stream, at.seq));
    let payload = &record.payload;
    let word = match payload.first() {
        None => "\"\"".to_owned(),
        Some(first) if payload.len() > 8 && payload.iter().all(|byte| byte == first) => {
            format!("{}*{}", char::from(*first), payload.len())
        }
        _ => String::from_utf8_lossy(payload).into_owned(),
    };
    stream + &word
}

fn all(records: impl Iterator<Item = seawall::Result<Record>>) -> Result<String, Failed> {
    let words: Result<Vec<_>, Error> = records.map(|record| Ok(shown(&record?))).collect();
    Ok(words?.join(" "))
}

/// Why a step failed: an error of the log, or of the step itself.
struct Failed(String);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(error.name().to_owned())
    }
}

impl From<&str> for Failed {
    fn from(problem: &str) -> Self {
        Self(problem.to_owned())
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// What a case has in hand.
struct State {
    root: PathBuf,
    dir: PathBuf,
    log: Option<Log>,
    pin: Option<ReadPin>,
    held: Option<ViewStreamFollower>,
}

impl State {
    fn new(root: PathBuf) -> Self {
        Self { dir: root.join("log"), root, log: None, pin: None, held: None }
    }

    fn step(&mut self, step: &str) -> Given {
        let words: Vec<&str> = step.split(' ').collect();
        self.directory(&words).map_err(|Failed(problem)| problem)
    }

    /// Steps that need no open log.
    fn directory(&mut self, words: &[&str]) -> Result<String, Failed> {
        match *words {
            ["at", name] => self.dir = self.root.join(name),
            ["file", name, word] => {
                std::fs::create_dir_all(&self.dir)?;
                std::fs::write(self.dir.join(name), payload(word))?;
            }
            ["damage", word] => damage(&self.dir, &payload(word))?,
            ["open", ref options @ ..] => return self.open(options),
            ["drop"] => drop(self.log.take()),
            ["view"] => {
                let view = View::open(&self.dir)?;
                let writer = if view.has_writer() == Some(false) { "idle" } else { "written" };
                return Ok(format!("{} {} {writer}", view.first_lsn(), view.end_lsn()));
            }
            ["view_read", from] => return all(View::open(&self.dir)?.read(lsn(from)?)?),
            ["view_follow", from, ms] => {
                let mut follower = View::open(&self.dir)?.follow(lsn(from)?)?;
                let found = follower.next_record_timeout(time(ms)?)?;
                return Ok(found.map_or("end".to_owned(), |record| shown(&record)));
            }
            ["view_stream_bounds", number] => {
                let stream = View::open(&self.dir)?.stream(id(number)?)?;
                return Ok(format!("{} {}", stream.first_seq(), stream.next_seq()));
            }
            ["view_stream_read", stream, seq] => {
                return all(View::open(&self.dir)?.stream(id(stream)?)?.read(number(seq)?)?);
            }
            ["view_stream_hold", stream, seq] => {
                self.held = Some(View::open(&self.dir)?.stream(id(stream)?)?.follow(number(seq)?)?);
            }
            ["view_stream_next", ms] => {
                let held = self.held.as_mut().ok_or("there is no follower in hand")?;
                let found = held.next_record_timeout(time(ms)?)?;
                return Ok(found.map_or("end".to_owned(), |record| shown(&record)));
            }
            ["verify"] => {
                let report = seawall::verify(&self.dir)?;
                return Ok(format!("{} {}", report.records, report.damage.len()));
            }
            ["backup", name] => {
                let copy = seawall::backup(&self.dir, self.root.join(name))?.report;
                return Ok(format!("{} {}", copy.first, copy.end));
            }
            _ => return self.opened(words),
        }
        Ok(String::new())
    }

    fn open(&mut self, words: &[&str]) -> Result<String, Failed> {
        let mut options = Options::default().segment_bytes(65536).batch_bytes(16384).memory_bytes(1 << 20);
        options = options.idle_mark(Duration::from_hours(1));
        options = options.method(MethodChoice::Named("buffered+fdatasync".to_owned()));
        for word in words {
            let (name, value) = word.split_once('=').ok_or("an option is NAME=VALUE")?;
            let number = value.parse::<u64>().unwrap_or(u64::MAX);
            let small = usize::try_from(number).unwrap_or(usize::MAX);
            options = match name {
                "segment_bytes" => options.segment_bytes(number),
                "block_bytes" => options.block_bytes(u16::try_from(number).unwrap_or(u16::MAX)),
                "record_bytes_max" => options.record_bytes_max(small),
                "method" => options.method(MethodChoice::Named(value.to_owned())),
                "durability" => options.durability(class(value)?),
                "create" => options.create(value != "0"),
                _ => return Err("this interpreter has no such option".into()),
            };
        }
        let log = Log::open(&self.dir, options)?;
        let opened = log.opened();
        let tail = match opened.tail {
            Tail::New => "new",
            Tail::Clean => "clean",
            Tail::Torn => "torn",
            _ => "lost",
        };
        let given = format!("{tail} {} {}", opened.first, opened.end);
        (self.log, self.pin) = (Some(log), None);
        Ok(given)
    }

    /// Steps of the open log.
    fn opened(&mut self, words: &[&str]) -> Result<String, Failed> {
        let log = self.log.as_ref().ok_or("there is no log in hand")?;
        let end = match *words {
            ["left"] => {
                return Ok(match log.opened().left_in_memory {
                    LeftInMemory::Nothing => "nothing".to_owned(),
                    LeftInMemory::Taken { records } => format!("taken {records}"),
                    _ => "worthless".to_owned(),
                });
            }
            ["evidence"] => return Ok(log.opened().evidence.name().to_owned()),
            ["close"] => return Ok(log.close_async().wait().map(|()| String::new())?),
            ["append", ref payloads @ ..] => {
                let ends: Result<Vec<Lsn>, Error> =
                    payloads.iter().map(|word| Ok(log.append(&payload(word))?.end)).collect();
                ends?.pop().ok_or("nothing to append")?
            }
            ["try_append", word] => log.try_append(&payload(word))?.end,
            ["append_commit", word] => log.append_commit(&payload(word))?.end,
            ["transaction", ref parts @ ..] => log.transaction::<Failed>(|transaction| {
                for part in parts {
                    match *part.split(':').collect::<Vec<_>>() {
                        ["trim", stream, seq] => transaction.trim(id(stream)?, number(seq)?)?,
                        ["truncate", stream, seq] => transaction.truncate(id(stream)?, number(seq)?)?,
                        ["remove", stream] => transaction.remove(id(stream)?)?,
                        [stream, word] => transaction.append_to(id(stream)?, &payload(word))?,
                        _ => transaction.append(&payload(part))?,
                    }
                }
                Ok(())
            })?,
            ["commit"] => return Ok(log.commit(log.appended_lsn()).map(|()| String::new())?),
            ["commit", end] => return Ok(log.commit(lsn(end)?).map(|()| String::new())?),
            ["commit", end, name] => {
                return Ok(log.commit_as(lsn(end)?, class(name)?).map(|()| String::new())?);
            }
            ["lsns"] => {
                return Ok(format!("{} {} {}", log.first_lsn(), log.appended_lsn(), log.durable_lsn()));
            }
            ["read", from] => return all(log.read(lsn(from)?)?),
            ["read_at", at] => return Ok(shown(&log.read_at(lsn(at)?)?)),
            ["read_before", end] => {
                return Ok(log.read_before(lsn(end)?)?.map_or("none".to_owned(), |record| shown(&record)));
            }
            ["follow", from, ms] => {
                let found = log.follow(lsn(from)?)?.next_record_timeout(time(ms)?)?;
                return Ok(found.map_or("end".to_owned(), |record| shown(&record)));
            }
            ["trim", to] => log.trim(lsn(to)?)?,
            ["truncate_after", from] => log.truncate_after(lsn(from)?)?,
            ["pin", at] => {
                self.pin = Some(log.pin(lsn(at)?)?);
                return Ok(String::new());
            }
            ["unpin"] => {
                self.pin = None;
                return Ok(String::new());
            }
            ["log_backup", name] => {
                let copy = log.backup(self.root.join(name))?.report;
                return Ok(format!("{} {}", copy.first, copy.end));
            }
            ["streams"] => {
                let ids: Vec<_> = log.streams().iter().map(ToString::to_string).collect();
                return Ok(ids.join(" "));
            }
            [step, stream, ref rest @ ..] if step.starts_with("stream_") => {
                return of_stream(log, step, id(stream)?, rest);
            }
            _ => return Err("this interpreter has no such step".into()),
        };
        Ok(end.to_string())
    }
}

fn of_stream(log: &Log, step: &str, stream: StreamId, rest: &[&str]) -> Result<String, Failed> {
    let stream = log.stream(stream);
    let end = match (step, rest) {
        ("stream_append", [word]) => {
            let appended = stream.append(&payload(word))?;
            return Ok(format!("{} {}", appended.seq, appended.end));
        }
        ("stream_read", [seq]) => return all(stream.read(number(seq)?)?),
        ("stream_get", [seq]) => return Ok(shown(&stream.get(number(seq)?)?)),
        ("stream_follow", [seq, ms]) => {
            let found = stream.follow(number(seq)?)?.next_record_timeout(time(ms)?)?;
            return Ok(found.map_or("end".to_owned(), |record| shown(&record)));
        }
        ("stream_bounds", []) => return Ok(format!("{} {}", stream.first_seq(), stream.next_seq())),
        ("stream_trim", [seq]) => stream.trim(number(seq)?)?,
        ("stream_truncate", [seq]) => stream.truncate(number(seq)?)?,
        ("stream_remove", []) => stream.remove()?,
        _ => return Err("this interpreter has no such step".into()),
    };
    Ok(end.to_string())
}

fn number(word: &str) -> Result<u64, Failed> {
    word.parse().map_err(|_| Failed(format!("{word} is no number")))
}

fn lsn(word: &str) -> Result<Lsn, Failed> {
    number(word).map(Lsn::new)
}

fn time(word: &str) -> Result<Duration, Failed> {
    number(word).map(Duration::from_millis)
}

fn id(word: &str) -> Result<StreamId, Failed> {
    u32::try_from(number(word)?).ok().and_then(StreamId::new).ok_or_else(|| "invalid_argument".into())
}

fn class(word: &str) -> Result<Durability, Failed> {
    let found = Durability::ALL.into_iter().find(|class| class.name().replace(' ', "_") == word);
    found.ok_or_else(|| "there is no such class".into())
}

fn damage(dir: &Path, bytes: &[u8]) -> Result<(), Failed> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(dir)?.flatten().map(|entry| entry.path()).collect();
    names.sort();
    for name in names.iter().filter(|name| name.extension().is_some_and(|end| end == "seg")) {
        let mut content = std::fs::read(name)?;
        if let Some(at) = content.windows(bytes.len()).position(|found| found == bytes) {
            content[at] ^= 0xff;
            std::fs::write(name, content)?;
            return Ok(());
        }
    }
    Err("nothing to damage".into())
}
