//! Starts the emulated machine, reads its console and cuts its power.
//!
//! Invariants: every wait has an end; a machine that is dropped is dead.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use seawall_sys::clock::monotonic_ns;

use super::bus::{Bus, Served};
use super::initramfs::Kernel;

pub(super) const EMULATOR: &str = "qemu-system-x86_64";
/// How long a machine may take until a message that is waited for: emulation is slow, a shared host slower.
const BOOT_SECONDS_MAX: u64 = 600;

/// A machine that runs.
pub(super) struct Machine {
    child: Child,
    lines: Receiver<String>,
    /// The last lines of its console, for errors.
    last: Vec<String>,
}

/// A message of the script in the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The file system cannot be mounted.
    Unmountable,
    /// The exit code of check and its JSON.
    Verdict(i32, String),
    /// Writing has begun.
    Writes,
    /// What is recorded may begin.
    Ready,
    /// Writing ended by itself.
    Ended,
}

/// The message of a line of the console, if it is one.
fn message(line: &str) -> Option<Message> {
    if let Some(rest) = line.trim().strip_prefix("SEAWALL ") {
        return match rest.split_once(' ').unwrap_or((rest, "")) {
            ("unmountable", _) => Some(Message::Unmountable),
            ("ended", _) => Some(Message::Ended),
            ("ready", _) => Some(Message::Ready),
            ("verdict", rest) => {
                let (code, json) = rest.split_once(' ').unwrap_or((rest, ""));
                Some(Message::Verdict(code.parse().ok()?, json.to_owned()))
            }
            _ => None,
        };
    }
    let mut words = line.split_whitespace();
    (words.next() == Some("run") && words.nth(1) == Some("writes")).then_some(Message::Writes)
}

impl Machine {
    /// Starts it with the disk that is `served` and a serial port that is the socket `marks`; these `words` go to the kernel's command line for its script.
    pub(super) fn start(
        kernel: &Kernel,
        initramfs: &Path,
        served: &Served,
        marks: Option<&Path>,
        words: &str,
    ) -> io::Result<Self> {
        // A loaded host is too slow for the kernel's test of its timer.
        let append = format!(
            "console=ttyS0 quiet loglevel=0 panic=-1 mitigations=off no_timer_check rdinit=/init {}{words}",
            Bus::words(served)
        );
        let port = marks.map_or_else(Vec::new, |marks| {
            let socket = format!("socket,id=marks,path={}", marks.display());
            let port = "virtserialport,chardev=marks,name=marks";
            ["-device", "virtio-serial-pci", "-chardev", &socket, "-device", port].map(str::to_owned).to_vec()
        });
        let mut child = Command::new(EMULATOR)
            .args(["-machine", "pc,accel=tcg", "-cpu", "max", "-m", "1024", "-smp", "1", "-nodefaults"])
            .args(["-display", "none", "-no-reboot", "-serial", "stdio"])
            .args(Bus::arguments(served))
            .args(port)
            .args(["-netdev", "user,id=net"])
            .args(["-device", "virtio-net-pci,netdev=net,romfile="])
            .arg("-kernel")
            .arg(&kernel.image)
            .arg("-initrd")
            .arg(initramfs)
            .args(["-append", &append])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("{EMULATOR}: {error}")))?;
        let (sender, lines) = channel();
        let console = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        std::thread::spawn(move || {
            let mut reader = BufReader::new(console);
            let mut line = Vec::new();
            while matches!(reader.read_until(b'\n', &mut line), Ok(bytes) if bytes > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines, last: Vec::new() })
    }

    /// The next message; `None` if there is none in time, an error if the machine ended.
    pub(super) fn next_message(&mut self, within: Duration) -> io::Result<Option<Message>> {
        let until_ns = monotonic_ns() + u64::try_from(within.as_nanos()).unwrap_or(u64::MAX / 2);
        loop {
            let left = Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()));
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let message = message(&line);
                    self.last.push(line);
                    let old = self.last.len().saturating_sub(60);
                    self.last.drain(..old);
                    if message.is_some() {
                        return Ok(message);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other(format!("the machine ended:\n{}", self.last_lines())));
                }
            }
        }
    }

    /// As [`Machine::next_message`], but silence is an error.
    pub(super) fn expect(&mut self) -> io::Result<Message> {
        self.next_message(Duration::from_secs(BOOT_SECONDS_MAX))?.ok_or_else(|| {
            let last = self.last_lines();
            io::Error::new(io::ErrorKind::TimedOut, format!("silent for {BOOT_SECONDS_MAX} s:\n{last}"))
        })
    }

    /// The last lines of its console.
    pub(super) fn last_lines(&self) -> String {
        self.last.join("\n")
    }

    /// Lets a machine that is ready go on.
    pub(super) fn go_on(&mut self) -> io::Result<()> {
        self.child.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(b"go\n")
    }

    pub(super) fn cut(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, message};

    #[test]
    fn the_console_is_understood() {
        assert_eq!(message("SEAWALL unmountable\r"), Some(Message::Unmountable));
        let verdict = Message::Verdict(4, "{ \"run\": 1 }".to_owned());
        assert_eq!(message("SEAWALL verdict 4 { \"run\": 1 }\r"), Some(verdict));
        assert_eq!(message("SEAWALL verdict 1"), Some(Message::Verdict(1, String::new())));
        assert_eq!(message("run 00ff writes in /disk/powercut-00ff\r"), Some(Message::Writes));
        assert_eq!(message("SEAWALL ended 1"), Some(Message::Ended));
        for line in
            ["", "[    0.1] Linux", "SEAWALL no module x.ko", "writes by log, which", "SEAWALL verdict x"]
        {
            assert_eq!(message(line), None, "{line}");
        }
    }
}
