//! Renders the first screen of a run of ranked methods: a line a method with its range, and the verdict last.
//!
//! ```text
//!   what was done · the device
//!   table: what outlives a power cut, best first   name · figures · ●━━── p50 to p99 to p99.9, log scale
//!          ──── below this line a power cut loses acknowledged commits ────
//!          the others by class
//!   verdict: what a durable commit costs here, by which method      or one banner, if the run cannot tell
//!   next: what to do with it
//! ```
//!
//! Invariants: no line is wider than the width; the methods of a default run take at most 24 lines at 80 columns; a
//! disturbed run gets no recommendation; nothing here is computed that the whole report ([`super::table`]) does not have.

use super::columns::{UNKNOWN, percentile};
use super::figure::far_ns;
use super::grid::missing;
use super::markdown::add;
use super::table::{heading, role, verdict};
use super::text::{Page, elided, width_of};
use super::{Role, Style, WIDTH_DEFAULT, WIDTH_MIN, facts};
use crate::advise::products::PRODUCTS;
use crate::figures::{listing, plural, rate_tight, round_duration, tight};
use crate::findings;
use crate::judgement::{Answer, Judgement};
use crate::lookup;
use crate::rank::{EffectiveClass, Ranked, Ranking};
use crate::result::RunResult;
use crate::row::FAILED;
use crate::scenario::commit::look::ALL_MEASURES;
use seawall_sys::inspect::Device;
use seawall_sys::method::Set;

/// The narrowest range that says anything, columns.
const RANGE_MIN: usize = 14;
const RANGE_MAX: usize = 48;

