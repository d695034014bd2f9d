//! Renders the advice as text or JSON: every product in one line, or in full with settings, reason and expected rate.
//!
//! Invariants: pure; no line is wider than the given width; text and JSON say the same; the basis of all rates is stated once;
//! a product that gets no setting is named with the reason; after a disturbed run there is one sentence and no more.

use super::table::verdict;
use super::text::{Page, elided, width_of};
use super::{Role, Style, WIDTH_MIN, facts};
use crate::advise::expect::{CLIENTS, Expectation, SPREAD_MAX, expectations, rows_words};
use crate::advise::products::{PRODUCTS, Product};
use crate::advise::{Advice, Setting, advise_for};
use crate::error::{Error, Result};
use crate::figures::{listing, plural};
use crate::rank::Ranking;
use crate::result::RunResult;
use serde_json::{Value, json};

/// What every advice in JSON says it is.
pub const FORMAT: &str = "seawall-advice";

/// How much of the advice is printed.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// Every product in one line.
    Overview,
    /// Every product with its settings, reasons and rates.
    All,
    /// These products with their notes and sources too.
    Only(&'a [&'static Product]),
}

impl<'a> Scope<'a> {
    fn only(self) -> Option<&'a [&'static Product]> {
        match self {
            Self::Overview | Self::All => None,
            Self::Only(products) => Some(products),
        }
    }
}

/// The advice for a terminal of `width` columns.
pub fn text(result: &RunResult, scope: Scope<'_>, width: usize, style: Style) -> String {
    AdviceText::of(result, scope.only()).text(scope, width.max(WIDTH_MIN), style)
}

/// The advice as JSON, for every product or for `only` these.
///
/// # Errors
/// A figure has no form in JSON.
pub fn json(result: &RunResult, only: Option<&[&'static Product]>) -> Result<String> {
    AdviceText::of(result, only).json()
}

struct AdviceText<'a> {
    result: &'a RunResult,
    advice: Advice,
    expected: Vec<Expectation>,
    /// The rows that the expectations stand on.
    rows: Vec<String>,
    /// Whether notes are printed too: of few products only.
    notes: bool,
}

