//! Moves messages, one a line, between a run or check and the witness that it starts as a child.
//!
//! The witness may be on another host: the child is then `ssh`, whose standard input and output are the witness's.
//!
//! Invariants: every wait has an end; a line has a bound; a message that was cut off in the middle is none; the child is
//! not reached by the terminal's Ctrl-C, so that it still takes the end of a run; after it was closed it is gone.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::iter::from_fn;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_host::process::shield_from_ctrl_c;
use seawall_host::text::printable;

use crate::error::{Error, Result};
use crate::message::{MESSAGE_BYTES_MAX, Message, PROTOCOL};

/// How long the first answer may take: ssh connects meanwhile.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// How long any other answer may take: the other side may be swapping, but not for ever.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);
/// How often, and how many times, a child is looked at that is to end: for five seconds.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LOOKS_MAX: u32 = 500;
/// Messages of a witness that wait to be taken; it waits with more.
const WAITING_MAX: usize = 64;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a thread that panicked held is whole: each change of it is one assignment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a message.
pub(crate) fn write(out: &mut impl Write, message: &Message) -> io::Result<()> {
    let line = [message.encode(), b"\n".to_vec()].concat();
    out.write_all(&line).and_then(|()| out.flush())
}

/// Reads messages.
pub(crate) struct Lines<R: Read>(BufReader<R>);

impl<R: Read> Lines<R> {
    pub(crate) fn new(from: R) -> Self {
        Self(BufReader::new(from))
    }

    /// Whether another line has arrived.
    pub(crate) fn has_more(&self) -> bool {
        self.0.buffer().contains(&b'\n')
    }

    /// The next message; none at the end of the input, where half a line may lie that a cut has left.
    pub(crate) fn next(&mut self) -> Result<Option<Message>> {
        let mut line = Vec::new();
        let mut bounded = self.0.by_ref().take(MESSAGE_BYTES_MAX as u64 + 1);
        let read = bounded.read_until(b'\n', &mut line);
        read.map_err(|error| Error::io("read from", "the other side", error))?;
        if line.pop_if(|last| *last == b'\n').is_some() {
            return Message::decode(&line).map(Some);
        }
        if line.len() > MESSAGE_BYTES_MAX {
            let what = format!("the other side sent a line of more than {MESSAGE_BYTES_MAX} bytes");
            return Err(Error::Protocol { what });
        }
        Ok(None)
    }
}

/// The program whose standard input and output are a witness.
#[derive(Clone, Debug)]
pub struct WitnessCommand(Vec<String>);

impl fmt::Display for WitnessCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.0.join(" ")))
    }
}

impl WitnessCommand {
    /// `seawall powercut witness` on another host, with the ledger in the folder `ledger` there.
    ///
    /// # Errors
    /// [`Error::Request`] if ssh would take the host for an option, or a shell there the folder for more than a name.
    pub fn ssh(host: &str, ledger: &str) -> Result<Self> {
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if host.is_empty() || host.starts_with('-') || host.contains(odd) {
            let host = printable(host);
            return Err(Error::Request(format!("--witness {host} cannot be: it is a host as ssh takes it")));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        if ledger.is_empty() || ledger.starts_with('-') || !ledger.chars().all(plain) {
            return Err(Error::Request(format!(
                "--ledger {} cannot be: a shell on the witness's host reads it, so it has only letters, digits, /, ., _ \
                 and -, and begins with no -",
                printable(ledger)
            )));
        }
        // No terminal, no question for a password: the run would wait for an answer.
        let words = ["ssh", "-T", "-o", "BatchMode=yes", host];
        let remote = ["seawall", "powercut", "witness", "--ledger", ledger];
        Ok(Self(words.iter().chain(&remote).map(|word| (*word).to_owned()).collect()))
    }

    /// Any other program, its words separated by white space.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no word.
    pub fn new(words: &str) -> Result<Self> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Err(Error::Request("--witness-command names no program".to_owned()));
        }
        Ok(Self(words))
    }

    /// Starts it and hears its greeting.
    pub(crate) fn start(&self) -> Result<Witness> {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        shield_from_ctrl_c(&mut command);
        let failed = |source| Error::Start { command: self.to_string(), source };
        let mut child = command.spawn().map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, messages) = sync_channel(WAITING_MAX);
        let witness = Witness {
            name: self.to_string(),
            child: Mutex::new(child),
            input: Mutex::new(input),
            messages: Mutex::new(messages),
        };
        if let Some(output) = output {
            let reader = std::thread::Builder::new().name("powercut-reader".to_owned());
            let mut lines = Lines::new(output);
            // Pipes have no timeouts of their own. It ends with the output, or when nobody takes the messages any more.
            let read = move || from_fn(|| lines.next().transpose()).try_for_each(|next| sender.send(next));
            reader.spawn(read).map_err(failed)?;
        }
        match witness.receive(FIRST_ANSWER_TIMEOUT)? {
            Message::Witness(PROTOCOL) => Ok(witness),
            _ => Err(witness.unexpected(&format!("that it speaks version {PROTOCOL} of the protocol"))),
        }
    }
}

