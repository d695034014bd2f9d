//! Turns the best commit method into settings of well-known databases and queues.
//!
//! Each product is a row of [`products::PRODUCTS`]: its settings with the rows of the method table that make the same
//! calls, its version and its source. A setting is recommended from rows that were measured, never by analogy.
//!
//! Invariants: nothing is advised from a disturbed run, nor by a row that was not measured or hardly; only methods that
//! outlive a power cut and are not contradicted are recommended; where the default is as good as the best within noise,
//! it stays; a product without a setting is named with the reason.

pub(crate) mod expect;
pub mod products;

pub(crate) use crate::judgement::COMMITS_MIN;

use crate::figures::{listing, percent, plural};
use crate::judgement::{Judgement, disturbed};
use crate::rank::{self, EffectiveClass, Ranked, Ranking};
use products::{PRODUCTS, Product, Way};
use std::fmt;

/// One product's setting.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting {
    pub product: &'static str,
    pub version: &'static str,
    /// Where it stands.
    pub source: &'static str,
    /// When that was last looked at.
    pub checked: &'static str,
    /// Lines to put into its configuration, ready; empty if it has nothing to set.
    pub lines: Vec<String>,
    /// Why, in a clause.
    pub why: String,
    /// What else to know before setting it: whole sentences.
    pub notes: Vec<&'static str>,
    /// Whether it was chosen among several by what was measured.
    pub chosen: bool,
    /// The row that the figures come from, if one was measured.
    pub method: Option<String>,
    /// Commits a second that one client may see at most, of that row.
    pub commits_per_s: Option<f64>,
}

/// A product that gets no setting.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Withheld {
    pub product: &'static str,
    pub why: Reason,
}

/// Why a row, or a product by its rows, gets no advice. `Display` is a clause.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub(crate) enum Reason {
    NotMeasured(String),
    TooFew {
        id: String,
        commits: u64,
    },
    Waited {
        id: String,
        /// Share of its time, 0 to 1.
        share: f64,
    },
    /// The row does not outlive a power cut, and no other of the product's rows does.
    NotDurable(String),
    /// The reason is the row of the product's default, and the product has other settings.
    Default(Box<Self>),
    NoSetting,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMeasured(id) => write!(f, "{id} was not measured"),
            Self::TooFew { id, commits } => write!(
                f,
                "{} of {id} are too few, of at least {COMMITS_MIN}: give it more time (--time)",
                plural(*commits, "commit", "commits")
            ),
            Self::Waited { id, share } => {
                write!(f, "{id} waited for a CPU in {} of its time", percent(share.min(1.0)))
            }
            Self::NotDurable(id) => write!(f, "{id} does not outlive a power cut here"),
            Self::Default(reason) => write!(f, "its default's row, {reason}"),
            Self::NoSetting => f.write_str("it has no setting that this device can take"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Advice {
    /// What is said of the run; without a recommended row there is nothing below.
    pub judgement: Judgement,
    /// What the rates below stand on; empty if there are none.
    pub basis: String,
    /// Settings by product; empty if nothing can be recommended.
    pub settings: Vec<Setting>,
    /// Products that run on this system and get none.
    pub withheld: Vec<Withheld>,
}

/// The recommendation for the machine of `ranking`'s result, for every product.
pub(crate) fn advise(ranking: &Ranking<'_>) -> Advice {
    advise_for(ranking, &PRODUCTS.iter().collect::<Vec<_>>())
}

pub(crate) fn advise_for(ranking: &Ranking<'_>, products: &[&'static Product]) -> Advice {
    let mut advice = Advice {
        judgement: Judgement::of(ranking),
        basis: String::new(),
        settings: Vec::new(),
        withheld: Vec::new(),
    };
    if advice.judgement.recommended.is_none() {
        return advice;
    }
    advice.basis = basis(ranking);
    for product in products {
        match product.answer(ranking) {
            Some(Ok(setting)) => advice.settings.push(setting),
            Some(Err(why)) => advice.withheld.push(Withheld { product: product.name, why }),
            None => {}
        }
    }
    advice
}

impl Advice {
    /// The products without a setting, in sentences: those of one reason together.
    pub(crate) fn withheld_words(&self) -> Vec<String> {
        by_reason(self.withheld.iter().map(|one| (one.product, &one.why)))
            .into_iter()
            .map(|(why, names)| format!("{names}: {why}"))
            .collect()
    }
}

