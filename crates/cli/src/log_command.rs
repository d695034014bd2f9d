//! `seawall log …`: appends, prints, follows, verifies, salvages, backs up, trims, ships and restores a log.
//!
//! Invariants: records and results go to standard output; a closed output pipe ends the command without an error,
//! except `append`, which continues to read its input; damage ends the command with exit code 1 and the place;
//! nothing but `append` and `trim` opens a log for writing.

mod compact;
mod fence;
mod follow;
mod records;
mod retain;
mod service;
mod ship;
mod standby;
mod status;

use crate::amounts;
use crate::exit::Failure;
use bytesize::ByteSize;
use clap::{Args, Subcommand, ValueEnum};
use records::{Form, Output};
use seawall::{
    Engine, EngineChoice, Log, Lsn, MethodChoice, Options, Permissions, Report, Tail, View, backup, salvage,
    verify,
};
use seawall_gauge::rank::EffectiveClass;
use seawall_sys::text::printable;
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

const RECORD_BYTES_MAX: usize = 64 << 20;

/// Write, read and check transaction logs
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Append records from standard input and print the LSN of each when it is durable
    Append(Append),
    /// Print records
    Cat(Cat),
    /// Print records as they become durable; exits with 0 when interrupted or when its output is closed
    Follow(Cat),
    /// Print a log's LSNs, segments, commit method, writer and tail
    Stat(Look),
    /// Check every byte of a log; prints damaged places and exits with 1
    Verify(Look),
    /// Copy the intact records of a damaged log into a new log
    Salvage(Salvage),
    /// Back up a log, even while it is written; updates an existing backup
    Backup(Backup),
    /// Remove all records before an LSN
    Trim(Trim),
    /// Ship a log to a stream or an archive, even while it is written, until interrupted
    Ship(ship::Ship),
    /// Restore a log from a stream or an archive, and fence its old writer
    Rebuild(ship::Rebuild),
    /// Follow a shipped log and keep a copy of it, until interrupted
    Standby(standby::Standby),
    /// Promote a standby: its folder becomes the log, and the old writer is fenced
    Takeover(standby::Takeover),
    /// Remove the oldest segments of an archive, which no restore within the retention needs
    Retain(retain::Retain),
    /// Copy the small objects of an archive into larger ones, so that a restore reads fewer
    Compact(compact::Compact),
    /// Dry-run a restore and verify every message; exits with 9 if anything is missing or damaged
    Drill(ship::Drill),
    /// Print where a log is shipped, the lag and the last error, for a folder or an address
    Status(status::Status),
}

#[derive(Debug, Args)]
struct Look {
    /// The log's folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Answer {
    /// Lines of text
    Text,
    /// One JSON object
    Json,
}

