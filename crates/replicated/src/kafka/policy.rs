//! Reads a Kafka topic's sync policy from its described configuration.
//!
//! Invariant: `flush.messages` counts the records between syncs; a setting that was not described is unknown; the
//! engine syncs first only with `flush.messages=1`, because any other number acknowledges records that are not
//! synced.

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

/// A policy, and how it is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) sync: SyncPolicy,
    pub(super) setting: String,
    pub(super) read_from: String,
    /// The end of the engine's id.
    pub(super) id: String,
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

impl Policy {
    pub(super) fn of(described: &Described) -> Self {
        let often = |value: Option<u64>, unit: &str| match value {
            None => "not told".to_owned(),
            Some(NEVER) => "never".to_owned(),
            Some(value) => format!("{value}{unit}"),
        };
        let Some(messages) = described.flush_messages else {
            return Self {
                sync: SyncPolicy::Untold,
                setting: "flush.messages not told".to_owned(),
                read_from: "nowhere: this client may not describe topics".to_owned(),
                id: "untold".to_owned(),
            };
        };
        let (policy, setting) = if messages == 1 {
            (SyncPolicy::Before, "flush.messages=1".to_owned())
        } else {
            let (count, time) = (often(described.flush_messages, ""), often(described.flush_ms, " ms"));
            (SyncPolicy::After, format!("flush.messages {count}, flush.ms {time}"))
        };
        let id = match messages {
            1 => FLUSH_EACH.to_owned(),
            NEVER if described.flush_ms == Some(NEVER) => "default".to_owned(),
            NEVER => format!("flush-{}", often(described.flush_ms, "ms").replace(' ', "-")),
            n => format!("flush-{n}"),
        };
        Self { sync: policy, setting, read_from: "the topic's described configuration".to_owned(), id }
    }
}

/// The lines of a properties file: `key=value`, comments with `#`.
pub(super) fn properties(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| match line.split_once('=') {
            Some((key, value)) => Ok((key.trim(), value.trim())),
            None => Err(format!("line {number} is not `key=value`")),
        })
        .collect()
}

/// Whether a broker's host is an address of this machine's loopback.
pub(super) fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(values: &[(&str, &str)]) -> (SyncPolicy, String) {
        let policy = Policy::of(&Described::of(values.iter().copied()).expect("described"));
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
        assert_eq!(policy(&[("cleanup.policy", "delete")]), (SyncPolicy::Untold, "untold".to_owned()));
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
    fn a_file_of_properties_is_read_and_a_wrong_line_is_told_by_its_number() {
        let text = "# mine\n\nsecurity.protocol = SSL\nssl.ca.location=/ca.pem\n";
        assert_eq!(properties(text), Ok(vec![("security.protocol", "SSL"), ("ssl.ca.location", "/ca.pem")]));
        assert!(properties("a=b\nnonsense").is_err_and(|error| error.contains("line 2")));
    }

    #[test]
    fn only_loopback_is_this_machine() {
        assert!(is_this_machine("127.0.0.1") && is_this_machine("localhost") && is_this_machine("::1"));
        assert!(!is_this_machine("10.0.0.1") && !is_this_machine("kafka-1"));
    }
}
