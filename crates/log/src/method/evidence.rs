//! Compares the class of a log with what the devices below it counted while its method was tried: [`Evidence`].
//!
//! ```text
//!   class             counted during a few dozen commits             the log
//!   process crash     not looked at                                  opens
//!   system crash, or  each commit wrote at every level               opens: nothing needs a flush
//!   no volatile cache some did not                                   does not open
//!   power loss        each flushed every volatile cache              opens: confirmed
//!                     no counters, or not those of flushes           opens: not confirmed
//!                     some flushed none                              does not open
//! ```
//!
//! What was found is kept in `METHOD`, bound to the boot, the mount and the devices of which it was found, and shared by the logs
//! of a process as the probe is.
//!
//! Invariants: no class that the counters contradict is promised; without counters nothing is called confirmed; only what was
//! counted of these devices since this mount counts.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use seawall_sys::clock::monotonic_ns;
use seawall_sys::counters::{CommitWatch, Verdict};
use seawall_sys::directory::Directory;
use seawall_sys::durability::{DeviceCache, Durability};
use seawall_sys::inspect::{Environment, mount_instance};
use seawall_sys::method::Method;

use crate::error::{Error, Result};
use crate::method::shared;
use crate::method::trial::{self, Bounds, Trial};

/// Whether the devices' counters confirm the class of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// It needs no flush: the log promises less than power loss, or no device has a volatile cache.
    NotNeeded,
    /// Each commit that was watched flushed every volatile cache below.
    Confirmed,
    /// There is too little evidence, and the class rests on the word of system and device alone; the reason.
    NotConfirmed(String),
}

impl Evidence {
    /// Its name, as in `seawall log stat` and the file `METHOD`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotNeeded => NOT_NEEDED,
            Self::Confirmed => CONFIRMED,
            Self::NotConfirmed(_) => NOT_CONFIRMED,
        }
    }

    /// Why it is not confirmed, if it is not.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::NotConfirmed(why) => Some(why),
            Self::NotNeeded | Self::Confirmed => None,
        }
    }
}

impl Default for Evidence {
    fn default() -> Self {
        Self::NotConfirmed("nobody has looked".to_owned())
    }
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotNeeded => f.write_str("no flush needed"),
            Self::Confirmed => f.write_str("confirmed: every commit that was watched was flushed"),
            Self::NotConfirmed(why) => write!(f, "not confirmed: {why}"),
        }
    }
}

/// Why nothing was watched.
const NOTHING_COUNTS: &str = "no device with counters can be seen";
/// Commits that are watched where no probe was needed: enough to find one flush in twenty missing.
const WATCHED: usize = 64;
/// A slow disk is watched for no longer than this, nanoseconds.
const WATCHED_NS_MAX: u64 = 1_000_000_000;
/// Size of these commits and of the file that takes them, bytes.
const WATCHED_BYTES: usize = 4096;
const SCRATCH_BYTES: u64 = 16 * WATCHED_BYTES as u64;

/// What a log of `class` in `environment` may say of itself after this trial; as an error what its device left out.
pub(crate) fn judge(
    trial: &Trial,
    environment: &Environment,
    class: Durability,
) -> std::result::Result<Evidence, String> {
    if class == Durability::ProcessCrash {
        return Ok(Evidence::NotNeeded);
    }
    let durably = class == Durability::PowerLoss && environment.device_cache() != DeviceCache::WriteThrough;
    let verdict = trial
        .watched
        .as_ref()
        .map_or_else(|| Verdict::NotCounted(NOTHING_COUNTS.to_owned()), |watched| watched.verdict(durably));
    match verdict {
        Verdict::Missing(what) => Err(format!("{what} by {}", trial.method.id)),
        _ if !durably => Ok(Evidence::NotNeeded),
        Verdict::Confirmed => Ok(Evidence::Confirmed),
        Verdict::NotCounted(why) => Ok(Evidence::NotConfirmed(why)),
    }
}

/// The refusal of a class that the counters contradict.
pub(crate) fn refusal(dir: &Path, class: Durability, what: &str) -> Error {
    let reason = format!(
        "{what} at {}: something between the log and the disk drops them, so that acknowledged records would not outlive {}; look at \
         the mount options, /sys/block/*/queue/write_cache and the layers below (`seawall bench {0}`), or let the log promise less",
        dir.display(),
        class.name()
    );
    Error::InvalidOption { option: "durability", reason }
}

