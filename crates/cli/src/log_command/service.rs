//! Runs shipments and standbys as services: health, metrics, periodic status lines, and waiting for a log or a destination.
//!
//! | metric | kind | says |
//! | --- | --- | --- |
//! | `seawall_ship_up` | gauge | 1 while a log is shipped; 0 while it waits for log or destination, and once it has ended |
//! | `seawall_standby_up` | gauge | 1 while a standby reads; 0 while its destination is away, and once it has ended |
//! | `seawall_standby_lsn` | gauge | LSN up to which the copy is complete |
//! | `seawall_standby_behind_seconds` | gauge | seconds since the copy was last complete |
//!
//! Invariants: one that ends leaves the others alone, and its error is printed when it ends; health is bad if any of them has ended, waits,
//! or has failed for a minute; the exit code is that of the gravest end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::Args;
use metrics::Gauge;
use seawall_host::text::printable;
use seawall_ship::status::Said;
use seawall_ship::{Ending, Error};
use seawall_sys::clock::{monotonic_ns, unix_seconds};

use super::Stop;
use crate::amounts;
use crate::exit::{AWAY, DAMAGED, FENCED, FORKED, Failure};
use crate::exposition::{Family, Kind};
use crate::recorder::Recorded;
use crate::server::{self, Page};
use crate::signals::STOP;

/// How often it looks whether it is to end.
pub(super) const LISTEN_EVERY: Duration = Duration::from_millis(100);
/// How long it waits before it looks again for what it waits for.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How often it says beside the log that nothing has changed.
const NOTE_EVERY: Duration = Duration::from_mins(1);
/// How long requests may fail before health is bad.
const FAILING_MAX: Duration = Duration::from_mins(1);

#[derive(Debug, Default, Args)]
pub(super) struct Serving {
    /// Serve /metrics and /health over HTTP at this address and port; port 0 takes a free one and prints it
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "As a service")]
    pub(super) listen: Option<SocketAddr>,
    /// Print a line every TIME: what is acknowledged, the lag, what fails
    #[arg(long, value_name = "TIME", value_parser = amounts::time, help_heading = "As a service")]
    pub(super) say_every: Option<Duration>,
    /// Wait indefinitely for a log that does not exist yet and for a destination that does not answer
    #[arg(long, help_heading = "As a service")]
    pub(super) wait: bool,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        let text = printable(&error.to_string()).into_owned();
        Self::Failed(match code(error.ending()) {
            Some(2) => Failure::Usage(text),
            Some(code) => Failure::Coded(code, text),
            None => Failure::Message(text),
        })
    }
}

pub(super) fn code(ending: Ending) -> Option<u8> {
    match ending {
        Ending::Away => Some(AWAY),
        Ending::Fenced => Some(FENCED),
        Ending::Forked => Some(FORKED),
        Ending::Damaged => Some(DAMAGED),
        Ending::Usage => Some(2),
        Ending::Local => None,
    }
}

/// What one of them is doing.
#[derive(Clone, Debug)]
enum State {
    /// It waits for its log or its destination, for this reason.
    Waits(String),
    Works,
    /// Its requests fail since then, for this reason.
    Fails(u64, String),
    Ended(String),
    /// It was asked to end.
    Stopped,
}

/// One shipment or standby.
pub(super) struct Entry {
    /// Which folder, and which destination.
    pub(super) name: String,
    state: Mutex<State>,
    up: Gauge,
    said_ns: Mutex<u64>,
    say_every: Option<Duration>,
    /// Where it records its state, beside the log.
    note: Mutex<Note>,
}

/// What is said in the log's folder.
struct Note {
    dir: Option<PathBuf>,
    said: Said,
    written_ns: u64,
}

impl Entry {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says beside the log what it is doing: when that changes, and now and then.
    fn note(&self, state: &State) {
        let (name, why) = match state {
            State::Waits(why) => ("waits", Some(why)),
            State::Works => ("works", None),
            State::Fails(_, why) => ("fails", Some(why)),
            State::Ended(why) => ("ended", Some(why)),
            State::Stopped => ("stopped", None),
        };
        let mut note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = note.said.state == name
            && why.is_none_or(|why| note.said.last_error.as_ref().is_some_and(|(_, before)| before == why));
        let is_fresh = Duration::from_nanos(monotonic_ns() - note.written_ns) < NOTE_EVERY;
        if is_known && is_fresh {
            return;
        }
        let now = unix_seconds();
        (note.said.state, note.said.unix_s, note.written_ns) = (name.to_owned(), now, monotonic_ns());
        if let Some(why) = why {
            note.said.last_error = Some((now, why.clone()));
        }
        // A folder that is not there yet, or full: everything else reports the failure.
        let _ = note.dir.as_ref().map(|dir| note.said.write(dir));
    }