/// A witness that has greeted.
pub(crate) struct Witness {
    name: String,
    child: Mutex<Child>,
    input: Mutex<Option<ChildStdin>>,
    messages: Mutex<Receiver<Result<Message>>>,
}

impl Witness {
    pub(crate) fn send(&self, message: &Message) -> Result<()> {
        let mut input = lock(&self.input);
        match input.as_mut().map(|pipe| write(pipe, message)) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.gone()),
        }
    }

    /// The next message; [`Error::Refused`] if that is what the witness says.
    pub(crate) fn receive(&self, within: Duration) -> Result<Message> {
        match lock(&self.messages).recv_timeout(within) {
            Ok(Ok(Message::Refused(text))) => Err(Error::Refused { text }),
            Ok(Err(Error::Protocol { what })) => {
                Err(Error::Protocol { what: format!("`{}`: {what}", self.name) })
            }
            Ok(next) => next,
            Err(RecvTimeoutError::Timeout) => {
                Err(Error::Silent { witness: self.name.clone(), seconds: within.as_secs() })
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }

    /// Sends a message, and waits for the answer.
    pub(crate) fn ask(&self, message: &Message) -> Result<Message> {
        let sent = self.send(message);
        // A witness that takes nothing more may have said why.
        let answer = self.receive(ANSWER_TIMEOUT)?;
        sent.map(|()| answer)
    }

    /// The error for a message that does not belong here.
    pub(crate) fn unexpected(&self, wanted: &str) -> Error {
        Error::Protocol { what: format!("`{}` did not say {wanted} where it should", self.name) }
    }

    /// The error of a child that has closed its input or output.
    fn gone(&self) -> Error {
        Error::Gone { witness: self.name.clone(), status: self.wait() }
    }

    /// How the child ended, if it does in time.
    fn wait(&self) -> Option<ExitStatus> {
        let mut child = lock(&self.child);
        for _ in 0..LOOKS_MAX {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        None
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // The end of its input ends the child.
        drop(lock(&self.input).take());
        if self.wait().is_none() {
            let mut child = lock(&self.child);
            // Both fail only if it is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lines, WitnessCommand};
    use crate::message::{MESSAGE_BYTES_MAX, Message};

    #[test]
    fn a_host_is_no_option_of_ssh_and_a_ledger_nothing_that_a_shell_obeys() {
        let command = WitnessCommand::ssh("root@10.0.0.7", "/srv/ledger_1.d").expect("both are plain");
        assert_eq!(
            command.to_string(),
            "ssh -T -o BatchMode=yes root@10.0.0.7 seawall powercut witness --ledger /srv/ledger_1.d"
        );
        for host in ["", "-oProxyCommand=reboot", "a b", "a\nb", "a\u{1b}[2J"] {
            let refused = WitnessCommand::ssh(host, "ledger").expect_err(host).to_string();
            assert!(refused.contains("--witness") && !refused.contains(['\n', '\u{1b}']), "{refused}");
        }
        for ledger in ["", "-x", "a b", "a;reboot", "$HOME", "~/ledger", "a\nb", "`x`", "ledgér"] {
            let refused = WitnessCommand::ssh("host", ledger).expect_err(ledger).to_string();
            assert!(refused.contains("--ledger") && !refused.contains('\n'), "{refused}");
        }
        assert!(WitnessCommand::new(" \t ").is_err());
    }

    #[test]
    fn a_line_has_a_bound_and_half_a_line_is_the_end() {
        let exact = [b" ".repeat(MESSAGE_BYTES_MAX - 6), b"\"done\"\n".to_vec()].concat();
        let mut lines = Lines::new(&exact[..]);
        assert!(matches!(lines.next(), Ok(Some(Message::Done))));
        assert!(matches!(lines.next(), Ok(None)), "the end");
        for endless in [[b" ", &exact[..]].concat(), vec![b'x'; MESSAGE_BYTES_MAX * 9]] {
            let refused = Lines::new(&endless[..]).next().expect_err("is too long").to_string();
            assert!(refused.contains("more than 32768 bytes"), "{refused}");
        }
        for end in 0..6 {
            assert!(matches!(Lines::new(&b"\"done\"\n"[..end]).next(), Ok(None)), "{end} bytes");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_witness_that_is_none_is_named_with_what_became_of_it() {
        for (words, said) in [
            ("no-such-program-1 --x", "cannot start `no-such-program-1 --x`"),
            ("false", "`false`, which reaches the witness, ended (exit status: 1)"),
            ("echo Welcome", "Welcome"),
            ("echo {\"witness\":99}", "speaks version 3"),
        ] {
            let started = WitnessCommand::new(words).expect("words").start();
            let error = started.err().expect(words).to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
