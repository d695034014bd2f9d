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
use crate::report::markdown::add;
use crate::require::{Checked, ConditionOutcome};

struct Case<'a> {
    name: &'a str,
    /// What a test that did not pass is.
    element: Option<&'static str>,
    sentence: &'a str,
    story: &'a str,
}

/// The outcome of the conditions of a command's option, such as `bench --require`.
pub fn conditions(option: &str, checked: &[Checked]) -> String {
    let cases = checked.iter().map(|one| {
        let element = match one.outcome {
            ConditionOutcome::Met => None,
            ConditionOutcome::Missed => Some("failure"),
            ConditionOutcome::CannotTell => Some("error"),
            ConditionOutcome::NotJudged => Some("skipped"),
        };
        Case { name: &one.name, element, sentence: &one.sentence, story: "" }
    });
    document(option, &cases.collect::<Vec<_>>())
}

/// What `crash-test` found: each loss with its sentence and the lines of its story; a case without passed.
pub fn losses(cases: &[(String, Option<(String, String)>)]) -> String {
    let cases = cases.iter().map(|(name, lost)| {
        let (sentence, story) = lost.as_ref().map_or(("kept", ""), |(sentence, story)| (sentence, story));
        Case { name, element: lost.is_some().then_some("failure"), sentence, story }
    });
    document("crash-test", &cases.collect::<Vec<_>>())
}

fn document(command: &str, cases: &[Case<'_>]) -> String {
    let suite = format!("seawall {command}");
    let number = |element: &str| cases.iter().filter(|case| case.element == Some(element)).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
        cases.len(),
        number("failure"),
        number("error"),
        number("skipped")
    );
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n<testsuite name=\"{suite}\" {counts}>\n"
    );
    for Case { name, element, sentence, story } in cases {
        let (name, sentence) = (plain(name), plain(sentence));
        add(&mut out, &format!("<testcase classname=\"{suite}\" name=\"{}\">\n", Text(&name)));
        if let Some(element) = element {
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

    #[test]
    fn each_condition_is_a_test_with_its_outcome_and_no_text_is_markup() {
        let checked = [
            ConditionOutcome::Met,
            ConditionOutcome::Missed,
            ConditionOutcome::CannotTell,
            ConditionOutcome::NotJudged,
        ]
        .map(|outcome| Checked {
            name: "dsync:p99<1ms".to_owned(),
            outcome,
            sentence: "a <b> & \u{1b}[2J".to_owned(),
        });
        let text = conditions("bench --require", &checked);
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