    /// It works, or its requests fail for this reason; a change is said.
    pub(super) fn works(&self, failing: Option<&str>) {
        let mut state = self.state();
        let next = match (&*state, failing) {
            (State::Fails(..), None) => {
                tell!("{}reachable again", self.prefix());
                State::Works
            }
            (_, None) => State::Works,
            (State::Fails(since_ns, before), Some(why)) => {
                if before != why {
                    tell!("{}away: {}", self.prefix(), printable(why));
                }
                State::Fails(*since_ns, why.to_owned())
            }
            (_, Some(why)) => {
                tell!("{}away: {}", self.prefix(), printable(why));
                State::Fails(monotonic_ns(), why.to_owned())
            }
        };
        self.up.set(f64::from(u8::from(matches!(next, State::Works))));
        self.note(&next);
        *state = next;
    }

    fn waits(&self, why: &str) {
        let mut state = self.state();
        if !matches!(&*state, State::Waits(before) if before == why) {
            tell!("{}waits: {}", self.prefix(), printable(why));
        }
        self.up.set(0.0);
        *state = State::Waits(why.to_owned());
        self.note(&state);
    }

    fn ended(&self, ended: &Result<(), Stop>) {
        self.up.set(0.0);
        let ended = ended.as_ref().map_or_else(|stop| State::Ended(stop.to_string()), |()| State::Stopped);
        self.note(&ended);
        *self.state() = ended;
    }

    pub(super) fn prefix(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!("{}: ", printable(&self.name)) }
    }

    /// Tries `begin` until it succeeds, as long as waiting may help and `wait` says so; `None` after a signal.
    pub(super) fn begin<T>(
        &self,
        wait: bool,
        mut begin: impl FnMut() -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        while !STOP.load(Ordering::SeqCst) {
            match begin() {
                Err(error) if wait && may_come(&error) => {
                    self.waits(&error.to_string());
                    pause(LOOK_AGAIN);
                }
                tried => {
                    if tried.is_ok() {
                        self.works(None);
                    }
                    return tried.map(Some);
                }
            }
        }
        Ok(None)
    }

    /// Prints what `text` says, if it is time for a line.
    pub(super) fn say(&self, text: impl FnOnce() -> String) {
        let Some(every) = self.say_every else { return };
        let mut said_ns = self.said_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = monotonic_ns();
        if Duration::from_nanos(now_ns - *said_ns) < every {
            return;
        }
        *said_ns = now_ns;
        let failing = match &*self.state() {
            State::Fails(since_ns, why) => {
                let seconds = Duration::from_nanos(now_ns - since_ns).as_secs();
                format!("; failing for {seconds} s: {}", printable(why))
            }
            _ => String::new(),
        };
        let now = std::time::UNIX_EPOCH + Duration::from_secs(unix_seconds());
        let now = humantime::format_rfc3339_seconds(now);
        tell!("{now} {}{}{failing}", self.prefix(), text());
    }
}

/// Whether it helps to wait: for a destination that answers, a log that is made, another service that ends.
fn may_come(error: &Error) -> bool {
    error.ending() == Ending::Away || error.lacks_log() || matches!(error, Error::InUse { .. })
}

/// Waits for `time`, or until a signal.
pub(super) fn pause(time: Duration) {
    let begun_ns = monotonic_ns();
    while !STOP.load(Ordering::SeqCst) {
        let left = time.saturating_sub(Duration::from_nanos(monotonic_ns() - begun_ns));
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(LISTEN_EVERY));
    }
}

/// Whether all is well, and a line for each.
fn health(entries: &[Arc<Entry>], names: &[String]) -> (bool, String) {
    let mut is_well = true;
    let mut text = String::new();
    for (entry, name) in entries.iter().zip(names) {
        let (well, what) = match &*entry.state() {
            State::Works => (true, "works".to_owned()),
            State::Waits(why) => (false, format!("waits: {why}")),
            State::Ended(why) => (false, format!("ended: {why}")),
            State::Stopped => (false, "stopped".to_owned()),
            State::Fails(since_ns, why) => {
                let since = Duration::from_nanos(monotonic_ns() - since_ns);
                (since < FAILING_MAX, format!("failing for {} s: {why}", since.as_secs()))
            }
        };
        is_well &= well;
        text += &printable(&format!("{name}: {what}"));
        text.push('\n');
    }
    (is_well, text)
}

/// The folder of a log, and the address of its destination.
pub(super) struct Pair {
    pub(super) log: String,
    pub(super) address: String,
    /// Where a service records its state: the folder of the log that it ships.
    pub(super) notes: Option<PathBuf>,
}

