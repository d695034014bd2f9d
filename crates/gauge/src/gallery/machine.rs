//! One machine of a gallery: a result or a published table, as a row of the index.
//!
//! Invariants: class, order and recommended method are those of every other report; what a source does not state is `None`.

use super::device_kind;
use crate::compare::published::PREFIX;
use crate::compare::side::{self, Side};
use crate::figures::plural;
use crate::judgement::{Answer, Judgement};
use crate::lookup;
use crate::ranges;
use crate::rank::{EffectiveClass, Ranking};
use crate::report::facts;
use crate::result::RunResult;
use seawall_sys::method::System;

/// A row of the index.
pub(super) struct Machine {
    pub(super) page: String,
    /// What it is called.
    pub(super) name: String,
    /// What stands below its name.
    pub(super) about: String,
    pub(super) device: &'static str,
    pub(super) provider: String,
    pub(super) files: String,
    pub(super) system: System,
    pub(super) is_published: bool,
    /// Why nothing is recommended from it, in a word.
    pub(super) doubt: Option<&'static str>,
    /// Its methods, best class first, fastest first.
    pub(super) methods: Vec<Method>,
}

/// A method on a machine.
pub(super) struct Method {
    pub(super) id: String,
    pub(super) class: EffectiveClass,
    /// The median; of a published table the mean. Nanoseconds.
    pub(super) typical_ns: f64,
    pub(super) p99_ns: Option<f64>,
}

impl Machine {
    /// Of a result, of which only what is shown is left.
    pub(super) fn measured(page: &str, result: &RunResult) -> Self {
        let ranking = Ranking::new(result);
        let environment = &result.environment;
        let parts = [
            facts::day(result).map(|day| day[..10].to_owned()),
            Some(environment.system.clone()),
            Some(plural(environment.cpus as u64, "CPU", "CPUs")),
            Some(plural(u64::from(result.plan.threads), "writer", "writers")),
            Some(result.plan.transaction()),
            Some(format!("power loss: {}", facts::condition(result))),
        ];
        let model = environment.leaves().find_map(|leaf| leaf.model.clone());
        let site = environment.hypervisor.clone().or_else(|| environment.cpu_model.clone());
        let name = [site, model].into_iter().flatten().collect::<Vec<_>>().join(" · ");
        let doubt = doubt(Judgement::of(&ranking).answer);
        let method = |row: &crate::rank::Ranked<'_>| Method {
            id: row.id().to_owned(),
            class: row.class,
            typical_ns: row.p50_ns() as f64,
            p99_ns: row.measured.main().percentile(99.0).ns().map(|ns| ns as f64),
        };
        let mut methods: Vec<Method> = ranking.rows.iter().map(method).collect();
        // What every report recommends stands first, though another may be faster by less than the noise.
        let best =
            ranking.recommended().and_then(|best| methods.iter().position(|method| method.id == best.id()));
        if let Some(best) = best {
            methods[..=best].rotate_right(1);
        }
        Self {
            page: page.to_owned(),
            name: if name.is_empty() { environment.system.clone() } else { name },
            about: parts.into_iter().flatten().collect::<Vec<_>>().join(" · "),
            device: device_kind(environment).name(),
            provider: ranges::provider(result).unwrap_or("not known").to_owned(),
            files: environment.file_system.kind.clone(),
            system: lookup::system(result),
            is_published: false,
            doubt,
            methods,
        }
    }

    /// Of a published table.
    pub(super) fn published(page: &str, side: &Side) -> Self {
        let about = |label: &str| {
            side.about
                .iter()
                .find(|(known, _)| *known == label)
                .map(|(_, words)| words.clone())
                .unwrap_or_default()
        };
        let figure = |row: &side::Row, measure: &str| row.figure(measure).map(|figure| figure.value);
        let method = |row: &side::Row| {
            Some(Method {
                id: row.id.clone(),
                class: row.class?,
                typical_ns: figure(row, "p50").or_else(|| figure(row, "cost"))?,
                p99_ns: figure(row, "p99"),
            })
        };
        let mut methods: Vec<Method> = side.rows.iter().filter_map(method).collect();
        methods.sort_by(|a, b| a.class.cmp(&b.class).then(a.typical_ns.total_cmp(&b.typical_ns)));
        let settings = side
            .settings
            .iter()
            .filter(|(label, _)| label == "transaction")
            .map(|(_, words)| words.as_str())
            .collect::<Vec<_>>()
            .join(" · ");
        Self {
            page: page.to_owned(),
            name: side.name.trim_start_matches(PREFIX).to_owned(),
            about: format!("published · {} · {settings} · {}", about("machine"), about("device")),
            device: if side.name.ends_with("-ssd") { "SSD" } else { "network volume" },
            provider: "Amazon EC2".to_owned(),
            files: about("files"),
            system: side.system.unwrap_or(System::Linux),
            is_published: true,
            doubt: None,
            methods,
        }
    }

    /// The method for durable commits.
    pub(super) fn durable(&self) -> Option<&Method> {
        let trusted = self.doubt != doubt(Answer::CannotTell);
        self.methods.iter().find(|method| trusted && method.class == EffectiveClass::PowerLoss)
    }

    /// The fastest one that is not durable.
    pub(super) fn not_durable(&self) -> Option<&Method> {
        let weak = |method: &&Method| {
            matches!(method.class, EffectiveClass::SystemCrash | EffectiveClass::ProcessCrash)
        };
        self.methods.iter().filter(weak).min_by(|a, b| a.typical_ns.total_cmp(&b.typical_ns))
    }

    /// How many times as long a durable commit takes as one that is not.
    pub(super) fn price(&self) -> Option<f64> {
        let (durable, weak) = (self.durable()?, self.not_durable()?);
        (weak.typical_ns > 0.0).then(|| durable.typical_ns / weak.typical_ns)
    }
}

/// What is to be known of a result before its figures are read, in a word or two.
fn doubt(answer: Answer) -> Option<&'static str> {
    match answer {
        Answer::Costs => None,
        Answer::Capped => Some("held at a rate"),
        Answer::AtMost => Some("at most"),
        Answer::Interrupted => Some("interrupted"),
        Answer::CannotTell => Some("cannot tell"),
        Answer::Few | Answer::None | Answer::NotRanked => Some("nothing recommended"),
    }
}
