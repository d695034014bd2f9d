//! `seawall powercut …`: runs the power-cut library and prints its verdicts.
//!
//! Invariants: the verdict goes to standard output, everything else to standard error, but for what is waited for: the id
//! of a run, the messages of a witness. Exit code 0 is given only for a cut without a broken
//! promise; a run that no cut ended, or that could not be judged, gives exit code 1.

use crate::exit::{BROKEN, Failure};
use crate::output::Target;
use crate::{amounts, output, paths, signals};
use bytesize::ByteSize;
use clap::{Args, Subcommand, ValueEnum};
use seawall_host::text::printable;
use seawall_powercut::check::{Question, check};
use seawall_powercut::run::{Begun, Plan};
use seawall_powercut::verdict::{Judgement, NoCut};
use seawall_powercut::{RunId, WitnessCommand, witness};
use seawall_sys::durability::Durability;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Test whether acknowledged data survives real power cuts, with a witness on another host
#[derive(Debug, Args)]
pub(crate) struct PowercutArgs {
    #[command(subcommand)]
    command: PowercutCommand,
}

#[derive(Debug, Subcommand)]
enum PowercutCommand {
    /// Record acknowledgements durably, on a host whose power stays on: `run` and `check` start it there through ssh
    Witness(WitnessArgs),
    /// Write, and report every acknowledgement to the witness, until the power is cut
    Run(RunArgs),
    /// Check the surviving files when the power is back; exit code 4 if a promise was broken, 1 if no cut came
    Check(CheckArgs),
}

#[derive(Debug, Args)]
struct WitnessArgs {
    /// The folder of the ledger; created if there is none
    #[arg(long, value_name = "DIR")]
    ledger: PathBuf,
}

/// The witness that a run reports to and a check reads.
#[derive(Debug, Args)]
struct Reach {
    /// The host that keeps its power, as ssh names it; seawall must be installed there, and ssh must need no password
    #[arg(long, value_name = "HOST", required_unless_present = "witness_command")]
    witness: Option<String>,
    /// The folder of the ledger on that host, relative to the login folder; created if there is none
    #[arg(long, value_name = "DIR", default_value = "powercut-ledger")]
    ledger: String,
    /// In place of ssh, a program whose standard input and output are those of `seawall powercut witness`; its words are separated by spaces
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["witness", "ledger"])]
    witness_command: Option<String>,
}

impl Reach {
    fn command(&self) -> Result<WitnessCommand, Failure> {
        match (&self.witness_command, &self.witness) {
            (Some(words), _) => WitnessCommand::new(words),
            (None, host) => WitnessCommand::ssh(host.as_deref().unwrap_or_default(), &self.ledger),
        }
        .map_err(Failure::usage)
    }
}

#[derive(Debug, Args)]
struct RunArgs {
    /// A folder on the disk under test; the run creates its own folder in it
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    reach: Reach,
    /// Commit methods by id (see `seawall methods`), log, log:ID, and the groups durable and all, separated by commas
    #[arg(long, value_name = "IDS", default_value = "log")]
    method: String,
    /// Size of a record
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = amounts::size)]
    size: ByteSize,
    /// Size of each method's journal; a log is trimmed to it
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = amounts::size)]
    journal: ByteSize,
    /// Records written ahead of the witness's confirmation; 1 waits for it after each commit
    #[arg(long, value_name = "N", default_value_t = 16)]
    window: u32,
    /// How long one method writes before the next
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = amounts::time)]
    turn: Duration,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = amounts::time)]
    duration: Option<Duration>,
    /// Threads that commit to the log at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    committers: u8,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The folder that `run` was given
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    reach: Reach,
    /// The run to judge [default: the one that began last]
    #[arg(long, value_name = "ID")]
    run: Option<RunId>,
    /// Judge every method by this class, whatever it promised
    #[arg(long, value_name = "CLASS")]
    hold_to: Option<HoldTo>,
    /// The file system is mounted: a missing run folder counts as lost
    #[arg(long)]
    mounted: bool,
    /// Only the disk's power was cut: do not take this host's uptime as proof that no cut came
    #[arg(long)]
    disk_cut: bool,
    /// Write the verdict as JSON to this file (- for standard output, instead of the table)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The classes as words of the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum HoldTo {
    ProcessCrash,
    SystemCrash,
    PowerLoss,
}

