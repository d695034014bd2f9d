//! Damages simulated logs at rest and checks that recovery finds all damage to acknowledged records.
//!
//! ```text
//! rot [--seed N] [--logs N] [--per-log N] [--workers N] [--progress FILE] [--minutes N] [--cap-seconds N]
//! ```
//!
//! Damages the simulated logs of consecutive seeds and prints a table of outcomes, as Markdown; `resumable/mod.rs`
//! describes the options of every campaign.

mod resumable;

use resumable::{Anything, CampaignOptions};
use seawall::sim::crew::CampaignProgress;
use seawall::sim::rot::{Cell, ENDINGS, Injections, ROTS, Table};

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
    for (ending, cells) in ENDINGS.iter().zip(table) {
        for (kind, cell) in ROTS.iter().zip(cells) {
            row(ending, kind, *cell);
        }
        row(ending, "all", Cell::sum(cells));
    }
    let all = Cell::sum(table.iter().flatten());
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

fn main() -> Result<(), Anything> {
    let mut injections = Injections { per_log: 200, logs: 1_000 };
    let orders = CampaignOptions::read(|name, number| {
        match name {
            "--logs" => injections.logs = number,
            "--per-log" => injections.per_log = number,
            _ => return false,
        }
        true
    })?;
    orders.run(&injections, |CampaignProgress { first_seed, next_seed, milliseconds, sum }| {
        show(sum);
        let (last, per_log, seconds) = (next_seed - 1, injections.per_log, milliseconds / 1_000);
        println!("\nseeds {first_seed} to {last}, {per_log} injections a log, {seconds} s");
    })
}
