//! Reads the published tables in `published/`, embedded in the program.
//!
//! The format is described in `published/README.md`. Cells are kept as printed; values are computed from
//! them, and a column that the source rounded is computed again from the one that it rounded.
//!
//! Invariants (tested below): every file reads, ids are unique, every cell is a figure, every row of a table
//! with a system is a row of that system's method table.

use super::Incomparable;
use super::measure::Measure;
use crate::study::Unit;
use seawall_sys::durability::FileState;
use seawall_sys::method::System;
use serde::Deserialize;
use std::sync::LazyLock;

/// What stands before an id on the command line.
pub(crate) const PREFIX: &str = "published:";

const FILES: [&str; 4] = [
    include_str!("../../published/fast-transaction-log.json"),
    include_str!("../../published/fsync-performance.json"),
    include_str!("../../published/seek-write-pwrite.json"),
    include_str!("../../published/background-fsync.json"),
];

static ALL: LazyLock<Vec<File>> = LazyLock::new(|| {
    let read = |text: &&str| serde_json::from_str(text).expect("an embedded file that the tests have read");
    FILES.iter().map(read).collect()
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    #[serde(rename = "format")]
    _format: Format,
    #[serde(rename = "version")]
    _version: u32,
    pub source: Source,
    pub tables: Vec<Table>,
    /// Percentages that it states in words.
    pub claims: Vec<Claim>,
    /// Tables that it made of two others.
    pub comparisons: Vec<Printed>,
}

#[derive(Debug, Deserialize)]
enum Format {
    #[serde(rename = "seawall-published")]
    Published,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Source {
    pub title: String,
    pub author: String,
    pub published: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// What follows [`PREFIX`].
    pub id: String,
    pub title: String,
    pub scenario: String,
    /// The system whose methods its rows are, if they are methods.
    pub system: Option<System>,
    pub machine: String,
    pub files: String,
    pub device: String,
    /// Operations a row.
    pub commits: Option<u64>,
    /// Size of one, bytes.
    pub transaction_bytes: Option<u64>,
    /// The journal's state while most of it was written.
    pub file_state: Option<FileState>,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// What a reader must know.
    pub remarks: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Column {
    pub id: String,
    /// Its head as printed.
    pub title: String,
    pub unit: CellUnit,
    /// How it follows from another column, unrounded.
    pub computed: Option<Computed>,
}

impl Column {
    pub(crate) fn measure(&self) -> Measure {
        let unit = if self.unit == CellUnit::Count { Unit::Count } else { Unit::Nanoseconds };
        Measure::known(&self.id).unwrap_or_else(|| Measure {
            id: self.id.clone(),
            title: self.title.clone(),
            unit,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum CellUnit {
    #[serde(rename = "ns")]
    Nanoseconds,
    #[serde(rename = "us")]
    Microseconds,
    #[serde(rename = "ms")]
    Milliseconds,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "m:s")]
    MinutesSeconds,
    /// A number of things.
    #[serde(rename = "count")]
    Count,
}

impl CellUnit {
    /// How many nanoseconds, or things, one is.
    fn scale(self) -> f64 {
        match self {
            Self::Nanoseconds | Self::Count => 1.0,
            Self::Microseconds => 1e3,
            Self::Milliseconds => 1e6,
            Self::Seconds | Self::MinutesSeconds => 1e9,
        }
    }

    /// Its sign after a figure.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::MinutesSeconds => "min:s",
            Self::Count => "",
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Computed {
    /// From the cell of this column,
    of: String,
    /// by this number,
    by: Option<u64>,
    /// or by that cell of the row.
    by_column: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// What pairs it with a row of another table or result.
    pub method: String,
    pub name: String,
    /// As printed, one a column.
    pub cells: Vec<String>,
}

/// A percentage stated in words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    pub table: String,
    pub words: String,
    /// The column it is computed from,
    pub column: String,
    /// of this row
    pub of: String,
    /// against that one.
    pub against: String,
}

/// A table made of two others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Printed {
    /// The table that is judged,
    pub of: String,
    /// against this one,
    pub against: String,
    /// by this column.
    pub column: String,
    pub rows: Vec<PrintedRow>,
}

/// A row of such a table, as printed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PrintedRow {
    /// The row of the one,
    pub method: String,
    /// The figure of the one,
    pub cost: String,
    /// and of the other.
    pub against_cost: String,
    /// How many per cent less the one is.
    pub percent: String,
}

impl PrintedRow {
    /// Per cent by which the one is less, computed from the rounded figures of the same row.
    pub(crate) fn percent_of_rounded(&self) -> Option<f64> {
        let (one, other) = (figure(&self.cost)?, figure(&self.against_cost)?);
        Some((1.0 - one / other) * 100.0)
    }
}

impl Table {
    /// The printed cell of `row` in `column`; `None` where nothing was printed.
    pub(crate) fn printed<'a>(&self, row: &'a Row, column: &str) -> Option<&'a str> {
        let index = self.columns.iter().position(|known| known.id == column)?;
        row.cells.get(index).map(String::as_str).filter(|cell| !cell.is_empty())
    }

    /// The value of `row` in `column`, in nanoseconds or things: unrounded where it can be computed.
    pub(crate) fn value(&self, row: &Row, column: &Column) -> Option<f64> {
        let Some(computed) = &column.computed else {
            return Some(figure(self.printed(row, &column.id)?)? * column.unit.scale());
        };
        let of = self.columns.iter().find(|known| known.id == computed.of)?;
        let whole = figure(self.printed(row, &of.id)?)? * of.unit.scale();
        let parts = match (&computed.by, &computed.by_column) {
            (Some(by), _) => *by as f64,
            (None, Some(by)) => figure(self.printed(row, by)?)?,
            (None, None) => return None,
        };
        (parts > 0.0).then_some(whole / parts)
    }

    /// Printed cells that are not what they were rounded from, in words.
    pub(crate) fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for column in self.columns.iter().filter(|column| column.computed.is_some()) {
            for row in &self.rows {
                let Some((printed, value)) = self.printed(row, &column.id).zip(self.value(row, column))
                else {
                    continue;
                };
                let value = value / column.unit.scale();
                if !is_rounded(printed, value) {
                    let sign = column.unit.sign();
                    errors.push(format!(
                        "{}: {} is printed as {printed} {sign}; computed, it is {value:.4} {sign}",
                        row.name, column.title
                    ));
                }
            }
        }
        errors
    }
}