impl<'a> AdviceText<'a> {
    fn of(result: &'a RunResult, only: Option<&[&'static Product]>) -> Self {
        let ranking = Ranking::new(result);
        let products = only.map_or_else(|| PRODUCTS.iter().collect(), <[_]>::to_vec);
        let named = |one: &Expectation| products.iter().any(|product| product.name == one.product);
        let advice = advise_for(&ranking, &products);
        let expected: Vec<Expectation> = expectations(&ranking).into_iter().filter(named).collect();
        let rows = rows_words(&ranking, &expected.iter().collect::<Vec<_>>());
        Self { result, advice, expected, rows, notes: only.is_some() }
    }

    fn text(&self, scope: Scope<'_>, width: usize, style: Style) -> String {
        let mut page = Page::new(width, style);
        page.say(Role::Heading, "", &facts::title(self.result));
        verdict(&mut page, "", &self.advice.judgement);
        if self.advice.judgement.recommended.is_none() {
            return page.out;
        }
        if let Scope::Overview = scope {
            self.overview(&mut page);
        } else {
            self.in_full(&mut page);
        }
        page.out
    }

    fn overview(&self, page: &mut Page) {
        const HEADS: [&str; 3] = ["product", "set", "commits/s"];
        const SET_MIN: usize = 30;
        let rows: Vec<[String; 3]> = self.advice.settings.iter().map(|setting| self.brief(setting)).collect();
        let wide = |column: usize, head: &str| {
            rows.iter().map(|row| width_of(&row[column])).chain([width_of(head)]).max().unwrap_or(0)
        };
        let (names, rates) = (wide(0, HEADS[0]), wide(2, HEADS[2]));
        let set = page.width.saturating_sub(names + rates + 4).min(wide(1, HEADS[1]));
        page.blank();
        if set < SET_MIN {
            for [name, set, rate] in rows {
                page.say(Role::Heading, "", &name);
                page.say(Role::Plain, "  ", &format!("{set}; commits/s: {rate}"));
            }
        } else {
            let line = |[name, lines, rate]: &[String; 3]| {
                format!("{name:<names$}  {:<set$}  {rate}", elided(lines, set))
            };
            page.line(Role::Dim, &line(&HEADS.map(str::to_owned)));
            for row in &rows {
                page.line(Role::Plain, &line(row));
            }
        }
        page.blank();
        self.withheld(page);
        page.say(
            Role::Dim,
            "",
            &format!(
                "commits/s: of one client and a small transaction, on an otherwise idle disk. {}",
                self.outlives()
            ),
        );
        page.say(Role::Dim, "", "Lines to copy, reasons and what the rates stand on: --verbose. Notes and sources too: --only PRODUCT.");
    }

    /// What the settings outlive, with the products whose do not by themselves.
    fn outlives(&self) -> String {
        let unsynced = self.advice.settings.iter().filter(|setting| setting.commits_per_s.is_none());
        let names: Vec<&str> = unsynced.map(|setting| setting.product).collect();
        if names.is_empty() {
            return "Every setting here outlives a power cut.".to_owned();
        }
        format!(
            "Every setting here outlives a power cut, but for {}, whose commits are not synced: only replicas on separate power keep them.",
            listing(&names, names.len())
        )
    }

    fn brief(&self, setting: &Setting) -> [String; 3] {
        let set = match setting.lines.as_slice() {
            // Its reason begins with the answer.
            [] => setting.why.split([':', '(']).next().unwrap_or_default().trim().to_owned(),
            [only] => only.clone(),
            [first, rest @ ..] => format!("{first} (+{})", rest.len()),
        };
        let rate =
            self.expected_of(setting).first().map_or_else(|| "not known".to_owned(), |one| one.brief());
        [setting.product.to_owned(), set, rate]
    }

    fn withheld(&self, page: &mut Page) {
        for words in self.advice.withheld_words() {
            page.say(Role::Caution, "no setting  ", &words);
        }
    }

    fn in_full(&self, page: &mut Page) {
        for setting in &self.advice.settings {
            self.product(page, setting);
        }
        page.blank();
        self.withheld(page);
        if !self.expected.is_empty() {
            page.say(Role::Dim, "", &legend());
            page.say(Role::Dim, "", &self.stand_on());
            page.say(Role::Dim, "", &self.outlives());
        }
        if !self.notes {
            page.say(Role::Dim, "", "All settings, notes and sources of a product: --only PRODUCT.");
        }
    }

    /// The run and the rows behind all rates, once.
    fn stand_on(&self) -> String {
        let plan = &self.result.plan;
        format!(
            "They stand on {} a commit into a {} journal by {}: {}.",
            plan.transaction(),
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
        for one in self.expected_of(setting) {
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
            page.say(
                Role::Dim,
                "  source  ",
                &format!("{}, looked at on {}", setting.source, setting.checked),
            );
        }
    }

    /// All expectations of a product; in the short form those of what is set, and of these what is known, else the first.
    fn expected_of(&self, setting: &Setting) -> Vec<&Expectation> {
        let own = self.expected.iter().filter(|one| one.product == setting.product);
        if self.notes {
            return own.collect();
        }
        let of_it: Vec<&Expectation> =
            own.filter(|one| setting.method.as_ref() == Some(&one.method)).collect();
        let known: Vec<&Expectation> = of_it.iter().copied().filter(|one| one.not_known.is_none()).collect();
        if known.is_empty() { of_it.into_iter().take(1).collect() } else { known }
    }

    fn json(&self) -> Result<String> {
        let (advice, judgement) = (&self.advice, &self.advice.judgement);
        let settings: Vec<Value> = advice.settings.iter().map(setting_json).collect();
        let withheld: Vec<Value> = advice
            .withheld
            .iter()
            .map(|one| json!({ "product": one.product, "why": one.why.to_string() }))
            .collect();
        let value = json!({
            "format": FORMAT,
            "version": 1,
            "answer": judgement.answer,
            "method": judgement.recommended,
            "sentence": judgement.verdict,
            "caution": judgement.caution,
            "disturbed": judgement.disturbed,
            "basis": advice.basis,
            "rows": self.rows,
            "settings": settings,
            "withheld": withheld,
            "clients": CLIENTS,
            "expectations": self.expected,
        });
        Ok(serde_json::to_string_pretty(&value).map_err(Error::Json)? + "\n")
    }
}

fn setting_json(setting: &Setting) -> Value {
    json!({
        "product": setting.product,
        "product_version": setting.version,
        "source": setting.source,
        "checked": setting.checked,
        "lines": setting.lines,
        "why": setting.why,
        "notes": setting.notes,
        "method": setting.method,
    })
}

fn legend() -> String {
    format!(
        "Rates are of one client and the transaction named, on an otherwise idle disk: most by the method's median, least by its 90th percentile and the product's own work. A range of more than a factor of {SPREAD_MAX} is not given. Clients that commit together share syncs: how many do is not known before it is measured."
    )
}