pub(crate) fn run(args: &PowercutArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        PowercutCommand::Witness(options) => serve(options),
        PowercutCommand::Run(options) => write(options),
        PowercutCommand::Check(options) => judge(options),
    }
}

fn serve(options: &WitnessArgs) -> Result<ExitCode, Failure> {
    if options.ledger.exists() || options.ledger.is_symlink() {
        paths::check_folder(&options.ledger, "name one for the ledger")?;
    }
    let (input, output) = (std::io::stdin(), std::io::stdout());
    if input.is_terminal() {
        tell!("serves `seawall powercut run` and `check`, which start it themselves; Ctrl-D ends it");
    }
    let fine = witness::serve(input, output, &options.ledger).map_err(Failure::message)?;
    Ok(ExitCode::from(u8::from(!fine)))
}

fn begun(run: &Begun) {
    for (method, why) in &run.not_available {
        tell!("n/a: {method}: {}", printable(why));
    }
    for (method, class) in &run.methods {
        tell!("writes by {method}, which promises to outlive: {}", class.name());
    }
    // The run continues if the pipe is closed.
    let mut stdout = std::io::stdout().lock();
    let line = format!("run {} writes in {}\n", run.run, printable(&run.folder.display().to_string()));
    let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
}

fn write(options: &RunArgs) -> Result<ExitCode, Failure> {
    paths::check_folder(&options.folder, "name one on the disk under test")?;
    signals::listen()?;
    let plan = Plan {
        folder: options.folder.clone(),
        witness: options.reach.command()?,
        methods: options.method.clone(),
        record_bytes: u32::try_from(options.size.as_u64()).unwrap_or(u32::MAX),
        journal_bytes: options.journal.as_u64(),
        window: options.window,
        turn: options.turn.max(Duration::from_millis(1)),
        duration: options.duration,
        committers: usize::from(options.committers),
    };
    let ended = seawall_powercut::run::run(&plan, &signals::STOP, begun).map_err(Failure::message)?;
    for (method, acknowledged) in &ended.acknowledged {
        output::print(&format!("{method:26} {acknowledged:>12} acknowledged\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn judge(options: &CheckArgs) -> Result<ExitCode, Failure> {
    // What is gone altogether may be what the power cut took.
    if options.folder.exists() || options.folder.is_symlink() {
        paths::check_folder(&options.folder, "name the one that `run` was given")?;
    }
    let json = options.json.as_deref().map(Target::find).transpose()?;
    let question = Question {
        folder: options.folder.clone(),
        witness: options.reach.command()?,
        run: options.run,
        hold_to: options.hold_to.map(|class| match class {
            HoldTo::ProcessCrash => Durability::ProcessCrash,
            HoldTo::SystemCrash => Durability::SystemCrash,
            HoldTo::PowerLoss => Durability::PowerLoss,
        }),
        missing_is_lost: options.mounted,
        disk_cut: options.disk_cut,
    };
    let judgement = check(&question).map_err(Failure::message)?;
    print(&judgement, json.as_ref())?;
    if judgement.is_broken() {
        return Ok(ExitCode::from(BROKEN));
    }
    if judgement.is_empty() {
        return Err(Failure::Message(format!(
            "run {} had nothing acknowledged when it was cut: there is nothing to judge; let it write longer",
            judgement.run
        )));
    }
    if let Some(no_cut) = judgement.no_cut {
        return Err(Failure::Message(format!(
            "run {}: {}. No commit was at risk, so nothing is proven; cut the power while it writes{}",
            judgement.run,
            no_cut.name(),
            if no_cut == NoCut::SameBoot {
                ", or add --disk-cut if only the disk lost its power"
            } else {
                " (without --duration)"
            }
        )));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(judgement: &Judgement, json: Option<&Target>) -> Result<(), Failure> {
    let Some(target) = json else { return output::print(&judgement.text()) };
    let text = serde_json::to_string_pretty(judgement).map_err(Failure::message)? + "\n";
    target.give(text.as_bytes())?;
    if target.is_printed() {
        return Ok(());
    }
    output::print(&judgement.text())
}
