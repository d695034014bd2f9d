//! Reads a Kafka topic's sync policy from its described configuration.
//!
//! Invariant: `flush.messages` counts the records between syncs; a setting that was not described is unknown; the
//! engine syncs first only with `flush.messages=1`, because any other number acknowledges records that are not
//! synced.

use crate::client::Policy;
use seawall_gauge::scenario::replicated::promise::SyncPolicy;

/// The end of the id of an engine that syncs each record.
pub(super) const FLUSH_EACH: &str = "flush-1";

/// What decides a topic's promise, as far as it was described.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) flush_messages: Option<u64>,
    pub(super) flush_ms: Option<u64>,
    pub(super) min_insync_replicas: Option<usize>,
    pub(super) laggard_may_lead: bool,
}

impl Described {
    /// What these say; nothing if there are none, because a topic that is described has dozens.
    pub(super) fn of<'a>(values: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let mut described = None;
        for (name, value) in values {
            let described = described.get_or_insert_with(Self::default);
            match name {
                "flush.messages" => described.flush_messages = value.parse().ok(),
                "flush.ms" => described.flush_ms = value.parse().ok(),
                "min.insync.replicas" => described.min_insync_replicas = value.parse().ok(),
                "unclean.leader.election.enable" => described.laggard_may_lead = value == "true",
                _ => {}
            }
        }
        described
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
    let (sync, setting) = if messages == 1 {
        (SyncPolicy::Before, "flush.messages=1".to_owned())
    } else {
        let (count, time) = (often(described.flush_messages, ""), often(described.flush_ms, " ms"));
        (SyncPolicy::After, format!("flush.messages {count}, flush.ms {time}"))
    };
    let id = match messages {
        1 => FLUSH_EACH.to_owned(),
        NEVER if described.flush_ms == Some(NEVER) => "default".to_owned(),
        NEVER => format!("flush-{}", often(described.flush_ms, "ms")),
        n => format!("flush-{n}"),
    };
    Policy { sync, setting, read_from: "the topic's described configuration".to_owned(), id }
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

    fn policy(values: &[(&str, &str)]) -> (SyncPolicy, String) {
        let policy = of(&Described::of(values.iter().copied()).expect("described"));
        (policy.sync, policy.id)
    }

    #[test]
    fn only_a_flush_for_each_record_comes_before_its_acknowledgement() {
        let never = i64::MAX.to_string();
        let both = |messages: &str, ms: &str| policy(&[("flush.messages", messages), ("flush.ms", ms)]);
        assert_eq!(both(&never, &never), (SyncPolicy::After, "default".to_owned()));
        assert_eq!(both("1", &never), (SyncPolicy::Before, "flush-1".to_owned()));
        assert_eq!(both("2", &never), (SyncPolicy::After, "flush-2".to_owned()));
        assert_eq!(both(&never, "1"), (SyncPolicy::After, "flush-1ms".to_owned()));
        assert_eq!(policy(&[("cleanup.policy", "delete")]), (SyncPolicy::Unknown, "unknown".to_owned()));
    }

    #[test]
    fn what_decides_the_promise_is_read_and_nothing_is_assumed() {
        let values = [("min.insync.replicas", "2"), ("unclean.leader.election.enable", "true"), ("x", "y")];
        let described = Described::of(values.into_iter()).expect("described");
        assert_eq!((described.min_insync_replicas, described.laggard_may_lead), (Some(2), true));
        assert_eq!(Described::of(std::iter::once(("x", "y"))), Some(Described::default()));
    }

    #[test]
    fn an_empty_description_is_none() {
        assert_eq!(Described::of(std::iter::empty()), None);
    }

    #[test]
    fn a_file_of_properties_is_read_and_a_wrong_line_is_refused_by_its_number() {
        let text = "# mine\n\nsecurity.protocol = SSL\nssl.ca.location=/ca.pem\n";
        assert_eq!(properties(text), Ok(vec![("security.protocol", "SSL"), ("ssl.ca.location", "/ca.pem")]));
        assert_eq!(properties("a=b\nnonsense"), Err(2));
    }
}