#[derive(Debug, Args)]
struct Append {
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

/// Where a log may lie.
#[derive(Debug, Default, Args)]
pub(crate) struct Network {
    /// Allow a network file system, whose server decides what locks and syncs guarantee
    #[arg(long)]
    pub(crate) network_file_system: bool,
}

/// How commits go to the disk.
#[derive(Debug, Default, Args)]
pub(crate) struct LogMethodArgs {
    /// The commit method to use instead of the fastest one of its class (see `seawall methods`)
    #[arg(long, value_name = "ID", value_parser = method)]
    method: Option<String>,
    /// The engine to use: portable, `io_uring` (Linux) or overlapped (Windows); `automatic` takes the fastest one that the
    /// system allows
    #[arg(long, value_name = "NAME", default_value = "automatic", value_parser = engine)]
    pub(crate) engine: EngineChoice,
}

impl LogMethodArgs {
    pub(crate) fn method(&self) -> MethodChoice {
        self.method.clone().map_or(MethodChoice::Fastest, MethodChoice::Named)
    }
}

fn method(id: &str) -> Result<String, Failure> {
    let is_known = seawall_sys::methods::here().iter().any(|method| method.id == id);
    let refusal = || Failure::usage("this system has no method of that id; `seawall methods` lists them");
    is_known.then(|| id.to_owned()).ok_or_else(refusal)
}

fn engine(name: &str) -> Result<EngineChoice, Failure> {
    if name == "automatic" {
        return Ok(EngineChoice::Automatic);
    }
    Engine::find(name).map(EngineChoice::Only).ok_or_else(|| {
        let known: Vec<&str> = Engine::ALL.into_iter().map(Engine::name).collect();
        Failure::Usage(format!(
            "the engines are {}; automatic takes the fastest one that the system allows",
            known.join(", ")
        ))
    })
}

#[derive(Debug, Args)]
struct Cat {
    /// The log's folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// First LSN to print [default: the first one in the log]
    #[arg(long, value_name = "LSN")]
    from: Option<Lsn>,
    /// Format of the records
    #[arg(long, value_enum, default_value = "text")]
    format: Form,
    /// End after this many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

#[derive(Debug, Args)]
struct Salvage {
    /// The damaged log's folder
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The folder of the new log
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    place: Network,
}

#[derive(Debug, Args)]
struct Backup {
    /// The log's folder
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The backup's folder; a new one is first built as TO.partial, an empty one is filled in place
    #[arg(value_name = "TO")]
    to: PathBuf,
}

#[derive(Debug, Args)]
struct Trim {
    /// The log's folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The first LSN to keep
    #[arg(value_name = "LSN")]
    lsn: Lsn,
    #[command(flatten)]
    place: Network,
}

pub(crate) fn run(args: &LogArgs) -> Result<ExitCode, Failure> {
    let done = match &args.command {
        LogCommand::Append(options) => append(options),
        LogCommand::Cat(options) => cat(options),
        LogCommand::Follow(options) => follow(options),
        LogCommand::Stat(look) => stat(look),
        LogCommand::Verify(look) => check(look),
        LogCommand::Salvage(options) => save(options),
        LogCommand::Backup(options) => back_up(options),
        LogCommand::Trim(options) => trim(options),
        LogCommand::Ship(options) => ship::ship(options),
        LogCommand::Rebuild(options) => ship::build(options),
        LogCommand::Standby(options) => standby::follow(options),
        LogCommand::Takeover(options) => standby::take(options),
        LogCommand::Retain(options) => retain::run(options),
        LogCommand::Compact(options) => compact::run(options),
        LogCommand::Drill(options) => ship::check(options),
        LogCommand::Status(options) => status::run(options),
    };
    match done {
        Ok(()) | Err(Stop::Gone) => Ok(ExitCode::SUCCESS),
        Err(Stop::Failed(text)) => Err(Failure::Message(text)),
        Err(Stop::Usage(text)) => Err(Failure::Usage(text)),
        Err(Stop::Coded(code, text)) => Err(Failure::Coded(code, text)),
    }
}

/// Why a command ends early.
#[derive(Debug)]
enum Stop {
    /// The output pipe is closed.
    Gone,
    Failed(String),
    /// The command line is wrong.
    Usage(String),
    /// For a reason that has an exit code of its own.
    Coded(u8, String),
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone => f.write_str("the output is closed"),
            Self::Failed(text) | Self::Usage(text) | Self::Coded(_, text) => f.write_str(text),
        }
    }
}

impl From<seawall::Error> for Stop {
    fn from(error: seawall::Error) -> Self {
        let missing = match &error {
            seawall::Error::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound)
            }
            _ => false,
        };
        let remedy = if missing { "; name the folder of a log" } else { "" };
        Self::Failed(format!("{}{remedy}", printable(&error.to_string())))
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Usage(text) => Self::Usage(text),
            Failure::Coded(code, text) => Self::Coded(code, text),
            failure => Self::Failed(failure.to_string()),
        }
    }
}

/// Of standard output.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::Gone
        } else {
            Self::Failed(format!("cannot write to standard output: {error}"))
        }
    }
}

/// No engine takes over in silence: a slower one must be visible.
fn print_refusal(reason: Option<&str>) {
    if let Some(reason) = reason {
        tell!("using the portable engine: io_uring is refused: {reason}");
    }
}

/// Why `io_uring` is refused to this process, where the library opens the log and does not report it.
fn forbidden() -> Option<String> {
    Engine::IoUring.probe().err().filter(|_| Engine::IoUring.is_known_here()).map(|reason| reason.to_string())
}