/// Watches a few commits by `method` alone, or takes what another log of this process found so.
pub(crate) fn watch(
    dir: &Directory,
    environment: &Environment,
    method: &'static Method,
    class: Durability,
) -> Result<Evidence> {
    if class == Durability::ProcessCrash || CommitWatch::open(environment, method).is_none() {
        let nothing = Trial { method, times_ns: Vec::new(), watched: None };
        return judge(&nothing, environment, class).map_err(|what| refusal(dir.path(), class, &what));
    }
    let bounds = Bounds {
        rounds: WATCHED,
        writes_per_round: 1,
        scratch_bytes: SCRATCH_BYTES,
        screened: None,
        until_ns: Some(monotonic_ns() + WATCHED_NS_MAX),
        kept: None,
    };
    let rows = [method];
    let try_it = || {
        let place = (dir, crate::method::select::SCRATCH_FILE);
        let tried = trial::run(place, environment, &rows, WATCHED_BYTES, &bounds);
        let evidence = match tried.as_deref() {
            Ok([trial]) => {
                judge(trial, environment, class).map_err(|what| refusal(dir.path(), class, &what))?
            }
            // A full disk, say: what the log itself writes will tell.
            Ok(_) => Evidence::NotConfirmed("the method could not be tried".to_owned()),
            Err(error) => Evidence::NotConfirmed(format!("the method could not be tried: {error}")),
        };
        Ok(vec![(method, evidence)])
    };
    let key = shared::Place { dir: dir.path(), environment, rows: &rows, bytes: WATCHED_BYTES, class };
    let (found, _) = shared::found(&key, false, try_it)?;
    let found = found.into_iter().next();
    Ok(found.map_or(Evidence::NotNeeded, |(_, evidence)| evidence))
}

/// The evidence of one method as `METHOD` keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptEvidence {
    method: String,
    /// What it was found of.
    key: String,
    evidence: Evidence,
}

/// What begins its line, which earlier versions pass over as a method that they do not know.
const LINE: &str = "evidence ";
const NOT_NEEDED: &str = "not-needed";
const CONFIRMED: &str = "confirmed";
const NOT_CONFIRMED: &str = "not-confirmed";

impl KeptEvidence {
    /// What was found of `method` for `class` in `dir`; `None` where the system cannot say which mount that is.
    pub(crate) fn new(
        dir: &Path,
        environment: &Environment,
        (method, class): (&Method, Durability),
        evidence: &Evidence,
    ) -> Option<Self> {
        let key = key(dir, environment, class)?;
        Some(Self { method: method.id.to_owned(), key, evidence: evidence.clone() })
    }

    /// Its evidence, if it is of this method on this mount.
    pub(crate) fn of(
        &self,
        dir: &Path,
        environment: &Environment,
        (method, class): (&Method, Durability),
    ) -> Option<Evidence> {
        let is_same = self.method == method.id && key(dir, environment, class).as_ref() == Some(&self.key);
        is_same.then(|| self.evidence.clone())
    }

    /// The id of the method.
    pub(crate) fn method(&self) -> &str {
        &self.method
    }

    /// The evidence of a line; `None` if it is none.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix(LINE)?.splitn(4, ' ');
        let mut word = || words.next().map(str::trim);
        let (method, key, found) = (word()?, word()?, word()?);
        let evidence = match found {
            NOT_NEEDED => Evidence::NotNeeded,
            CONFIRMED => Evidence::Confirmed,
            NOT_CONFIRMED => Evidence::NotConfirmed(word().unwrap_or_default().to_owned()),
            _ => return None,
        };
        Some(Self { method: method.to_owned(), key: key.to_owned(), evidence })
    }

    pub(crate) fn line(&self) -> String {
        const WHY_MAX: usize = 400;
        let found = match &self.evidence {
            found @ (Evidence::NotNeeded | Evidence::Confirmed) => found.name().to_owned(),
            Evidence::NotConfirmed(why) => {
                let why: String = why.chars().filter(|c| !c.is_control()).take(WHY_MAX).collect();
                format!("{NOT_CONFIRMED} {why}")
            }
        };
        format!("{LINE}{} {} {found}\n", self.method, self.key)
    }
}

