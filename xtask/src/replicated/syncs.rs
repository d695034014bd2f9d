//! Counts the syncs of a node per file by strace.

use crate::error::{Error, Result};
use crate::files;
use crate::shell::{command, output, within};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(super) struct Tracer {
    child: Child,
    trace: PathBuf,
}

impl Tracer {
    pub(super) fn on(pid: u32, folder: &Path) -> Result<Self> {
        let trace = folder.join(format!("syncs-{pid}"));
        let mut strace = Command::new("strace");
        strace.args(["-f", "-y", "-e", "trace=fsync,fdatasync", "-p", &pid.to_string(), "-o"]).arg(&trace);
        let child = strace.stderr(Stdio::null()).spawn().map_err(Error::at("strace"))?;
        let traced = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|by| by.trim() != "0"))
        };
        ensure!(within(60, traced), "strace did not attach to process {pid}");
        Ok(Self { child, trace })
    }

    /// What was written down.
    pub(super) fn end(mut self) -> Result<String> {
        output(command("kill", &["-INT", &self.child.id().to_string()]))?;
        self.child.wait().map_err(Error::at("strace"))?;
        let text = files::read(&self.trace)?;
        let _ = std::fs::remove_file(&self.trace);
        Ok(text)
    }
}

/// The sync calls in a trace on files with `part` in their names. A call that another thread's interrupts has two lines,
/// of which only the first names the file.
pub(super) fn calls(trace: &str, part: &str) -> u64 {
    let named = |line: &&str| {
        let (call, rest) = line.split_once('(').unwrap_or_default();
        let call = call.split_whitespace().next_back();
        let file = rest.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(file, _)| file);
        matches!(call, Some("fsync" | "fdatasync")) && file.is_some_and(|file| file.contains(part))
    };
    trace.lines().filter(named).count() as u64
}

#[cfg(test)]
mod tests {
    use super::calls;

    #[test]
    fn each_call_is_counted_once_and_only_on_the_files_asked_for() {
        let trace = "17 fsync(9</s/seawall-1-kafka-1-0/0.log>) = 0
17 fdatasync(9</s/seawall-1-kafka-1-0/0.log> <unfinished ...>
18 fsync(7</s/seawall-1-kafka-0-0/0.log>) = 0
17 <... fdatasync resumed>)       = 0
18 fsync(8</s/__cluster_metadata-0/0.log>) = -1 EIO (Input/output error)
18 --- SIGINT {si_signo=SIGINT} ---
";
        assert_eq!((calls(trace, ""), calls(trace, "-kafka-1-0/"), calls(trace, "-kafka-0-0/")), (4, 2, 1));
        assert_eq!(calls("", ""), 0);
    }
}
