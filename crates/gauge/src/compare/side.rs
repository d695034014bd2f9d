//! Represents a measured result or a published table as a [`Side`] of a comparison.
//!
//! Invariant: a side keeps unrounded values, and the printed form as text.

use super::Incomparable;
use super::measure::{Measure, OWN};
use super::published::{self, PREFIX, Table};
use crate::figures::{bytes, count};
use crate::judgement::Judgement;
use crate::lookup;
use crate::rank::{EffectiveClass, Ranking};
use crate::report::facts;
use crate::result::RunResult;
use crate::row::{self, Measured, Round};
use crate::study::{Column, Point, Source, Study};
use seawall_sys::durability::{DeviceCache, FileState, Medium, Promiser, Surroundings, WeakCalls, classify};
use seawall_sys::method::{Depth, Method, System};
use seawall_sys::methods;

/// One machine, system or run.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// The file's name, or `published:` and the table's id.
    pub(crate) name: String,
    /// Machine, system, file system and device, in lines.
    pub(crate) about: Vec<(&'static str, String)>,
    pub(crate) cpu: Option<String>,
    pub(crate) scenario: String,
    /// Whose methods its rows are, if they are methods.
    pub(crate) system: Option<System>,
    /// Whether it was published elsewhere: one run, without rounds.
    pub(crate) published: bool,
    pub(crate) writes: u32,
    /// The settings, as far as they decide the figures: label and words.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) rows: Vec<Row>,
    /// What a reader must know.
    pub(crate) remarks: Vec<String>,
    /// Why its figures decide nothing, if a finding says that they mean something else.
    pub(crate) wrong: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// What pairs it with rows of the same system.
    pub id: String,
    /// Its calls, or its name as printed.
    pub calls: String,
    /// What a commit outlives, if that can be said.
    pub class: Option<EffectiveClass>,
    /// How deep its calls reach, if they are known.
    pub depth: Option<Depth>,
    pub figures: Vec<Figure>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub measure: Measure,
    /// Unrounded, in the measure's unit.
    pub value: f64,
    /// The same of each round, if rounds were kept.
    pub rounds: Vec<f64>,
    /// As the source printed it, with its unit.
    pub printed: Option<String>,
}

impl Row {
    pub(crate) fn figure(&self, measure: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.measure.id == measure)
    }
}

impl Side {
    /// A result of one's own, called `name`.
    pub fn own(name: &str, result: &RunResult) -> Self {
        let study = &result.study;
        let ranking = Ranking::new(result);
        let row = |(row, measured): (&row::Row, &Measured)| {
            let ranked = ranking.rows.iter().find(|ranked| std::ptr::eq(ranked.row, row));
            let method = lookup::method(result, row).filter(|_| study.ranked);
            Row {
                id: row_id(study, row),
                calls: if study.ranked { &row.what } else { &row.label }.clone(),
                class: ranked.map(|ranked| ranked.class),
                depth: method.map(|method| method.reach().data),
                figures: figures(study, row, measured),
            }
        };
        let ran = |(_, measured): &(&row::Row, &Measured)| !study.ranked || measured.main().count() > 0;
        let mut remarks = study.notes.clone();
        if !result.complete {
            remarks.push("the run was interrupted: fewer rounds than planned".to_owned());
        }
        let judgement = Judgement::of(&ranking);
        remarks.extend(judgement.headline().map(str::to_owned));
        let label = result.label.iter().map(|label| ("label", label.clone()));
        Self {
            name: name.to_owned(),
            about: label.chain(facts::place(&result.environment, &result.plan.pinned_to)).collect(),
            cpu: result.environment.cpu_model.clone(),
            scenario: result.scenario.clone(),
            system: study.ranked.then(|| lookup::system(result)),
            published: false,
            writes: result.plan.writes,
            settings: settings(result),
            rows: study.measured().filter(ran).map(row).collect(),
            remarks,
            wrong: judgement.cannot_tell().then_some(judgement.verdict),
        }
    }

    /// The published table called `id`.
    ///
    /// # Errors
    /// There is no such table.
    pub fn published(id: &str) -> Result<Self, Incomparable> {
        let (file, table) = published::find(id)?;
        let source = &file.source;
        let mut remarks = table.remarks.clone();
        remarks.extend(table.errors().into_iter().map(|error| format!("error of the original: {error}")));
        remarks
            .extend(published::claims(&table.id).into_iter().map(|claim| format!("the text says {claim}")));
        let settings = [
            ("transaction", table.transaction_bytes.map(bytes)),
            ("commits a row", table.commits.map(count)),
        ];
        Ok(Self {
            name: format!("{PREFIX}{}", table.id),
            about: vec![
                ("source", format!("{}: {} ({})", source.author, source.title, source.published)),
                ("machine", table.machine.clone()),
                ("files", table.files.clone()),
                ("device", table.device.clone()),
            ],
            cpu: None,
            scenario: table.scenario.clone(),
            system: table.system,
            published: true,
            writes: 1,
            settings: settings
                .into_iter()
                .filter_map(|(label, words)| Some((label.to_owned(), words?)))
                .collect(),
            rows: table.rows.iter().map(|row| printed_row(table, row)).collect(),
            remarks,
            wrong: None,
        })
    }

