//! Ships a log through TLS and a login, drills and rebuilds it, lets a standby take over; then with what the cluster refuses.
//!
//! ```text
//!   allowed   ship · drill · rebuild: the old writer is refused · ship · standby · takeover · drill
//!   refused   ship, drill, rebuild, standby and takeover each end in time, with 1 and words that help, and make nothing
//! ```
//!
//! Invariant: no password stands in anything that was printed or that lies beside a log.

use crate::apart::{is_too_long, limited};
use crate::error::{Error, Result};
use crate::files;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a command may take; what is refused ends long before.
const LIMIT: Duration = Duration::from_mins(3);
/// What every password here ends with.
pub(super) const SECRET: &str = "to-be-printed";

#[derive(Clone, Default)]
pub(super) struct Way {
    /// As it is printed.
    pub(super) name: &'static str,
    pub(super) address: String,
    pub(super) options: Vec<String>,
    pub(super) environment: Vec<(&'static str, String)>,
}

pub(super) struct Logs {
    folder: PathBuf,
    seawall: fn(&[&str]) -> Command,
}

impl Logs {
    /// New ones below `folder`.
    pub(super) fn new(folder: &Path, seawall: fn(&[&str]) -> Command) -> Result<Self> {
        let folder = folder.join("secured-logs");
        files::empty_folder(&folder)?;
        Ok(Self { folder, seawall })
    }

    fn path(&self, way: &Way, log: &str) -> String {
        self.folder.join(format!("{}-{log}", way.name.replace([' ', '/'], "-"))).display().to_string()
    }

    /// Runs `seawall log`; whether it ended well, and everything that it printed.
    fn run(&self, words: &[&str], way: Option<&Way>, input: &str) -> Result<(bool, String)> {
        let kept = self.folder.join("printed");
        let print = File::create(&kept).and_then(|file| Ok((file.try_clone()?, file)));
        let (stdout, stderr) = print.map_err(Error::at(kept.display()))?;
        let mut command = limited(&(self.seawall)(&[&["log"], words].concat()), LIMIT);
        if let Some(way) = way {
            command.args(&way.options).envs(way.environment.iter().map(|(name, value)| (name, value)));
        }
        command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
        let mut child = command.spawn().map_err(Error::at("seawall"))?;
        // Dropped, so that it sees the end; one that ended before has not read it.
        let sent = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        let status = child.wait().map_err(Error::at("seawall"))?;
        let said = files::read(&kept)?;
        ensure!(!is_too_long(status), "{words:?} does not end: {said}");
        ensure!(!said.contains(SECRET), "{words:?} printed a password: {said}");
        let whole = matches!(sent, Some(Ok(())));
        Ok((status.success() && (whole || input.is_empty()), said))
    }

    fn done(&self, words: &[&str], way: Option<&Way>, input: &str) -> Result<String> {
        let (done, said) = self.run(words, way, input)?;
        ensure!(done, "{words:?} failed: {said}");
        Ok(said)
    }

    fn append(&self, log: &str, count: usize) -> Result {
        let lines = (0..count).fold(String::new(), |lines, number| format!("{lines}{number}\n"));
        self.done(&["append", log], None, &lines).map(drop)
    }

    fn records(&self, log: &str) -> Result<String> {
        self.done(&["cat", log], None, "")
    }

    /// Everything that is done with a destination, by a way that the cluster allows.
    pub(super) fn allowed(&self, way: &Way) -> Result {
        let to = way.address.as_str();
        let [first, second, third] = ["a", "b", "c"].map(|log| self.path(way, log));
        self.append(&first, 50)?;
        self.done(&["ship", &first, "--to", to, "--once"], Some(way), "")?;
        self.done(&["drill", "--from", to, "--log", &first], Some(way), "")?;
        self.done(&["rebuild", &second, "--from", to, "--fence"], Some(way), "")?;
        self.append(&first, 1)?;
        let (ended_well, said) = self.run(&["ship", &first, "--to", to, "--once"], Some(way), "")?;
        ensure!(
            !ended_well && (said.contains("another directory") || said.contains("taken over")),
            "by {} an old writer was not refused: {said}",
            way.name
        );
        self.append(&second, 50)?;
        self.done(&["ship", &second, "--to", to, "--once"], Some(way), "")?;
        self.done(&["standby", &third, "--from", to, "--once"], Some(way), "")?;
        self.done(&["takeover", &third, "--from", to, "--fence"], Some(way), "")?;
        self.done(&["drill", "--from", to, "--log", &third], Some(way), "")?;
        let (here, there) = (self.records(&second)?, self.records(&third)?);
        ensure!(
            here == there && here.lines().count() == 100,
            "by {} the copy is another log: {there:?}",
            way.name
        );
        self.tell_nothing()?;
        println!("{}: shipped, drilled, rebuilt, the old writer refused, taken over by a standby", way.name);
        Ok(())
    }

    /// Every command, by a way that is refused, of a log that `allowed` shipped: `words` are told.
    pub(super) fn refused(&self, allowed: &Way, way: &Way, words: &[&str]) -> Result {
        let to = way.address.as_str();
        let log = self.path(allowed, "c");
        let [copy, standby, taken] = ["copy", "standby", "taken"].map(|name| self.path(way, name));
        let from = allowed.address.as_str();
        self.done(&["standby", &taken, "--from", from, "--once"], Some(allowed), "")?;
        let commands: [&[&str]; 5] = [
            &["ship", &log, "--to", to, "--once"],
            &["drill", "--from", to, "--log", &log],
            &["rebuild", &copy, "--from", to, "--fence"],
            &["standby", &standby, "--from", to, "--once"],
            &["takeover", &taken, "--from", to, "--fence"],
        ];
        let mut last = String::new();
        for command in commands {
            let (ended_well, said) = self.run(command, Some(way), "")?;
            if ended_well || !words.iter().all(|word| said.contains(word)) {
                let name = way.name;
                fail!("{name}: {command:?} to be refused with {words:?}: {said}");
            }
            last = said;
        }
        if let Some(made) = [&copy, &standby].into_iter().find(|made| Path::new(made).exists()) {
            fail!("{}: {made} was made", way.name);
        }
        self.tell_nothing()?;
        println!("{}, each command refused: {}", way.name, last.lines().last().unwrap_or_default());
        Ok(())
    }

    /// No password lies in or beside the logs.
    fn tell_nothing(&self) -> Result {
        for path in files::below(&self.folder)?.into_iter().filter(|path| !path.is_dir()) {
            let bytes = std::fs::read(&path).map_err(Error::at(path.display()))?;
            if bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()) {
                fail!("{} holds a password", path.display());
            }
        }
        Ok(())
    }
}