struct Column {
    head: &'static str,
    width: usize,
    cell: fn(&Ranked<'_>) -> String,
}

/// The figures, the most wanted first: on a narrow terminal the last ones go.
const COLUMNS: [Column; 5] = [
    Column { head: "p50", width: 6, cell: |row| tight(row.p50_ns() as f64) },
    Column { head: "p99", width: 7, cell: |row| percentile(row.measured.main(), 99.0) },
    Column { head: "rate/s", width: 6, cell: |row| rate_tight(row.measured.commits_per_s()) },
    Column { head: "p99.9", width: 7, cell: |row| percentile(row.measured.main(), 99.9) },
    Column { head: "flush", width: 5, cell: |row| row.evidence.flushes() },
];
/// The order in which they stand.
const ORDER: [usize; 5] = [4, 0, 1, 3, 2];

/// The first screen of a result whose rows are ranked methods. `kept`: the folder that the result is in, as the user can
/// name it.
pub fn screen(result: &RunResult, kept: Option<&str>, width: usize, style: Style) -> String {
    let ranking = Ranking::new(result);
    let mut page = Page::new(width.max(WIDTH_MIN), style);
    page.say(Role::Heading, "", &title(result));
    page.say(Role::Plain, "device  ", &device(result));
    let judgement = Judgement::of(&ranking);
    if !ranking.rows.is_empty() {
        table(&mut page, &ranking, &judgement);
    }
    not_here(&mut page, result);
    page.blank();
    let banner = !matches!(judgement.answer, Answer::Costs | Answer::Capped | Answer::AtMost);
    verdict(&mut page, if banner { "!!       " } else { "verdict  " }, &judgement);
    next(&mut page, &ranking, &judgement, kept);
    page.out
}

fn title(result: &RunResult) -> String {
    let long = facts::title(result);
    long.replace(", closed loop", "").replace(" in all · ", ", ").replace(" a method · ", " a method, ")
}

/// The devices with their caches, what is made of them, the file system, and what is between them and this program.
fn device(result: &RunResult) -> String {
    let environment = &result.environment;
    let mut parts: Vec<String> = Vec::new();
    // Partitions are parts of a disk; what a volume, an array or an image is made as decides what a flush means.
    let made = environment.devices.iter().filter(|device| !device.stands_on.is_empty());
    let made: Vec<String> = made
        .filter(|device| device.kind != "partition")
        .map(|device| format!("{} ({})", device.name, device.model.as_deref().unwrap_or(&device.kind)))
        .collect();
    let leaves: Vec<&Device> = environment.leaves().collect();
    // That most disks do not turn is no news.
    let brief = |leaf: &Device| {
        facts::device(leaf).replace(", does not turn", "").replace("volatile write cache", "volatile cache")
    };
    let disks = match leaves[..] {
        [] => "none that this system shows".to_owned(),
        [one] => brief(one),
        _ => leaves.iter().map(|leaf| leaf.name.as_str()).collect::<Vec<_>>().join(" and "),
    };
    parts.push(if made.is_empty() { disks } else { format!("{} on {disks}", made.join(", ")) });
    parts.push(environment.file_system.kind.clone());
    parts.extend(environment.hypervisor.as_ref().map(|name| format!("in {name}")));
    parts.extend(environment.wine.as_ref().map(|version| format!("Wine {version}")));
    parts.join(" · ")
}

fn table(page: &mut Page, ranking: &Ranking<'_>, judgement: &Judgement) {
    let layout = Layout::new(ranking, page.width);
    page.blank();
    page.line(Role::Dim, &layout.head());
    if ranking.best_durable().is_none() {
        page.say(Role::Bad, "", "nothing measured here is shown to outlive POWER LOSS");
    }
    let recommended = judgement.recommended.as_deref();
    let mut drawn = false;
    for class in EffectiveClass::ALL {
        let rows: Vec<&Ranked<'_>> = ranking.of(class).collect();
        if rows.is_empty() {
            continue;
        }
        if class > EffectiveClass::PowerLoss && !drawn {
            drawn = true;
            let words = "── below this line a power cut loses acknowledged commits ";
            let line: String =
                format!("{words:─<width$}", width = page.width).chars().take(page.width).collect();
            page.line(Role::Bad, &line);
        }
        let heading = heading(ranking.result, class, &rows);
        if page.width < WIDTH_DEFAULT {
            page.say(role(class), "", &heading);
        } else {
            page.line(role(class), &elided(&heading, page.width));
        }
        let (shown, folded): (Vec<&Ranked<'_>>, Vec<&Ranked<'_>>) =
            rows.iter().copied().partition(|row| !is_folded(ranking, row, &rows));
        for row in shown {
            let best = recommended == Some(row.id()) && class == EffectiveClass::PowerLoss;
            page.line(if best { Role::Good } else { Role::Plain }, &layout.row(row));
        }
        if let [first, .., last] | [first @ last] = &folded[..] {
            let span = [first, last].map(|row| tight(row.p50_ns() as f64)).join(" to ");
            let ids: Vec<&str> = folded.iter().map(|row| row.id()).collect();
            let words = format!("{} more, p50 {span}: {}", folded.len(), listing(&ids, 3));
            page.line(Role::Dim, &elided(&words, page.width));
        }
    }
    if layout.range > 0 {
        page.say(Role::Dim, "", &layout.legend(ranking));
    }
}

/// Whether a row of a default run stands in the whole report only: one that was measured for a product which calls it, and
/// is no faster than a published one of its class.
fn is_folded(ranking: &Ranking<'_>, row: &Ranked<'_>, class: &[&Ranked<'_>]) -> bool {
    let published = |row: &Ranked<'_>| {
        lookup::method(ranking.result, row.row).is_none_or(|method| method.set == Set::Published)
    };
    looked_at_all(ranking.result)
        && !published(row)
        && class.iter().any(|other| published(other) && other.p50_ns() <= row.p50_ns())
}

/// Whether the run had a short look at the methods that it does not list.
fn looked_at_all(result: &RunResult) -> bool {
    result.study.notes.iter().any(|note| note.ends_with(ALL_MEASURES))
}

struct Layout {
    name: usize,
    columns: Vec<&'static Column>,
    /// Columns of the range; 0: there is none.
    range: usize,
    low_ns: f64,
    high_ns: f64,
}

impl Layout {
    fn new(ranking: &Ranking<'_>, width: usize) -> Self {
        let longest = ranking.rows.iter().map(|row| width_of(row.id())).chain(["method".len()]).max();
        let name = longest.unwrap_or(0).min((width / 3).max(18));
        let says = |column: &Column| ranking.rows.iter().any(|row| (column.cell)(row) != UNKNOWN);
        let mut kept: Vec<usize> = (0..COLUMNS.len()).filter(|at| says(&COLUMNS[*at])).collect();
        let taken = |kept: &[usize]| name + kept.iter().map(|at| COLUMNS[*at].width + 1).sum::<usize>();
        while kept.len() > 2 && taken(&kept) > width {
            kept.pop();
        }
        let left = width.saturating_sub(taken(&kept) + 1).min(RANGE_MAX);
        let ends = ranking.rows.iter().map(|row| (row.p50_ns(), far_ns(row.measured.main())));
        let low_ns = ends.clone().map(|(p50_ns, _)| p50_ns).min().unwrap_or(1).max(1) as f64;
        let high_ns = ends.map(|(_, far_ns)| far_ns).max().unwrap_or(1) as f64;
        Self {
            name,
            columns: ORDER.iter().filter(|at| kept.contains(at)).map(|at| &COLUMNS[*at]).collect(),
            range: if left < RANGE_MIN { 0 } else { left },
            low_ns: low_ns * 0.9,
            high_ns: high_ns.max(low_ns * 2.0) * 1.1,
        }
    }