/// Names what evidence was found of: the boot, the mount, its options and devices, and the class. Another version of the
/// program may compute another one, and then looks again.
fn key(dir: &Path, environment: &Environment, class: Durability) -> Option<String> {
    let mut hasher = DefaultHasher::new();
    mount_instance(dir)?.hash(&mut hasher);
    shared::under(environment).hash(&mut hasher);
    class.hash(&mut hasher);
    Some(format!("{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use super::KeptEvidence;
    use super::{Evidence, judge, refusal};
    use crate::method::trial::Trial;
    use seawall_sys::counters::{Watched, WatchedLevel};
    use seawall_sys::durability::{DeviceCache, Durability};
    use seawall_sys::inspect::{Device, Environment, environment};
    use seawall_sys::methods;
    use std::path::Path;

    fn place(cache: DeviceCache) -> Environment {
        let mut found = environment(Path::new(".")).expect("a folder");
        found.devices = vec![Device { write_cache: cache, ..Device::unknown("vda", "disk") }];
        found
    }

    fn trial([unwritten, unflushed]: [u64; 2]) -> Trial {
        let level = WatchedLevel {
            devices: "vda".to_owned(),
            has_cache: true,
            counts_flushes: true,
            is_leaf: true,
            unwritten,
            unflushed,
            flushes: 64 - unflushed,
        };
        let watched = Some(Watched { commits: 64, levels: vec![level] });
        Trial { method: &methods::here()[0], times_ns: vec![1], watched }
    }

    #[test]
    fn the_table_in_the_header_holds() {
        use DeviceCache::{WriteBack, WriteThrough};
        use Durability::{PowerLoss, ProcessCrash, SystemCrash};
        let not_confirmed = || Ok(Evidence::NotConfirmed(super::NOTHING_COUNTS.to_owned()));
        let missing = |what: &str| Err(format!("vda counted no {what} commits by {}", methods::here()[0].id));
        let silent = || Trial { watched: None, ..trial([0, 0]) };
        for (class, cache, trial, expected) in [
            (ProcessCrash, WriteBack, trial([64, 64]), Ok(Evidence::NotNeeded)),
            (SystemCrash, WriteBack, trial([0, 64]), Ok(Evidence::NotNeeded)),
            (SystemCrash, WriteBack, trial([64, 64]), missing("write during 64 of 64")),
            (PowerLoss, WriteThrough, trial([0, 64]), Ok(Evidence::NotNeeded)),
            (PowerLoss, WriteThrough, trial([1, 64]), missing("write during 1 of 64")),
            (PowerLoss, WriteThrough, silent(), Ok(Evidence::NotNeeded)),
            (PowerLoss, WriteBack, trial([0, 0]), Ok(Evidence::Confirmed)),
            (PowerLoss, WriteBack, trial([0, 64]), missing("flush during 64 of 64")),
            (PowerLoss, WriteBack, trial([0, 3]), missing("flush during 3 of 64")),
            (PowerLoss, WriteBack, silent(), not_confirmed()),
        ] {
            assert_eq!(judge(&trial, &place(cache), class), expected, "{class:?} {cache:?} {trial:?}");
        }
        let said = refusal(Path::new("/data"), PowerLoss, "vda counted no flush").to_string();
        assert!(said.contains("vda counted no flush") && said.contains("seawall bench /data"), "{said}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn evidence_is_kept_for_the_mount_and_the_devices_of_which_it_was_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let (here, rows) = (place(DeviceCache::WriteBack), methods::here());
        let of = (&rows[0], Durability::PowerLoss);
        for evidence in [
            Evidence::NotNeeded,
            Evidence::Confirmed,
            Evidence::NotConfirmed("pmem0 does not\ncount flushes".to_owned()),
        ] {
            let kept = KeptEvidence::new(dir.path(), &here, of, &evidence).expect("a mount");
            let read = KeptEvidence::parse(kept.line().trim_end()).expect("its own line");
            let found = read.of(dir.path(), &here, of).expect("the same mount");
            assert_eq!(found.to_string(), evidence.to_string().replace('\n', ""));
            let elsewhere = Path::new("/proc");
            assert_eq!(read.of(elsewhere, &here, of), None, "another mount");
            assert_eq!(read.of(dir.path(), &here, (&rows[1], of.1)), None, "another method");
            assert_eq!(read.of(dir.path(), &here, (of.0, Durability::SystemCrash)), None, "another class");
            let queue = place(DeviceCache::WriteThrough);
            assert_eq!(read.of(dir.path(), &queue, of), None, "its queue was set otherwise");
        }
        for line in ["", "dsync", "evidence ", "evidence x", "evidence x y", "evidence x y z"] {
            assert_eq!(KeptEvidence::parse(line), None, "{line:?}");
        }
    }
}
