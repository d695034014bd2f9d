//! Holds what the clients of all engines share: names, facts and policies of the streams they create.

use seawall_gauge::scenario::replicated::EngineClient;
use seawall_gauge::scenario::replicated::promise::{EngineFacts, SyncPolicy};
use seawall_ship::Synced;
use seawall_ship::remote::Policy;
use std::sync::atomic::{AtomicU32, Ordering};

/// Enters the policy into `facts`; the id becomes one that none of `engines` has.
pub(crate) fn enter(
    policy: Policy,
    facts: &mut EngineFacts,
    engine: &str,
    engines: &[Box<dyn EngineClient>],
) {
    let id = format!("{engine}/{}", policy.id);
    let taken = |id: &str| engines.iter().any(|engine| engine.facts().id == id);
    let numbered = (2..).map(|n| format!("{id}-{n}"));
    facts.id = std::iter::once(id.clone()).chain(numbered).find(|id| !taken(id)).unwrap_or_default();
    facts.policy = match policy.synced {
        Synced::Before => SyncPolicy::Before,
        Synced::After => SyncPolicy::After,
        Synced::Unknown => SyncPolicy::Unknown,
    };
    (facts.setting, facts.read_from) = (policy.setting, policy.read_from);
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
pub(crate) fn unique_name(what: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("seawall-{}-{}-{what}-{number}", std::process::id(), seawall_sys::clock::unix_seconds())
}