/// Each reason once, with the names that it is given for.
pub(crate) fn by_reason<'a, R: PartialEq>(
    all: impl Iterator<Item = (&'a str, &'a R)>,
) -> Vec<(&'a R, String)> {
    let mut reasons: Vec<(&R, Vec<&str>)> = Vec::new();
    for (name, why) in all {
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    reasons.into_iter().map(|(why, names)| (why, listing(&names, names.len()))).collect()
}

fn basis(ranking: &Ranking<'_>) -> String {
    let plan = &ranking.result.plan;
    let writers = match plan.threads {
        1 => "one writer".to_owned(),
        threads => format!("{threads} writers together"),
    };
    format!(
        "Rates stand on this run: {writers}, {} a commit, {} journal, nothing else on the disk. They are upper ends of a range, not promises: a database adds its own work and checkpoints. Clients that commit together share flushes and get more.",
        plan.transaction(),
        plan.file_state.name()
    )
}

/// One of a product's ways, its row, and how it came to be chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<'a, 'b> {
    pub way: &'static Way,
    pub row: &'b Ranked<'a>,
    /// Whether it is the product's default here.
    pub is_default: bool,
    /// The default's row, if the way is another and the default outlives a power cut too.
    pub beaten: Option<&'b Ranked<'a>>,
}

/// A row with enough of its own to be judged by, whatever it outlives.
fn sound<'a, 'b>(ranking: &'b Ranking<'a>, id: &str) -> Result<&'b Ranked<'a>, Reason> {
    let row = ranking.find(id).ok_or_else(|| Reason::NotMeasured(id.to_owned()))?;
    if row.measured.commits < COMMITS_MIN {
        return Err(Reason::TooFew { id: id.to_owned(), commits: row.measured.commits });
    }
    if let Some(share) = disturbed::wait(row) {
        return Err(Reason::Waited { id: id.to_owned(), share });
    }
    Ok(row)
}