/// Runs `run` for each of `pairs` at once, with what `serving` asks for, until all have ended; the metrics begin with `family`.
pub(super) fn run(
    pairs: &[Pair],
    family: (&'static str, &'static str),
    serving: &Serving,
    run: impl Fn(usize, &Entry) -> Result<(), Stop> + Sync,
) -> Result<(), Stop> {
    let listener = serving.listen.map(server::listen).transpose()?;
    // Handles are taken from it when shipping starts.
    let recorded = listener.as_ref().map(|_| Recorded::install());
    let (up, direction) = family;
    metrics::describe_gauge!(up, "1 while it works, 0 while it waits or fails, and once it has ended");
    let names: Vec<String> =
        pairs.iter().map(|pair| format!("{} {direction} {}", pair.log, pair.address)).collect();
    let entry = |(pair, name): (&Pair, &String)| {
        let labels = [("log", pair.log.clone()), (direction, pair.address.clone())];
        let up = metrics::gauge!(up, &labels);
        up.set(0.0);
        let state = Mutex::new(State::Waits("it begins".to_owned()));
        let name = if pairs.len() > 1 { name.clone() } else { String::new() };
        let said_ns = Mutex::new(monotonic_ns());
        let said = Said { to: pair.address.clone(), ..Said::default() };
        let note = Mutex::new(Note { dir: pair.notes.clone(), said, written_ns: 0 });
        Arc::new(Entry { name, state, up, said_ns, say_every: serving.say_every, note })
    };
    let entries: Vec<Arc<Entry>> = pairs.iter().zip(&names).map(entry).collect();
    if let (Some(listener), Some(recorded)) = (listener, recorded) {
        let address = listener.local_addr().map_err(Failure::message)?;
        let shown = entries.clone();
        let pages = move |path: &str, form: crate::exposition::Form| match path {
            "/metrics" => Some(Page::metrics(form, form.text(&with_build(recorded.families())))),
            "/health" => {
                let (is_well, text) = health(&shown, &names);
                Some(Page::health(is_well, text))
            }
            _ => None,
        };
        server::serve(listener, pages)?;
        tell!("metrics at http://{address}/metrics, health at http://{address}/health");
    }
    let run = |(index, entry): (usize, &Arc<Entry>)| {
        let ended = run(index, entry);
        entry.ended(&ended);
        if let (Err(stop), true) = (&ended, entries.len() > 1) {
            tell!("{}ended: {stop}", entry.prefix());
        }
        ended
    };
    if let [one] = &entries[..] {
        return run((0, one));
    }
    let ended: Vec<Result<(), Stop>> = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = entries.iter().enumerate().map(|pair| scope.spawn(move || run(pair))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    gravest(ended)
}

fn with_build(mut families: Vec<Family>) -> Vec<Family> {
    let build = Family::new("seawall_build", Kind::Info, "The version of the program.");
    families.push(build.with(&[("version", env!("CARGO_PKG_VERSION"))], &1));
    families
}

/// The end of all of them: that one which is to be looked at first.
fn gravest(ended: Vec<Result<(), Stop>>) -> Result<(), Stop> {
    let all = ended.len();
    let mut stops: Vec<Stop> = ended.into_iter().filter_map(Result::err).collect();
    let failed = stops.len();
    stops.sort_by_key(|stop| match stop {
        Stop::Gone => 0,
        Stop::Failed(Failure::Coded(AWAY, _)) => 1,
        Stop::Failed(Failure::Message(_) | Failure::Interrupted) => 2,
        Stop::Failed(Failure::Usage(_)) => 3,
        Stop::Failed(Failure::Coded(code, _)) => 3 + u16::from(*code),
    });
    let text = |text: String| format!("{failed} of {all} ended with an error, the most severe: {text}");
    match stops.pop() {
        None => Ok(()),
        Some(Stop::Gone) => Err(Stop::Gone),
        Some(Stop::Failed(Failure::Coded(code, why))) => Err(Failure::Coded(code, text(why)).into()),
        Some(Stop::Failed(Failure::Usage(why))) => Err(Failure::Usage(text(why)).into()),
        Some(Stop::Failed(failure)) => Err(Failure::Message(text(failure.to_string())).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ending, code, gravest};
    use crate::exit::{AWAY, FENCED, Failure};
    use crate::log_command::Stop;

    #[test]
    fn each_ending_has_a_code_of_its_own() {
        let mut codes: Vec<Option<u8>> = Ending::ALL.map(code).into();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Ending::ALL.len());
    }

    #[test]
    fn the_gravest_end_is_that_of_all() {
        let coded = |code| Err(Failure::Coded(code, "x".to_owned()).into());
        let end = gravest(vec![coded(AWAY), Ok(()), coded(FENCED), Err(Failure::message("y").into())]);
        assert!(matches!(end, Err(Stop::Failed(Failure::Coded(FENCED, text))) if text.starts_with("3 of 4")));
        assert!(gravest(vec![Ok(()), Ok(())]).is_ok());
    }
}
