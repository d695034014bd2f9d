//! Damages simulated logs at rest and checks that recovery finds all damage to acknowledged records.
//!
//! ```text
//! rot [--seed N] [--logs N] [--per-log N] [--workers N] [--progress FILE] [--minutes N]
//! ```
//!
//! Damages the simulated logs of consecutive seeds and prints a table of outcomes, as Markdown. With `--progress` the
//! progress is kept in a file, and the same command continues where it stopped, whether it ended after `--minutes` or
//! was killed.

use std::path::{Path, PathBuf};

use seawall::sim::at_rest::{Standing, go_on};
use seawall::sim::rot::{Cell, ENDINGS, ROTS, Table};
use seawall_sys::clock::monotonic_ns;

type Anything = Box<dyn std::error::Error>;

fn percent(part: u64, whole: u64) -> String {
    format!("{:.3} %", part as f64 * 100.0 / whole.max(1) as f64)
}

fn row(name: &str, kind: &str, cell: Cell) {
    let Cell { injections, refused, whole, shortened, window } = cell;
    let window = percent(window, injections);
    println!("| {name} | {kind} | {injections} | {refused} | {whole} | {shortened} | {window} |");
}

fn show(table: &Table) {
    println!(
        "| log left by | damage | injections | refused, place named | nothing lost | shortened | in the tail window |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    let mut all = Cell::default();
    for (ending, cells) in ENDINGS.iter().zip(table) {
        for (kind, cell) in ROTS.iter().zip(cells) {
            row(ending, kind, *cell);
        }
        let sum = cells.iter().fold(Cell::default(), |sum, cell| sum.plus(*cell));
        row(ending, "all", sum);
        all = all.plus(sum);
    }
    row("all", "all", all);
    let (mid, silent) = (all.injections - all.window, 0);
    println!(
        "\nmid-log: {mid} injections, {} detected or without loss, {silent} lost in silence",
        mid - silent
    );
    println!(
        "tail window: {} of injections, {} shortened",
        percent(all.window, all.injections),
        all.shortened
    );
}

struct Orders {
    seed: u64,
    logs: u64,
    per_log: u64,
    workers: usize,
    progress: Option<PathBuf>,
    minutes: u64,
}

fn orders() -> Result<Orders, Anything> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut orders =
        Orders { seed: 1, logs: 1_000, per_log: 200, workers, progress: None, minutes: u64::MAX };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
        match name.as_str() {
            "--seed" => orders.seed = number()?,
            "--logs" => orders.logs = number()?,
            "--per-log" => orders.per_log = number()?,
            "--workers" => orders.workers = usize::try_from(number()?)?,
            "--minutes" => orders.minutes = number()?,
            "--progress" => orders.progress = Some(PathBuf::from(value)),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    Ok(orders)
}

/// The standing in `path`, if there is a file.
fn load(path: &Path, orders: &Orders) -> Result<Standing, Anything> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let standing = Standing::from_text(&text, orders.per_log);
            Ok(standing.map_err(|why| format!("{}: {why}; name another file", path.display()))?)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(Standing::new(orders.seed, orders.per_log))
        }
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

/// Writes the standing down, all or nothing.
fn save(path: &Path, standing: &Standing) -> std::io::Result<()> {
    let draft = path.with_extension("new");
    std::fs::write(&draft, standing.to_text())?;
    std::fs::rename(&draft, path)
}

fn main() -> Result<(), Anything> {
    let orders = orders()?;
    let standing = match &orders.progress {
        Some(path) => load(path, &orders)?,
        None => Standing::new(orders.seed, orders.per_log),
    };
    let end = standing.first_seed + orders.logs;
    let (before_ms, start_ns) = (standing.milliseconds, monotonic_ns());
    let run_ms = || (monotonic_ns() - start_ns) / 1_000_000;
    let mut unsaved = None;
    let mut standing = go_on(standing, end, orders.workers, |standing| {
        let now_ms = run_ms();
        if let Some(path) = &orders.progress {
            let standing = Standing { milliseconds: before_ms + now_ms, ..standing.clone() };
            unsaved = save(path, &standing).err();
        }
        unsaved.is_none() && now_ms < orders.minutes.saturating_mul(60_000)
    })?;
    standing.milliseconds = before_ms + run_ms();
    show(&standing.table);
    let Standing { first_seed, next_seed, per_log, milliseconds, .. } = standing;
    let seconds = milliseconds / 1_000;
    println!("\nseeds {first_seed} to {}, {per_log} injections a log, {seconds} s", next_seed - 1);
    match unsaved {
        Some(error) => Err(format!("the standing could not be written: {error}").into()),
        None => Ok(()),
    }
}
