//! `seawall trace`: traces a program, prints where its syncs go, and how long the same run would take on another disk.
//!
//! Invariant: standard output is the program's; the report goes to standard error or a file, and the exit code is the program's.

use crate::exit::Failure;
use crate::output::{self, Target};
use ::trace::{End, Options, Report, Syncs};
use clap::Args;
use seawall_gauge::result::RunResult;
use seawall_gauge::scenario::commit;
use serde_json::json;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const FORMAT: &str = "seawall-trace";

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Predict the run on the disk of this result of `seawall bench --json`; of several, the one of the nearest --size counts
    #[arg(long, value_name = "FILE")]
    price: Vec<PathBuf>,
    /// Hide `io_uring` from the program, because its syncs cannot be traced
    #[arg(long)]
    no_uring: bool,
    /// Trace writes too, to count those that sync because of `O_DSYNC` (slower)
    #[arg(long)]
    writes: bool,
    /// Write the report as JSON
    #[arg(long)]
    json: bool,
    /// Write the report to this file instead of standard error
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(options: &TraceArgs) -> Result<ExitCode, Failure> {
    let target = options.output.as_deref().map(Target::find).transpose()?;
    let prices = options.price.iter().map(|path| price_list(path)).collect::<Result<Vec<_>, _>>()?;
    let [program, arguments @ ..] = &options.command[..] else {
        return Err(Failure::Usage("name a program to trace".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let how = Options { no_uring: options.no_uring, writes: options.writes };
    let report = ::trace::run(command, how)
        .map_err(|error| Failure::Message(format!("{}: {error}", program.to_string_lossy())))?;
    let elsewhere = if prices.is_empty() { None } else { Some(priced(&report, &prices)?) };
    let text = if options.json {
        let figures = serde_json::to_value(&report).map_err(Failure::message)?;
        output::json(&json!({ "format": FORMAT, "version": 1, "report": figures, "priced_ns": elsewhere }))
    } else {
        let names: Vec<String> = options
            .price
            .iter()
            .map(|path| path.file_name().unwrap_or_default().to_string_lossy().into())
            .collect();
        let names = names.join(", ");
        report.text(elsewhere.map(|ns| (&*names, ns)))
    };
    match target {
        Some(target) => target.give(text.as_bytes())?,
        None => output::tell(format_args!("{text}")),
    }
    Ok(match report.end {
        End::Code(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        // As a shell says it.
        End::Signal(signal) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)),
    })
}

fn price_list(path: &std::path::Path) -> Result<RunResult, Failure> {
    let result = RunResult::read(path).map_err(Failure::message)?;
    if result.scenario != commit::NAME {
        return Err(Failure::Message(format!(
            "--price {}: a result of `seawall bench {}`; expected one of `seawall bench commit --json FILE`",
            path.display(),
            result.scenario
        )));
    }
    Ok(result)
}

/// The row of the method table that syncs as a call does.
fn method(call: &str) -> &'static str {
    match call {
        "fdatasync" => "buffered+fdatasync",
        "msync" => "mmap+msync",
        "sync" | "syncfs" => "buffered+syncfs",
        "sync_file_range" => "sync-file-range",
        "pwritev2" => "rwf-dsync",
        "write" | "writev" | "pwrite64" | "pwritev" => "dsync",
        _ => "buffered+fsync",
    }
}

/// The median of a commit that syncs as `row` does, in the result of the nearest size.
fn p50_ns(row: &Syncs, prices: &[RunResult]) -> Option<u64> {
    let bytes = row.dirty_bytes.0.checked_div(row.dirty_bytes.1).unwrap_or(0);
    let size = |result: &&RunResult| result.plan.transaction_bytes;
    let enough = prices.iter().filter(|result| size(result) >= bytes).min_by_key(size);
    let result = enough.or_else(|| prices.iter().max_by_key(size))?;
    let found = result.measured().find(|(measured, _)| measured.id == method(row.call))?;
    Some(found.1.main().p50_ns())
}

fn priced(report: &Report, prices: &[RunResult]) -> Result<u64, Failure> {
    if let Some(row) = report.syncs.iter().find(|row| p50_ns(row, prices).is_none()) {
        let id = method(row.call);
        return Err(Failure::Message(format!(
            "--price: no figure for {}: measure with `seawall bench --methods {id} --json FILE`",
            row.call
        )));
    }
    report
        .priced_ns(|row| p50_ns(row, prices))
        .ok_or_else(|| Failure::Message("--price: the predicted time is too long to express".to_owned()))
}
