//! Holds what the clients of all engines share: names, facts and policies of the streams they create.

use seawall_gauge::scenario::replicated::EngineClient;
use seawall_gauge::scenario::replicated::promise::{EngineFacts, SyncPolicy};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A sync policy, and how it is printed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) sync: SyncPolicy,
    pub(crate) setting: String,
    pub(crate) read_from: String,
    /// The end of the engine's id.
    pub(crate) id: String,
}

impl Policy {
    /// A policy of which nothing is known, because `setting` could not be read, and where it was looked for.
    pub(crate) fn unknown(setting: &str, read_from: String) -> Self {
        let setting = format!("{setting} unknown");
        Self { sync: SyncPolicy::Unknown, setting, read_from, id: "unknown".to_owned() }
    }

    /// Enters the policy into `facts`; the id becomes one that none of `engines` has.
    pub(crate) fn enter(self, facts: &mut EngineFacts, engine: &str, engines: &[Box<dyn EngineClient>]) {
        let id = format!("{engine}/{}", self.id);
        let taken = |id: &str| engines.iter().any(|engine| engine.facts().id == id);
        let numbered = (2..).map(|n| format!("{id}-{n}"));
        facts.id = std::iter::once(id.clone()).chain(numbered).find(|id| !taken(id)).unwrap_or_default();
        (facts.policy, facts.setting, facts.read_from) = (self.sync, self.setting, self.read_from);
    }
}

/// The facts of an engine whose policy is not yet known.
pub(crate) fn facts(
    name: String,
    version: Option<String>,
    copies: usize,
    acknowledged_by: usize,
    on_this_machine: bool,
) -> EngineFacts {
    EngineFacts {
        id: String::new(),
        name,
        version,
        copies,
        acknowledged_by,
        laggard_may_lead: false,
        policy: SyncPolicy::Unknown,
        setting: String::new(),
        read_from: String::new(),
        on_this_machine,
    }
}

/// A name for a stream of this process; its start names the process, its end no other stream has.
#[must_use]
pub fn unique_name(what: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("seawall-{}-{}-{what}-{number}", std::process::id(), seawall_sys::clock::unix_seconds())
}

/// `duration` in nanoseconds.
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