/// A printed figure as a number: `72,116`, `~900`, `.012`, `6:47.77` (minutes and seconds, in seconds).
pub(crate) fn figure(cell: &str) -> Option<f64> {
    let plain = cell.trim_start_matches('~').replace(',', "");
    match plain.split_once(':') {
        Some((minutes, seconds)) => Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?),
        None => plain.parse().ok(),
    }
}

/// Whether `printed` is `value` rounded or cut to the digits that were printed.
fn is_rounded(printed: &str, value: f64) -> bool {
    let decimals = printed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let last_digit = 0.1_f64.powi(i32::try_from(decimals).unwrap_or(i32::MAX));
    // A hair's tolerance, because decimal digits are not binary ones.
    figure(printed).is_some_and(|printed| (printed - value).abs() <= last_digit * 1.000_001)
}

pub(crate) fn all() -> &'static [File] {
    &ALL
}

/// The table called `id`, with or without [`PREFIX`], and its source.
pub(crate) fn find(id: &str) -> Result<(&'static File, &'static Table), Incomparable> {
    let bare = id.strip_prefix(PREFIX).unwrap_or(id);
    let mut tables = all().iter().flat_map(|file| file.tables.iter().map(move |table| (file, table)));
    tables.find(|(_, table)| table.id == bare).ok_or_else(|| Incomparable::Unknown(bare.to_owned()))
}

/// What the sources printed of `of` against `against`, in this direction.
pub(crate) fn comparison(of: &str, against: &str) -> Option<&'static Printed> {
    let mut printed = all().iter().flat_map(|file| &file.comparisons);
    printed.find(|printed| printed.of == of && printed.against == against)
}

/// What the sources say in words of the table `id`, each with what it is when computed.
pub(crate) fn claims(id: &str) -> Vec<String> {
    let of_table = |file: &'static File| {
        let table = file.tables.iter().find(|table| table.id == id)?;
        Some(
            file.claims
                .iter()
                .filter(|claim| claim.table == id)
                .filter_map(|claim| computed_claim(table, claim)),
        )
    };
    all().iter().filter_map(of_table).flatten().collect()
}

