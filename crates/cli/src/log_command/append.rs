//! `seawall log append`: appends records of standard input and prints the LSN of each when it is durable.

use std::io::{self, Write};
use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use seawall::{Log, Lsn, Options, Permissions};

use super::records::{self, Form};
use super::{LogMethodArgs, Network, Stop, print_refusal};
use crate::amounts;
use crate::exit::Failure;

const RECORD_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Args)]
pub(super) struct Append {
    /// The log's folder; a log is created if there is none
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Format of the records on standard input
    #[arg(long, value_enum, default_value = "text")]
    format: Form,
    #[command(flatten)]
    commit: LogMethodArgs,
    /// Who may read files and folders that are created; existing ones keep their permissions
    #[arg(long, value_enum, value_name = "WHO", default_value = "owner")]
    readable_by: Readers,
    #[command(flatten)]
    place: Network,
    /// Size of new segments, such as 64k or 1M: a multiple of 4096 bytes from 65536 on
    #[arg(long, value_name = "SIZE", value_parser = amounts::size)]
    segment_bytes: Option<ByteSize>,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

/// Who may read a log that is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Readers {
    /// The owner only
    Owner,
    /// The owner and the group
    Group,
    /// Whoever the umask allows
    Umask,
}

impl Readers {
    fn permissions(self) -> Permissions {
        match self {
            Self::Owner => Permissions::OwnerOnly,
            Self::Group => Permissions::Group,
            Self::Umask => Permissions::Umask,
        }
    }
}

/// After an error, what was accepted until then is committed and its LSNs are printed, and the log is closed, so
/// that its tail is clean. The first failure is the error; after it stands the outcome of the input.
pub(super) fn append(options: &Append) -> Result<(), Stop> {
    let settings = Options::default().record_bytes_max(RECORD_BYTES_MAX);
    let mut settings = settings.method(options.commit.method()).engine(options.commit.engine);
    settings = settings
        .permissions(options.readable_by.permissions())
        .network_file_system(options.place.network_file_system);
    if let Some(bytes) = options.segment_bytes {
        settings = settings.segment_bytes(bytes.as_u64());
    }
    let log = Log::open(&options.dir, settings)?;
    if !options.quiet {
        print_refusal(log.opened().engine_refused.as_deref());
    }
    let output = (!options.quiet).then(|| io::BufWriter::new(io::stdout().lock()));
    let mut intake = Intake { output, ..Intake::default() };
    let taken = intake.take(&log, options.format);
    // After a failure of the log itself this one fails too, and adds nothing that is not known then.
    let committed = intake.waiting.last().map_or(Ok(()), |last| log.commit(*last)).map_err(Stop::from);
    let durable = log.durable_lsn();
    let closed = log.close().map_err(Stop::from);
    let known = intake.waiting.iter().filter(|lsn| closed.is_ok() || **lsn <= durable).count();
    let printed = intake.acknowledge(known);
    match taken.and(committed).and(closed).and(printed) {
        Err(Stop::Failed(failure)) => {
            Err(Failure::Message(format!("{failure}; {}", intake.account(options.format))).into())
        }
        done => done,
    }
}

/// Records after one that does not fit are not retried here: the library's advice to retry is not for this command.
fn refused(error: seawall::Error) -> Stop {
    match error {
        seawall::Error::DiskFull { path, source } => Failure::Message(format!(
            "no space for {}: {source}; make room and append the rest",
            path.display()
        ))
        .into(),
        other => other.into(),
    }
}

/// The outcome of the records of standard input.
struct Intake<W> {
    /// The first records of a transaction whose last one has not been read.
    open: Vec<Vec<u8>>,
    /// Where LSNs are printed; none with `--quiet`, and once the pipe is closed.
    output: Option<W>,
    /// The ends of the records that were appended and are not known to be durable.
    waiting: Vec<Lsn>,
    /// Records that are durable: the first ones.
    durable: u64,
    is_at_end: bool,
}

impl<W> Default for Intake<W> {
    fn default() -> Self {
        Self { open: Vec::new(), output: None, waiting: Vec::new(), durable: 0, is_at_end: false }
    }
}

