//! Renders the advice product by product, settings, reason and expected rate, as text or JSON.
//!
//! Invariants: pure; no line is wider than asked for; text and JSON say the same; what all rates stand on is told once;
//! a product that gets no setting is named with the reason; after a disturbed run there is one sentence and no more.

use super::text::Page;
use super::{Role, Style, facts};
use crate::advise::expect::{CLIENTS, Expectation, SPREAD_MAX, expectations, remedy, rows_words};
use crate::advise::products::{PRODUCTS, Product};
use crate::advise::{Advice, Setting, advise_for};
use crate::figures::{bytes, plural};
use crate::rank::Ranking;
use crate::result::RunResult;
use serde_json::{Value, json};

/// What every advice in JSON says it is.
pub const FORMAT: &str = "seawall-advice";

/// The advice for a terminal of `width` columns, for every product, without notes.
#[must_use]
pub fn text(result: &RunResult, width: usize, style: Style) -> String {
    Told::of(result, None).text(width, style)
}

/// The advice for a terminal of `width` columns, for `only` these products, with their notes.
#[must_use]
pub fn text_of(result: &RunResult, only: &[&'static Product], width: usize, style: Style) -> String {
    Told::of(result, Some(only)).text(width, style)
}

/// The same as JSON.
///
/// # Errors
/// In words: a figure cannot be told in JSON.
pub fn json(result: &RunResult) -> Result<String, String> {
    Told::of(result, None).json()
}

/// The same as JSON, for `only` these products.
///
/// # Errors
/// In words: a figure cannot be told in JSON.
pub fn json_of(result: &RunResult, only: &[&'static Product]) -> Result<String, String> {
    Told::of(result, Some(only)).json()
}

/// All that there is to say, before it is laid out.
struct Told<'a> {
    result: &'a RunResult,
    advice: Advice,
    expected: Vec<Expectation>,
    /// The rows that the expectations stand on.
    rows: Vec<String>,
    /// Whether notes are told too: of few products only.
    notes: bool,
}

impl<'a> Told<'a> {
    fn of(result: &'a RunResult, only: Option<&[&'static Product]>) -> Self {
        let ranking = Ranking::new(result);
        let products = only.map_or_else(|| PRODUCTS.iter().collect(), <[_]>::to_vec);
        let named = |one: &Expectation| products.iter().any(|product| product.name == one.product);
        let advice = advise_for(&ranking, &products);
        let expected: Vec<Expectation> = expectations(&ranking).into_iter().filter(named).collect();
        let rows = rows_words(&ranking, &expected.iter().collect::<Vec<_>>());
        Self { result, advice, expected, rows, notes: only.is_some() }
    }

    fn text(&self, width: usize, style: Style) -> String {
        let mut page = Page::new(width, style);
        page.say(Role::Heading, "", &facts::title(self.result));
        let role = if self.advice.method.is_some() { Role::Good } else { Role::Bad };
        page.say(role, "", &self.advice.sentence);
        if self.advice.method.is_none() {
            return page.out;
        }
        for setting in &self.advice.settings {
            self.product(&mut page, setting);
        }
        page.blank();
        for words in self.advice.withheld_words() {
            page.say(Role::Caution, "no setting  ", &words);
        }
        if !self.expected.is_empty() {
            page.say(Role::Dim, "", &legend());
            page.say(Role::Dim, "", &self.stand_on());
            if let Some(words) = remedy(&self.expected) {
                page.say(Role::Dim, "", words);
            }
        }
        if !self.notes {
            page.say(Role::Dim, "", "All settings, notes and sources of a product: --only PRODUCT.");
        }
        page.out
    }

    /// The run and the rows behind all rates, once.
    fn stand_on(&self) -> String {
        let plan = &self.result.plan;
        format!(
            "They stand on {} a commit into a {} journal by {}: {}.",
            bytes(plan.transaction_bytes),
            plan.file_state.name(),
            plural(u64::from(plan.threads), "writer", "writers"),
            self.rows.join("; ")
        )
    }

    fn product(&self, page: &mut Page, setting: &Setting) {
        page.blank();
        page.say(Role::Heading, "", &format!("{} ({})", setting.product, setting.version));
        for (number, line) in setting.lines.iter().enumerate() {
            page.say(Role::Good, if number == 0 { "  set     " } else { "          " }, line);
        }
        page.say(Role::Plain, "  why     ", &setting.why);
        let mut transaction = "";
        for one in self.told_of(setting) {
            page.say(Role::Plain, "  expect  ", &format!("{}: {}", one.setting, one.words()));
            if one.transaction != transaction && one.syncs[1] > 0 {
                page.say(Role::Dim, "          ", &format!("of {}", one.transaction));
                transaction = &one.transaction;
            }
            if self.notes && !one.basis.is_empty() {
                page.say(Role::Dim, "          ", &one.basis);
            }
        }
        if self.notes {
            for note in &setting.notes {
                page.say(Role::Dim, "  note    ", note);
            }
            page.say(Role::Dim, "  source  ", setting.source);
        }
    }

    /// All expectations of a product; in the short form those of what is set, and of these what is known, else the first.
    fn told_of(&self, setting: &Setting) -> Vec<&Expectation> {
        let own = self.expected.iter().filter(|one| one.product == setting.product);
        if self.notes {
            return own.collect();
        }
        let of_it: Vec<&Expectation> =
            own.filter(|one| setting.method.as_ref() == Some(&one.method)).collect();
        let known: Vec<&Expectation> = of_it.iter().copied().filter(|one| one.not_known.is_none()).collect();
        if known.is_empty() { of_it.into_iter().take(1).collect() } else { known }
    }

    fn json(&self) -> Result<String, String> {
        let advice = &self.advice;
        let settings: Vec<Value> = advice.settings.iter().map(setting_json).collect();
        let withheld: Vec<Value> =
            advice.withheld.iter().map(|one| json!({ "product": one.product, "why": one.why })).collect();
        let value = json!({
            "format": FORMAT,
            "version": 1,
            "method": advice.method,
            "sentence": advice.sentence,
            "disturbed": advice.disturbed,
            "basis": advice.basis,
            "rows": self.rows,
            "settings": settings,
            "withheld": withheld,
            "clients": CLIENTS,
            "expectations": self.expected,
        });
        serde_json::to_string_pretty(&value)
            .map(|text| text + "\n")
            .map_err(|error| format!("cannot tell the advice as JSON: {error}"))
    }
}

fn setting_json(setting: &Setting) -> Value {
    json!({
        "product": setting.product,
        "product_version": setting.version,
        "source": setting.source,
        "lines": setting.lines,
        "why": setting.why,
        "notes": setting.notes,
        "method": setting.method,
    })
}

fn legend() -> String {
    format!(
        "Rates are of one client and the transaction named, on an otherwise idle disk: most by the method's median, least by its 90th percentile and the product's own work. A range of more than a factor of {SPREAD_MAX} is not told. Clients that commit together share syncs: how many do is not known before it is measured. Every setting here outlives a power cut unless it says otherwise."
    )
}