fn computed_claim(table: &Table, claim: &Claim) -> Option<String> {
    let column = table.columns.iter().find(|column| column.id == claim.column)?;
    let value = |method: &str| {
        let row = table.rows.iter().find(|row| row.method == method)?;
        table.value(row, column)
    };
    let percent = (1.0 - value(&claim.of)? / value(&claim.against)?) * 100.0;
    Some(format!("\"{}\": computed, {} is {percent:.1} % below {}", claim.words, claim.of, claim.against))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_sys::methods;
    use std::collections::HashSet;

    #[test]
    fn every_embedded_file_reads_and_every_cell_is_a_figure() {
        let mut seen = HashSet::new();
        for text in FILES {
            let file: File = serde_json::from_str(text).expect("an embedded file");
            for table in &file.tables {
                assert!(seen.insert(table.id.clone()), "{} stands twice", table.id);
                for row in &table.rows {
                    assert_eq!(row.cells.len(), table.columns.len(), "{}: {}", table.id, row.name);
                    for cell in row.cells.iter().filter(|cell| !cell.is_empty()) {
                        assert!(figure(cell).is_some(), "{}: {cell}", table.id);
                    }
                    let known = |system| methods::of(system).iter().any(|method| method.id == row.method);
                    assert!(table.system.is_none_or(known), "{}: {}", table.id, row.method);
                }
                for column in table.columns.iter().filter(|column| column.computed.is_some()) {
                    assert!(table.rows.iter().all(|row| table.value(row, column).is_some()), "{}", table.id);
                }
            }
            let tables: HashSet<&str> = file.tables.iter().map(|table| table.id.as_str()).collect();
            for claim in &file.claims {
                assert_eq!(claims(&claim.table).is_empty(), !tables.contains(claim.table.as_str()));
                let table = file.tables.iter().find(|table| table.id == claim.table).expect("its table");
                assert!(computed_claim(table, claim).is_some(), "{}", claim.words);
            }
            for printed in &file.comparisons {
                assert!(tables.contains(printed.of.as_str()) && tables.contains(printed.against.as_str()));
            }
        }
    }

    #[test]
    fn a_cost_is_computed_from_the_time_it_was_rounded_from() {
        let (_, table) = find("published:i2.2xlarge-linux-ssd").expect("it ships");
        let cost = table.columns.iter().find(|column| column.id == "cost").expect("a column");
        let ns = table.value(&table.rows[0], cost).expect("a value");
        assert!((ns - 522.0e6 / 65_536.0).abs() < 1e-6, "{ns}");
        assert_eq!(table.printed(&table.rows[0], "cost"), Some("0.03"));
    }

    /// 522 ms / 65,536 is 0.008 ms, not 0.03; 19,555 / 65,536 was cut to 0.29, which is no error of arithmetic.
    #[test]
    fn errors_of_the_originals_are_found_and_cut_digits_are_none() {
        let errors = |id: &str| find(id).expect("it ships").1.errors();
        let linux = errors("i2.2xlarge-linux-ssd");
        assert_eq!(linux.len(), 1, "{linux:?}");
        assert!(linux[0].contains("0.03 ms") && linux[0].contains("0.0080 ms"), "{linux:?}");
        assert!(errors("i2.2xlarge-windows-ssd").is_empty());
        assert!(claims("i2.2xlarge-linux-hdd")[0].contains("22.0 %"), "{:?}", claims("i2.2xlarge-linux-hdd"));
    }

    #[test]
    fn figures_are_read_as_printed() {
        let read = ["72,116", "~900", ".012", "6:47.77"].map(|cell| figure(cell).expect("a figure"));
        for (read, expected) in read.into_iter().zip([72_116.0, 900.0, 0.012, 407.77]) {
            assert!((read - expected).abs() < 1e-9, "{read} {expected}");
        }
        assert_eq!(figure("n/a"), None);
        assert!(find("nowhere").expect_err("unknown").to_string().contains("--list"));
    }
}