    pub(crate) fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// The measures that at least one row has, in order.
    pub(crate) fn measures(&self) -> Vec<&Measure> {
        let mut measures: Vec<&Measure> = Vec::new();
        for figure in self.rows.iter().flat_map(|row| &row.figures) {
            if measures.iter().all(|known| known.id != figure.measure.id) {
                measures.push(&figure.measure);
            }
        }
        measures
    }
}

/// The measures of a commit run where rows are ranked, else those of the table's own columns.
fn figures(study: &Study, row: &row::Row, measured: &Measured) -> Vec<Figure> {
    let rounds = || measured.rounds.iter().filter(|round| round.commits > 0);
    let own = |own: &super::measure::Own| {
        Some(Figure {
            measure: own.into(),
            value: (own.whole)(measured)?,
            rounds: own.round.map_or(Vec::new(), |of| rounds().map(of).collect()),
            printed: None,
        })
    };
    let column = |column: &Column| {
        Some(Figure {
            measure: Measure {
                id: column.key.clone(),
                title: [column.group.as_str(), &column.title].join(" ").trim().to_owned(),
                unit: column.unit,
            },
            value: Study::value(row, column)?.value,
            rounds: rounds_of(column, measured),
            printed: None,
        })
    };
    if study.ranked {
        OWN.iter().filter_map(own).collect()
    } else {
        study.columns.iter().filter_map(column).collect()
    }
}

fn settings(result: &RunResult) -> Vec<(String, String)> {
    let (plan, study) = (&result.plan, &result.study);
    if !study.ranked {
        return study.settings.iter().map(|fact| (fact.title.clone(), fact.value.clone())).collect();
    }
    let arrivals = plan.rate_per_s.map_or("closed loop".to_owned(), |per_s| format!("{per_s}/s and writer"));
    let settings = [
        ("transaction", plan.transaction()),
        ("journal", format!("{}, {}", bytes(plan.journal_bytes), plan.file_state.name())),
        ("writers", plan.threads.to_string()),
        ("arrivals", arrivals),
    ];
    settings.into_iter().map(|(label, words)| (label.to_owned(), words)).collect()
}

/// What a study's row is paired by: its id, and where it ran if there are several places.
pub(crate) fn row_id(study: &Study, row: &row::Row) -> String {
    let place = row.place.and_then(|place| study.places.get(place));
    place.map_or(row.id.clone(), |place| format!("{} on {}", row.id, place.label))
}

/// The blocks' own values of a column, where blocks keep them: percentiles of the row's main latency.
fn rounds_of(column: &Column, measured: &Measured) -> Vec<f64> {
    let Source::Latency { name, at } = &column.of else { return Vec::new() };
    if measured.latencies.first().is_none_or(|main| main.name != *name) {
        return Vec::new();
    }
    let of: fn(&Round) -> u64 = match at {
        Point::P50 => |round| round.p50_ns,
        Point::P99 => |round| round.p99_ns,
        Point::Max => |round| round.max_ns,
        _ => return Vec::new(),
    };
    measured.rounds.iter().filter(|round| round.commits > 0).map(|round| of(round) as f64).collect()
}

fn printed_row(table: &Table, row: &published::Row) -> Row {
    let method =
        table.system.and_then(|system| methods::of(system).iter().find(|method| method.id == row.method));
    let figure = |column: &published::Column| {
        let printed = table.printed(row, &column.id);
        Some(Figure {
            measure: column.measure(),
            value: table.value(row, column)?,
            rounds: Vec::new(),
            printed: printed.map(|cell| format!("{cell} {}", column.unit.sign()).trim_end().to_owned()),
        })
    };
    Row {
        id: row.method.clone(),
        calls: row.name.clone(),
        class: method.zip(table.file_state).map(|(method, state)| class(method, state)),
        depth: method.map(|method| method.reach().data),
        figures: table.columns.iter().filter_map(figure).collect(),
    }
}

/// What the calls promise on a device of which nothing is known: the source states no more.
fn class(method: &Method, file_state: FileState) -> EffectiveClass {
    let around = Surroundings {
        medium: Medium::Block,
        copy_on_write: false,
        shares_extents: false,
        file_state,
        device_cache: DeviceCache::Unknown,
        cached_image: false,
        forced_writes_honoured: None,
        takes_fua: false,
        synchronous: false,
        weak_calls: WeakCalls::default(),
        promiser: Promiser::Unknown,
        lies: Vec::new(),
    };
    EffectiveClass::of(classify(method, &around).class, false)
}
