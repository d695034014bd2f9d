//! Reads a Kafka topic's sync policy from its described configuration.
//!
//! Invariant: `flush.messages` counts the records between syncs; a setting that was not described is unknown; the
//! engine syncs first only with `flush.messages=1`, because any other number acknowledges records that are not
//! synced.

use crate::failure::Synced;
use crate::remote::Policy;

/// The end of the id of an engine that syncs each record.
pub const FLUSH_EACH: &str = "flush-1";

/// What decides a topic's promise, as far as it was described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    flush_messages: Option<u64>,
    flush_ms: Option<u64>,
    /// The fewest replicas that an acknowledgement counts.
    pub min_insync_replicas: Option<usize>,
    /// Whether a replica that lacks acknowledged messages may become the leader; it is excluded only by a setting that says so.
    pub laggard_may_lead: bool,
}

impl Described {
    /// What a topic's settings say.
    #[must_use]
    pub fn of(settings: &[(String, String)]) -> Self {
        let of = |name: &str| settings.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        Self {
            flush_messages: of("flush.messages").and_then(|value| value.parse().ok()),
            flush_ms: of("flush.ms").and_then(|value| value.parse().ok()),
            min_insync_replicas: of("min.insync.replicas").and_then(|value| value.parse().ok()),
            laggard_may_lead: of("unclean.leader.election.enable") != Some("false"),
        }
    }
}

/// Kafka's default for both flush settings, which means never.
const NEVER: u64 = i64::MAX as u64;

/// The policy that a topic's description states.
pub(super) fn of(described: &Described) -> Policy {
    let often = |value: Option<u64>, unit: &str| match value {
        None => "unknown".to_owned(),
        Some(NEVER) => "never".to_owned(),
        Some(value) => format!("{value}{unit}"),
    };
    let Some(messages) = described.flush_messages else {
        let read_from = "nowhere: this client may not describe topics".to_owned();
        return Policy::unknown("flush.messages", read_from);
    };
    let (synced, setting) = if messages == 1 {
        (Synced::Before, "flush.messages=1".to_owned())
    } else {
        let (count, time) = (often(described.flush_messages, ""), often(described.flush_ms, " ms"));
        (Synced::After, format!("flush.messages {count}, flush.ms {time}"))
    };
    let id = match messages {
        1 => FLUSH_EACH.to_owned(),
        NEVER if described.flush_ms == Some(NEVER) => "default".to_owned(),
        NEVER => format!("flush-{}", often(described.flush_ms, "ms")),
        n => format!("flush-{n}"),
    };
    Policy { synced, setting, read_from: "the topic's described configuration".to_owned(), id }
}

/// The lines of a properties file: `key=value`, comments with `#`.
///
/// # Errors
/// The number of the first line that is neither.
pub(super) fn properties(text: &str) -> Result<Vec<(&str, &str)>, usize> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| match line.split_once('=') {
            Some((key, value)) => Ok((key.trim(), value.trim())),
            None => Err(number),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(values: &[(&str, &str)]) -> Described {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Described::of(&values.collect::<Vec<_>>())
    }

    fn policy(values: &[(&str, &str)]) -> (Synced, String) {
        let policy = of(&described(values));
        (policy.synced, policy.id)
    }

    #[test]
    fn only_a_flush_for_each_record_comes_before_its_acknowledgement() {
        let never = i64::MAX.to_string();
        let both = |messages: &str, ms: &str| policy(&[("flush.messages", messages), ("flush.ms", ms)]);
        assert_eq!(both(&never, &never), (Synced::After, "default".to_owned()));
        assert_eq!(both("1", &never), (Synced::Before, "flush-1".to_owned()));
        assert_eq!(both("2", &never), (Synced::After, "flush-2".to_owned()));
        assert_eq!(both(&never, "1"), (Synced::After, "flush-1ms".to_owned()));
        assert_eq!(policy(&[("cleanup.policy", "delete")]), (Synced::Unknown, "unknown".to_owned()));
    }

    #[test]
    fn what_decides_the_promise_is_read_and_nothing_is_assumed() {
        let promise = |values| {
            let described = described(values);
            (described.min_insync_replicas, described.laggard_may_lead)
        };
        assert_eq!(
            promise(&[("min.insync.replicas", "2"), ("unclean.leader.election.enable", "true")]),
            (Some(2), true)
        );
        assert_eq!(promise(&[("unclean.leader.election.enable", "false"), ("x", "y")]), (None, false));
        assert_eq!(promise(&[]), (None, true));
    }

    #[test]
    fn a_file_of_properties_is_read_and_a_wrong_line_is_refused_by_its_number() {
        let text = "# mine\n\nsecurity.protocol = SSL\nssl.ca.location=/ca.pem\n";
        assert_eq!(properties(text), Ok(vec![("security.protocol", "SSL"), ("ssl.ca.location", "/ca.pem")]));
        assert_eq!(properties("a=b\nnonsense"), Err(2));
    }
}
