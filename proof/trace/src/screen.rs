//! Prints a report as text of at most 80 columns where names allow it.

use crate::{Report, Syncs};
use std::fmt::Write as _;

const ROWS_MAX: usize = 20;

/// A time in three digits.
#[must_use]
pub fn time(ns: u64) -> String {
    match ns as f64 / 1e9 {
        s if s >= 0.1 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} us", s * 1e6),
    }
}

fn row(sync: &Syncs) -> String {
    let mut text =
        format!("  {:<22} {:>6} {:<15} {:>8}", sync.role, sync.count, sync.call, time(sync.time_ns));
    if let Some(mean) = sync.dirty_bytes.0.checked_div(sync.dirty_bytes.1) {
        let _ = write!(text, "  {mean:>8} B dirty");
    }
    if sync.failed > 0 {
        let _ = write!(text, "  {} failed", sync.failed);
    }
    if let Some(site) = &sync.site {
        let _ = write!(text, "\n      {site}");
    }
    text
}

impl Report {
    /// The report as text; `priced`: another disk's name, and the time of the run on it.
    #[must_use]
    pub fn text(&self, priced: Option<(&str, u64)>) -> String {
        let [summed, union, wall] = [self.summed_ns(), self.union_ns, self.wall_ns].map(time);
        let mut text = format!("{} syncs by {} threads, {union} of {wall}", self.count(), self.threads);
        if let Some(mean) = self.summed_ns().checked_div(self.count()) {
            let _ = write!(text, "; {} each", time(mean));
        }
        if self.summed_ns() > self.union_ns + self.union_ns / 20 {
            let _ = write!(text, "; {summed} summed: they overlap");
        }
        text.push('\n');
        for sync in self.syncs.iter().take(ROWS_MAX) {
            text += &row(sync);
            text.push('\n');
        }
        if self.syncs.len() > ROWS_MAX {
            let _ = writeln!(text, "  and {} more rows: --json has them", self.syncs.len() - ROWS_MAX);
        }
        let redundant: Vec<String> = self
            .syncs
            .iter()
            .filter(|sync| sync.redundant > 0)
            .map(|sync| format!("{} {} of {}: nothing was dirty", sync.redundant, sync.call, sync.role))
            .collect();
        let nothing = ["none".to_owned()];
        for (label, lines) in
            [("redundant", &redundant), ("missing", &self.missing), ("not seen", &self.not_seen)]
        {
            let lines = if lines.is_empty() { &nothing[..] } else { lines };
            for (at, line) in lines.iter().take(ROWS_MAX).enumerate() {
                let _ = writeln!(text, "{:<10} {line}", if at == 0 { label } else { "" });
            }
            if lines.len() > ROWS_MAX {
                let _ = writeln!(text, "           and {} more: --json has them", lines.len() - ROWS_MAX);
            }
        }
        if let Some((name, ns)) = priced {
            let _ = writeln!(text, "priced     {} there ({name}), {wall} here", time(ns));
        }
        let _ = writeln!(text, "own cost   {} for {} stops, subtracted", time(self.own_ns), self.stops);
        text
    }
}