/// The best of a product's ways. The first is the default, without whose row nothing is chosen: it stays unless another is
/// better beyond noise, or it does not outlive a power cut.
fn choose<'a, 'b>(ranking: &'b Ranking<'a>, ways: &[&'static Way]) -> Result<Choice<'a, 'b>, Reason> {
    let Some((first, others)) = ways.split_first() else {
        return Err(Reason::NoSetting);
    };
    let default = sound(ranking, first.method)
        .map_err(|why| if others.is_empty() { why } else { Reason::Default(Box::new(why)) })?;
    let durable = |row: &Ranked<'_>| row.class == EffectiveClass::PowerLoss;
    let best = others
        .iter()
        .filter_map(|way| Some((*way, sound(ranking, way.method).ok().filter(|row| durable(row))?)))
        .min_by_key(|(_, row)| row.p50_ns());
    let other = |way, row, beaten| Ok(Choice { way, row, is_default: false, beaten });
    match best {
        None if !durable(default) => Err(Reason::NotDurable(first.method.to_owned())),
        Some((way, row)) if !durable(default) => other(way, row, None),
        Some((way, row)) if better(row, default) => other(way, row, Some(default)),
        _ => Ok(Choice { way: first, row: default, is_default: true, beaten: None }),
    }
}

fn better(row: &Ranked<'_>, default: &Ranked<'_>) -> bool {
    row.p50_ns() < default.p50_ns()
        && rank::ratio(row.measured, default.measured)
            .is_some_and(|ratio| !rank::same(&ratio) && ratio.high < 1.0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::result::RunResult;
    use crate::row::{Outcome, Row};
    use crate::sample::{latency, measured, run, volatile};
    use crate::testbed::sim::Plant;
    use seawall_sys::durability::classify;
    use seawall_sys::method::System;
    use seawall_sys::methods;

    fn setting(result: &crate::result::RunResult, product: &str) -> Option<Setting> {
        advise(&Ranking::new(result)).settings.into_iter().find(|setting| setting.product == product)
    }

    #[test]
    fn a_default_that_is_as_good_stays_and_a_worse_one_goes() {
        let mut result = volatile(Vec::new());
        let lines = |result: &_| setting(result, "PostgreSQL").expect("set").lines;
        assert_eq!(lines(&result), ["wal_sync_method = fdatasync"]);
        for id in ["buffered+fdatasync", "buffered+fsync"] {
            let slower = measured(&mut result, id);
            slower.rounds.iter_mut().for_each(|round| round.p50_ns *= 2);
            let p50_ns = slower.main().p50_ns();
            (0..40_000).for_each(|_| latency(slower).record(p50_ns * 2));
        }
        assert_eq!(lines(&result), ["wal_sync_method = open_datasync"]);
        let set = setting(&result, "PostgreSQL").expect("set");
        assert_eq!(set.method.as_deref(), Some("dsync"));
        assert!(set.why.contains("two writes takes"), "{}", set.why);
    }

    #[test]
    fn without_the_default_s_row_or_with_too_few_commits_there_is_no_setting_and_that_is_said() {
        let mut result = volatile(Vec::new());
        let withheld = |result: &RunResult| advise(&Ranking::new(result)).withheld_words().join("; ");
        result.study.rows.retain(|row| row.id != "buffered+fdatasync");
        assert_eq!(setting(&result, "PostgreSQL"), None);
        assert!(withheld(&result).contains("its default's row, buffered+fdatasync was not measured"));
        let mut result = volatile(Vec::new());
        measured(&mut result, "buffered+fdatasync").commits = COMMITS_MIN - 1;
        assert_eq!(setting(&result, "PostgreSQL"), None);
        let said = advise(&Ranking::new(&result)).judgement.verdict + &withheld(&result);
        assert!(said.contains("too few"), "{said}");
        // Of the default alone, nothing else is needed.
        let alone = run("buffered+fdatasync", Vec::new(), |_| {});
        assert_eq!(setting(&alone, "PostgreSQL").expect("set").lines, ["wal_sync_method = fdatasync"]);
    }

    #[test]
    fn nothing_is_advised_from_a_disturbed_run_and_one_sentence_says_why() {
        type Spoil = fn(&mut RunResult);
        let spoil: [(&str, Spoil); 4] = [
            ("interrupted", |result| result.complete = false),
            ("other work", |result| {
                result.environment.pressure.waiting_percent_10s = Some(60.0);
                for row in result.study.rows.iter_mut().filter_map(Row::measured_mut) {
                    row.cpu.wait_ns = None;
                }
            }),
            ("waited for a CPU", |result| {
                for id in ["dsync", "buffered+fdatasync", "buffered+fsync"] {
                    let one = measured(result, id);
                    one.cpu.wait_ns = Some(one.main().p50_ns() / 2 * one.commits);
                }
            }),
            ("too noisy", |result| {
                for (index, id) in ["dsync", "buffered+fdatasync", "buffered+fsync"].into_iter().enumerate() {
                    for (round, one) in measured(result, id).rounds.iter_mut().enumerate() {
                        one.p50_ns *= if (round + index) % 2 == 0 { 1 } else { 9 };
                    }
                }
            }),
        ];
        for (why, spoil) in spoil {
            let mut result = volatile(Vec::new());
            spoil(&mut result);
            let advice = advise(&Ranking::new(&result));
            assert!(advice.settings.is_empty() && advice.judgement.recommended.is_none(), "{why}");
            assert!(advice.judgement.verdict.contains(why), "{why}: {}", advice.judgement.verdict);
            assert!(advice.judgement.disturbed.is_some(), "{why}");
        }
    }

    /// A result of another system: each row of its table with the figures of one that was measured here.
    fn of_system(system: System, name: &str) -> RunResult {
        let mut result = run("dsync,buffered+fdatasync", Vec::new(), |_| {});
        let around = result.environment.surroundings(result.plan.file_state);
        let rows = methods::of(system).iter().map(|method| {
            let model = if method.splits() { "buffered+fdatasync" } else { "dsync" };
            let mut figures = measured(&mut result, model).clone();
            figures.durability = Some(classify(method, &around));
            Row {
                what: method.calls.to_owned(),
                method: Some(method.into()),
                outcome: Outcome::Measured(Box::new(figures)),
                ..Row::waiting(method.id, method.id)
            }
        });
        result.study.rows = rows.collect();
        name.clone_into(&mut result.environment.system);
        result
    }

    #[test]
    fn each_system_gets_settings_from_rows_of_its_own() {
        let systems = [
            (System::Linux, "Linux 6.18.0"),
            (System::Windows, "Windows 11"),
            (System::MacOs, "macOS 15"),
            (System::Illumos, "illumos"),
        ];
        for (system, name) in systems {
            let result = of_system(system, name);
            let advice = advise(&Ranking::new(&result));
            let runs: Vec<&str> = PRODUCTS
                .iter()
                .filter(|product| product.on(system).next().is_some())
                .map(|product| product.name)
                .collect();
            let set: Vec<&str> = advice.settings.iter().map(|setting| setting.product).collect();
            assert_eq!(set, runs, "{name}: {:?}", advice.withheld);
            for setting in advice.settings {
                let id = setting.method.expect("a row");
                let method =
                    methods::of(system).iter().find(|method| method.id == id).expect("of this system");
                assert_eq!(method.reach().letter(), 'D', "{} by {id}", setting.product);
            }
        }
        let mac = of_system(System::MacOs, "macOS 15");
        assert_eq!(setting(&mac, "PostgreSQL").expect("set").lines, ["wal_sync_method = fsync_writethrough"]);
        let windows = of_system(System::Windows, "Windows 11");
        assert_eq!(setting(&windows, "PostgreSQL").expect("set").lines, ["wal_sync_method = fsync"]);
    }

    #[test]
    fn a_published_method_is_recommended_where_an_exotic_one_is_no_better() {
        let result = run("dsync,rwf-dsync,rwf-sync,fdatasync-other-thread", Vec::new(), |_| {});
        assert_eq!(advise(&Ranking::new(&result)).judgement.recommended.as_deref(), Some("dsync"));
    }

    #[test]
    fn a_setting_needs_a_measured_row() {
        let result = run("direct+dsync", Vec::new(), |_| {});
        let advice = advise(&Ranking::new(&result));
        let products: Vec<&str> = advice.settings.iter().map(|setting| setting.product).collect();
        assert_eq!(products, ["ScyllaDB"], "the only log whose one way is direct I/O with O_DSYNC");
        let mariadb = advice.withheld.iter().find(|one| one.product == "MariaDB");
        assert!(matches!(mariadb, Some(Withheld { why: Reason::Default(_), .. })), "{mariadb:?}");
    }

    #[test]
    fn mariadb_leaves_the_cache_only_where_the_device_reports_its_block() {
        let lines = |block| {
            let mut result =
                run("direct+fdatasync,direct+dsync,buffered+fdatasync,dsync", Vec::new(), |_| {});
            result.environment.devices.iter_mut().for_each(|device| device.physical_block_bytes = block);
            setting(&result, "MariaDB").expect("set").lines
        };
        assert!(lines(Some(4096))[0].ends_with("OFF"));
        for block in [None, Some(8192), Some(520)] {
            assert!(lines(block)[0].ends_with("ON"), "{block:?}");
        }
    }

    #[test]
    fn nothing_is_recommended_without_evidence_or_under_wine() {
        let lying = volatile(vec![Plant::NoFlushes]);
        let under_wine =
            run("buffered+fsync", Vec::new(), |environment| environment.wine = Some("8.0".into()));
        let unsafe_only = run("buffered,direct", Vec::new(), |_| {});
        for (result, why) in
            [(lying, "Flushes go missing"), (under_wine, "Wine"), (unsafe_only, "none of the measured")]
        {
            let advice = advise(&Ranking::new(&result));
            assert!(advice.judgement.recommended.is_none() && advice.settings.is_empty());
            assert!(advice.judgement.verdict.contains(why), "{}", advice.judgement.verdict);
        }
    }

    #[test]
    fn etcd_is_judged_by_the_sync_alone() {
        let fast = setting(&volatile(Vec::new()), "etcd").expect("judged").why;
        assert!(fast.starts_with("fit"), "{fast}");
        let stalls = Plant::Stall { method: "buffered+fdatasync", every: 50, ns: 30_000_000 };
        let slow = setting(&volatile(vec![stalls]), "etcd").expect("judged").why;
        assert!(slow.starts_with("TOO SLOW"), "{slow}");
    }
}