/// After an error, what was accepted until then is committed and its LSNs are printed, and the log is closed, so
/// that its tail is clean. The first failure is the error; after it stands the outcome of the input.
fn append(options: &Append) -> Result<(), Stop> {
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
        Err(Stop::Failed(error)) => Err(Stop::Failed(format!("{error}; {}", intake.account(options.format)))),
        done => done,
    }
}

/// Records after one that does not fit are not retried here: the library's advice to retry is not for this command.
fn refused(error: seawall::Error) -> Stop {
    match error {
        seawall::Error::DiskFull { path, source } => {
            Stop::Failed(format!("no space for {}: {source}; make room and append the rest", path.display()))
        }
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
                return Err(Stop::Failed(missing.to_owned()));
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
            return Err(Stop::Failed(wrong));
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

/// Where records are printed; a terminal gets no character that it would obey.
fn printer(form: Form) -> Result<Output<impl Write>, Stop> {
    let output = io::stdout().lock();
    let is_terminal = output.is_terminal();
    if is_terminal && form == Form::Raw {
        let text = "--format raw is for a file or a pipe: a terminal would interpret the records as control sequences";
        return Err(Stop::Failed(text.to_owned()));
    }
    Ok(Output::new(io::BufWriter::new(output), form, is_terminal))
}

fn cat(options: &Cat) -> Result<(), Stop> {
    let mut output = printer(options.format)?;
    let view = View::open(&options.dir)?;
    print_loss(&view);
    let from = options.from.unwrap_or(view.first_lsn());
    let limit = usize::try_from(options.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    for record in view.read(from)?.take(limit) {
        output.record(&record?)?;
    }
    output.flush().map_err(Stop::from)
}

fn follow(options: &Cat) -> Result<(), Stop> {
    let output = printer(options.format)?;
    follow::follow(&options.dir, options.from, options.limit.unwrap_or(u64::MAX), output)
}

fn stat(look: &Look) -> Result<(), Stop> {
    let view = View::open(&look.dir)?;
    let mut output = io::stdout().lock();
    if look.format == Answer::Json {
        return Ok(writeln!(output, "{}", records::stat(&view, view.method()?, view.evidence()?.as_ref()))?);
    }
    writeln!(output, "identity     {}", view.log_id())?;
    writeln!(output, "first LSN    {}", view.first_lsn())?;
    writeln!(output, "end LSN      {}", view.end_lsn())?;
    writeln!(output, "segments     {}", view.segments())?;
    let evidence = view.evidence()?;
    writeln!(output, "outlives     {}", EffectiveClass::after(view.durability(), evidence.as_ref()).name())?;
    let method = view.method()?.map_or_else(
        || "none remembered: every opening named one".to_owned(),
        |(method, engine)| format!("{method}, on the {} engine", engine.name()),
    );
    writeln!(output, "method       {method}")?;
    let evidence = evidence.map_or_else(
        || "none since its file system was mounted: the next writer gathers it".to_owned(),
        |evidence| evidence.to_string(),
    );
    writeln!(output, "evidence     {evidence}")?;
    let writer = match view.has_writer() {
        Some(true) => "running",
        Some(false) => "none",
        None => "unknown: LOCK cannot be opened",
    };
    writeln!(output, "writer       {writer}")?;
    if let Some(ahead) = records::ahead(view.time_us()) {
        writeln!(
            output,
            "time         {ahead}; later batches are stamped no earlier, and retention by age waits until then"
        )?;
    }
    if let Some(text) = view.tail().and_then(loss) {
        writeln!(output, "lost         {text}")?;
    }
    Ok(())
}

/// What is gone though it had been acknowledged, where the log did not promise to keep it.
fn loss(tail: Tail) -> Option<String> {
    let Tail::Lost { from, to } = tail else { return None };
    Some(format!(
        "acknowledged records from LSN {from} to {to}: the failure was beyond the log's durability class"
    ))
}

fn print_loss(view: &View) {
    if let Some(text) = view.tail().and_then(loss) {
        tell!("lost: {text}");
    }
}

fn tail(report: &Report) -> String {
    match report.tail {
        Tail::Clean => "closed".to_owned(),
        Tail::Lost { .. } => loss(report.tail).map_or_else(String::new, |text| format!("lost {text}")),
        _ => format!("not closed; known to be durable up to LSN {}", report.witnessed),
    }
}

/// Damage ends the command with exit code 1, even if the report cannot be printed.
fn check(look: &Look) -> Result<(), Stop> {
    let report = verify(&look.dir)?;
    let printed = match look.format {
        Answer::Text => print_report(&report),
        Answer::Json => writeln!(io::stdout().lock(), "{}", records::report(&report)).map_err(Stop::from),
    };
    let Some(first) = report.damage.first() else { return printed };
    let mut text = format!(
        "{} damaged place(s), the first one in {}",
        report.damage.len(),
        printable(&first.to_string())
    );
    if let Err(Stop::Failed(unwritten)) = printed {
        text = format!("{text}; {unwritten}");
    }
    Err(Stop::Failed(text))
}

fn print_report(report: &Report) -> Result<(), Stop> {
    let mut output = io::stdout().lock();
    let (id, epoch, block_bytes) = (report.log_id, report.epoch, report.block_bytes);
    writeln!(output, "identity     {id}, epoch {epoch}, blocks of {block_bytes} bytes")?;
    writeln!(output, "segments     {} and {} prepared", report.segments, report.spares)?;
    writeln!(output, "LSNs         {} to {}", report.first, report.end)?;
    let (records, bytes, batches) = (report.records, report.bytes, report.batches);
    writeln!(output, "intact       {records} records of {bytes} bytes in {batches} batches")?;
    writeln!(output, "tail         {}", tail(report))?;
    for foreign in &report.foreign_files {
        writeln!(output, "not ours     {}", printable(foreign))?;
    }
    if report.damage.is_empty() {
        writeln!(output, "damage       none")?;
    }
    for damage in &report.damage {
        writeln!(output, "damage       {}", printable(&damage.to_string()))?;
    }
    output.flush().map_err(Stop::from)
}

fn save(options: &Salvage) -> Result<(), Stop> {
    let done = salvage(
        &options.from,
        &options.to,
        Options::default().network_file_system(options.place.network_file_system),
    )?;
    print_refusal(forbidden().as_deref());
    let mut output = io::stdout().lock();
    writeln!(output, "copied       {} records, up to LSN {} of the new log", done.records, done.end)?;
    for damage in &done.report.damage {
        writeln!(output, "damage       {}", printable(&damage.to_string()))?;
    }
    for (from, to) in &done.left_out {
        writeln!(output, "left out     LSN {from} to {to}, {} bytes", to.since(*from))?;
    }
    if done.left_out.is_empty() && done.report.damage.is_empty() {
        return Ok(());
    }
    let places = done.report.damage.len();
    if done.left_out.is_empty() {
        return Err(Stop::Failed(format!("{places} damaged place(s); no record is known to be missing")));
    }
    let bytes: u64 = done.left_out.iter().map(|(from, to)| to.since(*from)).sum();
    let ranges = done.left_out.len();
    Err(Stop::Failed(format!(
        "not everything was saved: {bytes} known bytes in {ranges} range(s) were left out, {places} damaged place(s)"
    )))
}

fn back_up(options: &Backup) -> Result<(), Stop> {
    let done = backup(&options.from, &options.to)?;
    let mut output = io::stdout().lock();
    writeln!(
        output,
        "backed up    {} records, LSN {} to {}",
        done.report.records, done.report.first, done.report.end
    )?;
    let (copied, kept, removed) = (done.copied, done.kept, done.removed);
    writeln!(output, "segments     {copied} copied, {kept} kept, {removed} removed")?;
    writeln!(output, "damage       none").map_err(Stop::from)
}

fn trim(options: &Trim) -> Result<(), Stop> {
    let settings = Options::default().create(false);
    let settings = settings.network_file_system(options.place.network_file_system);
    let log = Log::open(&options.dir, settings)?;
    print_refusal(log.opened().engine_refused.as_deref());
    let trimmed = log.trim(options.lsn);
    log.close()?;
    let first = trimmed?;
    writeln!(io::stdout().lock(), "first LSN    {first}").map_err(Stop::from)
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
