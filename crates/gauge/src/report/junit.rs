//! Renders judged conditions as JUnit XML, which CI systems show as tests.
//!
//! ```text
//!   met, passed     testcase
//!   missed          testcase / failure
//!   cannot tell     testcase / error       no figure, or one that a finding calls wrong
//!   not judged      testcase / skipped     commits waited for a CPU: the disk was not judged
//! ```
//!
//! Invariant: every condition is one test, and its whole sentence is in the file. What a crash test found is a failure each, with
//! the calls up to the power cut.

use super::html::escape::Text;
use crate::compare::gate::{GateOutcome, Judged};
use crate::report::markdown::add;
use crate::require::{Checked, RequirementOutcome};

struct Case<'a> {
    name: String,
    outcome: Outcome,
    sentence: &'a str,
    story: &'a str,
}

#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Passed,
    Failure,
    Error,
    Skipped,
}

impl Outcome {
    fn element(self) -> Option<&'static str> {
        match self {
            Self::Passed => None,
            Self::Failure => Some("failure"),
            Self::Error => Some("error"),
            Self::Skipped => Some("skipped"),
        }
    }
}

/// What became of `--require`.
pub fn requirements(checked: &[Checked]) -> String {
    let outcome = |one: &Checked| match one.outcome {
        RequirementOutcome::Met => Outcome::Passed,
        RequirementOutcome::Missed => Outcome::Failure,
        RequirementOutcome::CannotTell => Outcome::Error,
        RequirementOutcome::NotJudged => Outcome::Skipped,
    };
    let cases = checked.iter().map(|one| Case {
        name: one.name(),
        outcome: outcome(one),
        sentence: &one.sentence,
        story: "",
    });
    document("seawall bench --require", &cases.collect::<Vec<_>>())
}

/// What became of `--fail-if`, each with its condition.
pub fn gates(judged: &[(&str, &Judged)]) -> String {
    let outcome = |one: &Judged| match one.outcome {
        GateOutcome::Passed => Outcome::Passed,
        GateOutcome::Failed => Outcome::Failure,
        GateOutcome::CannotTell => Outcome::Error,
    };
    let cases = judged.iter().map(|(name, one)| Case {
        name: (*name).to_owned(),
        outcome: outcome(one),
        sentence: &one.sentence,
        story: "",
    });
    document("seawall compare --fail-if", &cases.collect::<Vec<_>>())
}

/// What `crash-test` found: each loss with its sentence and the lines of its story; a case without passed.
pub fn losses(cases: &[(String, Option<(String, String)>)]) -> String {
    let cases = cases.iter().map(|(name, lost)| {
        let (sentence, story) = lost.as_ref().map_or(("kept", ""), |(sentence, story)| (sentence, story));
        let outcome = if lost.is_some() { Outcome::Failure } else { Outcome::Passed };
        Case { name: name.clone(), outcome, sentence, story }
    });
    document("seawall crash-test", &cases.collect::<Vec<_>>())
}

fn document(suite: &str, cases: &[Case<'_>]) -> String {
    let number = |outcome: Outcome| cases.iter().filter(|case| case.outcome == outcome).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
        cases.len(),
        number(Outcome::Failure),
        number(Outcome::Error),
        number(Outcome::Skipped)
    );
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n<testsuite name=\"{suite}\" {counts}>\n"
    );
    for Case { name, outcome, sentence, story } in cases {
        let (name, sentence) = (plain(name), plain(sentence));
        add(&mut out, &format!("<testcase classname=\"{suite}\" name=\"{}\">\n", Text(&name)));
        if let Some(element) = outcome.element() {
            add(&mut out, &format!("<{element} message=\"{}\"/>\n", Text(&sentence)));
        }
        add(&mut out, &format!("<system-out>{}", Text(&sentence)));
        for line in story.lines() {
            add(&mut out, &format!("\n{}", Text(&plain(line))));
        }
        out.push_str("</system-out>\n</testcase>\n");
    }
    out + "</testsuite>\n</testsuites>\n"
}

/// `text` without the characters that no XML document may hold.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::require;

    #[test]
    fn each_condition_is_a_test_with_its_outcome_and_no_text_is_markup() {
        let conditions = require::parse("p99<1ms, p50<1us, max<1s, mean<1ms").expect("readable").conditions;
        let outcomes = [
            RequirementOutcome::Met,
            RequirementOutcome::Missed,
            RequirementOutcome::CannotTell,
            RequirementOutcome::NotJudged,
        ];
        let checked: Vec<Checked> = conditions
            .into_iter()
            .zip(outcomes)
            .map(|(condition, outcome)| Checked {
                condition,
                subject: Some("dsync".to_owned()),
                outcome,
                sentence: "a <b> & \u{1b}[2J".to_owned(),
            })
            .collect();
        let text = requirements(&checked);
        assert!(text.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""), "{text}");
        assert!(
            text.contains("name=\"dsync:p99&lt;1ms\"") && text.contains("a &lt;b&gt; &amp; \u{fffd}[2J"),
            "{text}"
        );
        for element in ["<failure ", "<error ", "<skipped "] {
            assert_eq!(text.matches(element).count(), 1, "{text}");
        }
    }

    #[test]
    fn each_loss_is_a_failure_with_its_story() {
        let lost = ("key <0> is gone".to_owned(), "1  create\u{1b} tmp\n2  rename".to_owned());
        let text = losses(&[("power cut 1".to_owned(), Some(lost)), ("write fails".to_owned(), None)]);
        assert!(text.contains("tests=\"2\" failures=\"1\""), "{text}");
        assert!(text.contains("<failure message=\"key &lt;0&gt; is gone\"/>"), "{text}");
        assert!(
            text.contains("<system-out>key &lt;0&gt; is gone\n1  create\u{fffd} tmp\n2  rename</system-out>"),
            "{text}"
        );
    }
}
