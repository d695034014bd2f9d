//! Turns the best commit method into settings of well-known databases and queues.
//!
//! Each product is a table from its settings to rows of the method table: the recommended setting follows from the
//! measured rows, never from analogy. Sources: the products' manuals for the versions named.
//!
//! Invariants: only methods that outlive a power cut and are not contradicted are recommended; where the default
//! is as good as the best within noise, it stays; a rate is that of the measured row, with its basis.

pub mod expect;
pub mod products;

use crate::figures::{bytes, duration_ns, plural, rate};
use crate::rank::{self, Ranked, Ranking, Standing};

/// One product's setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The product.
    pub product: &'static str,
    /// Lines to put into its configuration, ready; empty if it has nothing to set.
    pub lines: Vec<String>,
    /// Why, in a clause.
    pub why: String,
    /// What else to know before setting it: whole sentences.
    pub notes: Vec<&'static str>,
    /// The row that the figures come from, if one was measured.
    pub method: Option<String>,
    /// Commits a second that one client may see at most, of that row.
    pub commits_per_s: Option<f64>,
}

/// What is recommended.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// The id of the best method that outlives a power cut.
    pub method: Option<String>,
    /// In words: the method with its figures, or why there is none.
    pub sentence: String,
    /// What the rates below stand on; empty if there are none.
    pub basis: String,
    /// Settings by product; empty if nothing can be recommended.
    pub settings: Vec<Setting>,
}

/// The recommendation for the machine of `ranking`'s result.
#[must_use]
pub fn advise(ranking: &Ranking<'_>) -> Advice {
    let best = ranking.recommended().filter(|_| ranking.result.environment.wine.is_none());
    let Some(best) = best else {
        return Advice {
            method: None,
            sentence: why_none(ranking),
            basis: String::new(),
            settings: Vec::new(),
        };
    };
    Advice {
        method: Some(best.id().to_owned()),
        sentence: sentence(ranking, best),
        basis: basis(ranking),
        settings: products::PRODUCTS.iter().filter_map(|product| product(ranking)).collect(),
    }
}

fn sentence(ranking: &Ranking<'_>, best: &Ranked<'_>) -> String {
    let equal = ranking.of(Standing::PowerLoss).filter(|row| row.to_best.within_noise()).count() - 1;
    let others = if equal == 0 {
        String::new()
    } else {
        format!("; {} the same within noise", plural(equal as u64, "other method is", "other methods are"))
    };
    let p99 = best
        .measured
        .latency
        .percentile(99.0)
        .ns()
        .map_or(String::new(), |ns| format!(", p99 {}", duration_ns(ns)));
    format!(
        "Commit by {} ({}): p50 {}{p99}, {} commits/s{others}.",
        best.id(),
        best.row.calls,
        duration_ns(best.p50_ns()),
        rate(best.measured.commits_per_s())
    )
}

fn basis(ranking: &Ranking<'_>) -> String {
    let plan = &ranking.result.plan;
    let writers = match plan.threads {
        1 => "one writer".to_owned(),
        threads => format!("{threads} writers together"),
    };
    format!(
        "Rates stand on this run: {writers}, {} a commit, {} journal, nothing else on the disk. They are upper ends of a range, not promises: a database adds its own work and checkpoints. Clients that commit together share flushes and get more.",
        bytes(plan.transaction_bytes),
        plan.file_state.name()
    )
}

fn why_none(ranking: &Ranking<'_>) -> String {
    let reasons = |standing: Standing| {
        ranking
            .of(standing)
            .filter(|row| row.measured.letter == 'D')
            .flat_map(|row| row.measured.durability.because.iter().map(String::as_str))
    };
    if ranking.result.environment.wine.is_some() {
        return "No method can be recommended: under Wine nobody promises that anything outlives a power cut."
            .to_owned();
    }
    let because = if ranking.rows.is_empty() {
        "none was measured"
    } else if ranking.of(Standing::NotConfirmed).next().is_some() {
        "those that claim it send no flush that the device counts"
    } else {
        reasons(Standing::SystemCrash)
            .chain(reasons(Standing::ProcessCrash))
            .next()
            .unwrap_or("none of the measured methods asks the device to make its data stable")
    };
    format!("No method can be recommended: none is shown to outlive a power cut here, because {because}.")
}

/// One of a product's settings and the row that makes the same calls.
struct Choice<'a, 'b> {
    setting: &'static str,
    row: &'b Ranked<'a>,
}