impl<W: Write> Intake<W> {
    /// Everything that has arrived is committed together as soon as there is nothing more to read without waiting.
    fn take(&mut self, log: &Log, form: Form) -> Result<(), Stop> {
        // One damaged block costs the batch that it lies in: a batch of a pipe is kept small.
        const TOGETHER_MAX: usize = 128;
        const TOGETHER_BYTES_MAX: usize = 64 << 10;
        let mut bytes = 0;
        let mut input = records::Input::new(io::stdin().lock(), form, RECORD_BYTES_MAX);
        let mut record = Vec::new();
        while !self.is_at_end {
            self.is_at_end = !input.next(&mut record)?;
            if !self.is_at_end {
                bytes += record.len();
                self.append(log, &mut record, input.ends_transaction())?;
            } else if !self.open.is_empty() {
                self.is_at_end = false;
                let missing =
                    "the input ends within a transaction: its last record lacks \"ends_transaction\":true";
                return Err(Failure::message(missing).into());
            }
            let is_large = self.waiting.len() >= TOGETHER_MAX || bytes >= TOGETHER_BYTES_MAX;
            let is_due = self.is_at_end || input.would_wait() || is_large;
            if let Some(last) = self.waiting.last().filter(|_| is_due) {
                log.commit(*last)?;
                self.acknowledge(self.waiting.len())?;
                bytes = 0;
            }
        }
        Ok(())
    }

    /// Appends a record, or the whole transaction that it ends.
    fn append(&mut self, log: &Log, record: &mut Vec<u8>, is_last: bool) -> Result<(), Stop> {
        if is_last && self.open.is_empty() {
            self.waiting.push(log.append(record).map_err(refused)?.end);
            return Ok(());
        }
        self.open.push(std::mem::take(record));
        let bytes: usize = self.open.iter().map(Vec::len).sum();
        if bytes > RECORD_BYTES_MAX {
            let wrong = format!("a transaction is longer than the bound of {RECORD_BYTES_MAX} bytes");
            return Err(Failure::Message(wrong).into());
        }
        if !is_last {
            return Ok(());
        }
        let start = log.appended_lsn();
        let appended =
            log.transaction(|transaction| self.open.iter().try_for_each(|record| transaction.append(record)));
        // There is no other writer, and every record of a transaction has the same overhead.
        let taken = appended.map_err(refused)?.since(start);
        let header = (taken - bytes as u64) / self.open.len() as u64;
        let mut end = start;
        for record in self.open.drain(..) {
            end = Lsn::new(end.get() + header + record.len() as u64);
            self.waiting.push(end);
        }
        Ok(())
    }

    /// Prints the LSNs of the first `count` records that wait: they are durable. When the pipe is closed, the rest of the
    /// input is appended nevertheless, because appending it is the purpose.
    fn acknowledge(&mut self, count: usize) -> Result<(), Stop> {
        self.durable += count as u64;
        let ends = self.waiting.drain(..count);
        let Some(output) = &mut self.output else { return Ok(()) };
        let print = || {
            for lsn in ends {
                writeln!(output, "{lsn}")?;
            }
            output.flush()
        };
        let printed = print().map_err(Stop::from);
        if printed.is_err() {
            self.output = None;
        }
        if let Err(Stop::Gone) = printed { Ok(()) } else { printed }
    }

    fn account(&self, form: Form) -> String {
        let (unit, durable, waiting) = (form.unit(), self.durable, self.waiting.len() as u64);
        let mut parts = vec![format!("durable: {durable} {unit}(s) of the input")];
        if waiting > 0 {
            let (first, last) = (durable + 1, durable + waiting);
            let unknown = "not known to be durable until the log is opened again";
            parts.push(format!("{unknown}: {unit} {first} to {last}"));
        }
        if !self.is_at_end {
            parts.push(format!("not appended: {unit} {} and everything after it", durable + waiting + 1));
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, Intake, Lsn};

    #[test]
    fn an_account_lists_what_is_durable_what_is_unknown_and_what_is_missing() {
        let mut intake =
            Intake { output: Some(Vec::new()), waiting: vec![Lsn::ZERO; 5], ..Intake::default() };
        assert!(intake.acknowledge(2).is_ok());
        assert_eq!(intake.output.as_deref(), Some(&b"0\n0\n"[..]));
        assert_eq!(
            intake.account(Form::Raw),
            "durable: 2 record(s) of the input; not known to be durable until the log is opened again: record 3 to 5; \
             not appended: record 6 and everything after it"
        );
        assert!(intake.acknowledge(3).is_ok());
        intake.is_at_end = true;
        assert_eq!(intake.account(Form::Text), "durable: 5 line(s) of the input");
    }
}
