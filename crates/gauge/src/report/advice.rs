//! Renders the advice product by product, settings, reason and expected rate, as text or JSON.
//!
//! Invariants: pure; no line is wider than the given width; text and JSON have the same content; a product without
//! advice is omitted.

use super::text::Page;
use super::{Role, Style, facts};
use crate::advise::expect::{CLIENTS, Expectation, expectations};
use crate::advise::{Advice, Setting, advise};
use crate::rank::Ranking;
use crate::result::RunResult;
use serde_json::{Value, json};

/// What every advice in JSON says it is.
pub const FORMAT: &str = "seawall-advice";

/// The advice for a terminal of `width` columns.
#[must_use]
pub fn text(result: &RunResult, width: usize, style: Style) -> String {
    let ranking = Ranking::new(result);
    let advice = advise(&ranking);
    let expected = expectations(&ranking);
    let mut page = Page::new(width, style);
    page.say(Role::Heading, "", &facts::title(result));
    let role = if advice.method.is_some() { Role::Good } else { Role::Bad };
    page.say(role, "", &advice.sentence);
    for product in products(&advice, &expected) {
        page.blank();
        page.say(Role::Heading, "", product);
        if let Some(setting) = advice.settings.iter().find(|setting| setting.product == product) {
            setting_of(&mut page, setting);
        }
        expected.iter().filter(|one| one.product == product).for_each(|one| expectation(&mut page, one));
    }
    if !expected.is_empty() {
        page.blank();
        page.say(Role::Dim, "", &legend());
    }
    page.out
}

/// The products of which something is said, in the order of the expectations, then of the settings.
fn products(advice: &Advice, expected: &[Expectation]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    let settings = advice.settings.iter().map(|setting| setting.product);
    for name in expected.iter().map(|one| one.product).chain(settings) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn legend() -> String {
    format!(
        "Ranges are of small transactions on an otherwise idle disk: most by the median of the method, least by its 90th percentile. {CLIENTS} clients: all in one group commit at most; at least each waits for the group under way and then for its own, and the CPUs may be the limit before. Every setting here outlives a power cut unless it says otherwise."
    )
}

fn setting_of(page: &mut Page, setting: &Setting) {
    for (number, line) in setting.lines.iter().enumerate() {
        page.say(Role::Good, if number == 0 { "  set     " } else { "          " }, line);
    }
    page.say(Role::Plain, "  why     ", &setting.why);
    for note in &setting.notes {
        page.say(Role::Dim, "  note    ", note);
    }
}

fn expectation(page: &mut Page, one: &Expectation) {
    let one_client = one
        .one_client
        .map_or_else(|| "not bound by the disk".to_owned(), |range| format!("{} commits/s", range.words()));
    let together =
        one.together.map_or(String::new(), |range| format!(", {CLIENTS} clients {}", range.words()));
    page.say(Role::Plain, "  expect  ", &format!("{}: {one_client}{together}", one.setting));
    page.say(Role::Dim, "          ", &one.basis);
}

/// The same as JSON.
///
/// # Errors
/// In words: a figure cannot be told in JSON.
pub fn json(result: &RunResult) -> Result<String, String> {
    let ranking = Ranking::new(result);
    let advice = advise(&ranking);
    let settings: Vec<Value> = advice
        .settings
        .iter()
        .map(|setting| {
            json!({
                "product": setting.product,
                "lines": setting.lines,
                "why": setting.why,
                "notes": setting.notes,
                "method": setting.method,
            })
        })
        .collect();
    let value = json!({
        "format": FORMAT,
        "version": 1,
        "method": advice.method,
        "sentence": advice.sentence,
        "settings": settings,
        "clients": CLIENTS,
        "expectations": expectations(&ranking),
    });
    serde_json::to_string_pretty(&value)
        .map(|text| text + "\n")
        .map_err(|error| format!("cannot tell the advice as JSON: {error}"))
}