/// The best of a product's settings, from rows that outlive a power cut. The first of `table` is the default,
/// which stays unless another is better beyond noise.
fn choose<'a, 'b>(ranking: &'b Ranking<'a>, table: &[(&'static str, &str)]) -> Option<Choice<'a, 'b>> {
    let measured = table.iter().filter_map(|(setting, id)| {
        let row = ranking.find(id).filter(|row| row.standing == Standing::PowerLoss)?;
        Some(Choice { setting, row })
    });
    let best = measured.min_by_key(|choice| choice.row.p50_ns())?;
    let (default, id) = table.first()?;
    if let Some(row) = ranking.find(id).filter(|row| row.standing == Standing::PowerLoss)
        && row.id() != best.row.id()
        && rank::ratio(row.measured, best.row.measured).is_none_or(|ratio| rank::same(&ratio))
    {
        return Some(Choice { setting: default, row });
    }
    Some(best)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::result::{MethodResult, Outcome, RunResult};
    use crate::rig::sim::Plant;
    use crate::sample::{measured, run, volatile};
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
            let p50_ns = slower.latency.p50_ns();
            (0..40_000).for_each(|_| slower.latency.record(p50_ns * 2));
        }
        assert_eq!(lines(&result), ["wal_sync_method = open_datasync"]);
        assert_eq!(setting(&result, "PostgreSQL").expect("set").method.as_deref(), Some("dsync"));
    }

    /// A result of another system: each row of its table with the figures of one that was measured here.
    fn of_system(system: System, name: &str) -> RunResult {
        let mut result = run("dsync,buffered+fdatasync", Vec::new(), |_| {});
        let around = result.environment.surroundings(result.plan.file_state);
        let rows = methods::of(system).iter().map(|method| {
            let model = if method.splits() { "buffered+fdatasync" } else { "dsync" };
            let mut figures = measured(&mut result, model).clone();
            figures.durability = classify(method, &around);
            let (id, calls) = (method.id.to_owned(), method.calls.to_owned());
            MethodResult { id, calls, outcome: Outcome::Measured(Box::new(figures)) }
        });
        result.methods = rows.collect();
        name.clone_into(&mut result.environment.system);
        result
    }

    #[test]
    fn each_system_gets_settings_from_rows_of_its_own() {
        let systems: [(System, &str, &[&str]); 4] = [
            (
                System::Linux,
                "Linux 6.18.0",
                &["PostgreSQL", "MySQL 8", "MariaDB 11", "SQLite", "etcd", "Kafka", "RocksDB"],
            ),
            (System::Windows, "Windows 11", &["PostgreSQL", "MySQL 8", "SQLite", "Kafka", "RocksDB"]),
            (System::MacOs, "macOS 15", &["PostgreSQL", "SQLite", "etcd", "Kafka", "RocksDB"]),
            (System::Illumos, "illumos", &["PostgreSQL", "MySQL 8", "SQLite", "etcd", "Kafka", "RocksDB"]),
        ];
        for (system, name, products) in systems {
            let result = of_system(system, name);
            let settings = advise(&Ranking::new(&result)).settings;
            assert_eq!(settings.iter().map(|setting| setting.product).collect::<Vec<_>>(), products);
            for setting in settings {
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
        assert_eq!(advise(&Ranking::new(&result)).method.as_deref(), Some("dsync"));
    }

    #[test]
    fn a_setting_needs_a_measured_row() {
        let result = run("direct+dsync", Vec::new(), |_| {});
        let products: Vec<&str> =
            advise(&Ranking::new(&result)).settings.iter().map(|setting| setting.product).collect();
        assert_eq!(products, ["MariaDB 11"], "only MariaDB's log can be written by direct I/O");
    }

    #[test]
    fn nothing_is_recommended_without_evidence_or_under_wine() {
        let lying = volatile(vec![Plant::NoFlushes]);
        let under_wine =
            run("buffered+fsync", Vec::new(), |environment| environment.wine = Some("8.0".into()));
        let unsafe_only = run("buffered,direct", Vec::new(), |_| {});
        for (result, why) in
            [(lying, "no flush"), (under_wine, "Wine"), (unsafe_only, "none of the measured")]
        {
            let advice = advise(&Ranking::new(&result));
            assert!(advice.method.is_none() && advice.settings.is_empty());
            assert!(advice.sentence.contains(why), "{}", advice.sentence);
        }
    }

    #[test]
    fn etcd_gets_a_verdict_from_the_sync_alone() {
        let fast = setting(&volatile(Vec::new()), "etcd").expect("judged").why;
        assert!(fast.starts_with("fit"), "{fast}");
        let stalls = Plant::Stall { method: "buffered+fdatasync", every: 50, ns: 30_000_000 };
        let slow = setting(&volatile(vec![stalls]), "etcd").expect("judged").why;
        assert!(slow.starts_with("TOO SLOW"), "{slow}");
    }
}
