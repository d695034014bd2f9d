//! Is damage in the middle of an acknowledged log always found?
//!
//! ```text
//! rot [--seed N] [--logs N] [--per-log N] [--workers N]
//! ```
//!
//! Damages the simulated logs of consecutive seeds and prints what came of it, as Markdown.

use seawall::sim::campaign::Failure;
use seawall::sim::rot::{Cell, ENDINGS, ROTS, Table, rot};
use seawall_sys::clock::monotonic_ns;

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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut seed, mut logs, mut per_log) = (1, 1_000, 200);
    let mut workers = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a number"))?.parse::<u64>()?;
        match name.as_str() {
            "--seed" => seed = value,
            "--logs" => logs = value,
            "--per-log" => per_log = value,
            "--workers" => workers = value.max(1),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let start_ns = monotonic_ns();
    let tables: Vec<Result<Table, Failure>> = std::thread::scope(|scope| {
        let span = |worker: u64| seed + logs * worker / workers..seed + logs * (worker + 1) / workers;
        let started: Vec<_> =
            (0..workers).map(|worker| scope.spawn(move || rot(span(worker), per_log))).collect();
        started.into_iter().map(|worker| worker.join().expect("no worker panics")).collect()
    });
    let mut sum = Table::default();
    for table in tables {
        for (row, more) in sum.iter_mut().zip(table?) {
            row.iter_mut().zip(more).for_each(|(cell, more)| *cell = cell.plus(more));
        }
    }
    show(&sum);
    let seconds = (monotonic_ns() - start_ns) / 1_000_000_000;
    println!("\nseeds {seed} to {}, {per_log} injections a log, {seconds} s", seed + logs - 1);
    Ok(())
}