    /// The column of a duration in the range.
    fn at(&self, ns: f64) -> usize {
        let share = (ns.max(self.low_ns) / self.low_ns).ln() / (self.high_ns / self.low_ns).ln();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share from 0 to 1 of columns"
        )]
        let column = (share.clamp(0.0, 1.0) * (self.range - 1) as f64).round() as usize;
        column
    }

    fn head(&self) -> String {
        let mut line = format!("{:<width$}", "method", width = self.name);
        for column in &self.columns {
            add(&mut line, &format!(" {:>width$}", column.head, width = column.width));
        }
        if self.range > 0 {
            add(&mut line, &format!(" {}", self.axis()));
        }
        line
    }

    fn axis(&self) -> String {
        let mut axis: Vec<char> = vec![' '; self.range];
        let mut free = 0;
        for label_ns in self.marks() {
            let label: Vec<char> =
                format!("|{}", round_duration(label_ns).replace(' ', "")).chars().collect();
            let at = self.at(label_ns as f64);
            if at >= free && at + label.len() <= self.range {
                axis[at..at + label.len()].copy_from_slice(&label);
                free = at + label.len() + 1;
            }
        }
        axis.into_iter().collect()
    }

    /// Powers of ten within the range, and what lies between them if there are few.
    fn marks(&self) -> Vec<u64> {
        let within = |ns: &u64| (self.low_ns..=self.high_ns).contains(&(*ns as f64));
        let powers = || (0..12).map(|power| 10_u64.pow(power));
        let tens: Vec<u64> = powers().filter(within).collect();
        if tens.len() > 1 {
            return tens;
        }
        powers().flat_map(|ns| [ns, ns * 2, ns * 5]).filter(within).collect()
    }

    fn row(&self, row: &Ranked<'_>) -> String {
        let mut line = format!("{:<width$}", elided(row.id(), self.name), width = self.name);
        for column in &self.columns {
            add(&mut line, &format!(" {:>width$}", (column.cell)(row), width = column.width));
        }
        if self.range > 0 {
            add(&mut line, &format!(" {}", self.bar(row)));
        }
        line
    }

    fn bar(&self, row: &Ranked<'_>) -> String {
        let latency = row.measured.main();
        let p50 = self.at(row.p50_ns() as f64);
        let p99 = latency.percentile(99.0).ns().map_or(p50, |ns| self.at(ns as f64));
        let far = self.at(far_ns(latency) as f64);
        let glyph = |at: usize| match at {
            _ if at == p50 => '●',
            _ if at < p50 => ' ',
            _ if at <= p99 => '━',
            _ if at <= far => '─',
            _ => ' ',
        };
        (0..self.range).map(glyph).collect()
    }

    fn legend(&self, ranking: &Ranking<'_>) -> String {
        let cell_is = |is: fn(&str) -> bool| {
            ranking.rows.iter().any(|row| self.columns.iter().any(|column| is(&(column.cell)(row))))
        };
        let shown = |head: &str| self.columns.iter().any(|column| column.head == head);
        let parts = [
            (true, "● p50 ━ to p99 ─ to p99.9, log scale"),
            (shown("flush"), "flush: device flushes a commit"),
            (cell_is(|cell| cell.starts_with('~')), "~: few samples"),
        ];
        let parts: Vec<&str> =
            parts.into_iter().filter(|(shown, _)| *shown).map(|(_, words)| words).collect();
        parts.join("; ")
    }
}

/// What failed, and which methods cannot be had: of a run that looked at all the published ones, else those asked for.
fn not_here(page: &mut Page, result: &RunResult) {
    let looked_at_all = looked_at_all(result);
    let published = |id: &&str| result.study.row(id).is_some_and(|row| lookup::is_published(result, row));
    for one in missing(&result.study) {
        let failed = one.word == FAILED;
        let shown = |id: &&str| failed || !looked_at_all || published(id);
        let ids: Vec<&str> = one.ids.iter().copied().filter(shown).collect();
        if !ids.is_empty() {
            let role = if failed { Role::Bad } else { Role::Dim };
            page.say(role, &format!("{}: ", one.word), &format!("{}: {}", listing(&ids, 3), one.reason));
        }
    }
}

fn next(page: &mut Page, ranking: &Ranking<'_>, judgement: &Judgement, kept: Option<&str>) {
    let grave = findings::grave(ranking).map(|grave| grave.next);
    let advised = format!(
        "seawall advise: what to set in PostgreSQL, MySQL, etcd and {} more",
        PRODUCTS.len().saturating_sub(3)
    );
    let first = match judgement.answer {
        Answer::Costs => &advised,
        _ => grave.or(judgement.remedy()).unwrap_or(&advised),
    };
    page.say(Role::Plain, "next     ", first);
    let found = plural(judgement.findings.len() as u64, "finding", "findings");
    let second = match kept {
        Some(folder) => format!("{found}: {folder}/report.html"),
        None => format!("{found}: --verbose prints them, --html FILE has pictures too"),
    };
    page.say(Role::Plain, "         ", &second);
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_named_with_the_disks_that_it_stands_on() {
        let mut result = crate::sample::volatile(Vec::new());
        let disk = |name: &str| Device { name: name.to_owned(), ..result.environment.devices[0].clone() };
        let array = Device {
            kind: "md".to_owned(),
            model: Some("raid1".to_owned()),
            stands_on: ["sda", "sdb"].map(str::to_owned).to_vec(),
            ..disk("md0")
        };
        result.environment.devices = vec![array, disk("sda"), disk("sdb")];
        let line = device(&result);
        assert!(line.starts_with("md0 (raid1) on sda and sdb ·"), "{line}");
    }
}
