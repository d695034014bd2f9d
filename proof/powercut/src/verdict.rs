//! Computes the verdict of each stream from the counts of its intact, lost and torn records.
//!
//! ```text
//!   loss found?   promised to outlive a power cut   acknowledged anything   verdict
//!   -----------   -------------------------------   ---------------------   -------
//!   -             -                                 no                      nothing to judge
//!   no            -                                 yes                     kept, or no cut if none came
//!   yes           yes                               yes                     broken
//!   yes           no                                yes                     lost, not promised
//! ```
//!
//! Bytes that were never written there break every promise, whatever was acknowledged.
//!
//! Invariant: a verdict is computed from counts, and every broken promise names its first place.

use std::fmt::Write as _;

use seawall_sys::durability::Durability;

use crate::message::RunId;
use crate::stream::StreamKind;

/// What became of the acknowledged records of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Records that must be there.
    pub expected: u64,
    /// Of these, there byte for byte, or overwritten since by a record that was issued later.
    pub intact: u64,
    /// Of these, not there: their place holds something older, or nothing.
    pub lost: u64,
    /// Of these, there in part.
    pub torn: u64,
    /// Of the lost and torn ones, how many were outlived by a record that was issued later.
    pub reordered: u64,
    /// Places that hold what was never issued there.
    pub phantom: u64,
    /// The first thing that is wrong, in words.
    pub first: Option<String>,
}

impl Counts {
    /// Whether anything is wrong.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        self.lost + self.torn + self.phantom > 0 || self.first.is_some()
    }

    /// Keeps the first thing that is wrong.
    pub(crate) fn wrong(&mut self, what: impl FnOnce() -> String) {
        if self.first.is_none() {
            self.first = Some(what());
        }
    }
}

/// What a stream's method is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodOutcome {
    /// Everything acknowledged is there.
    Kept,
    /// Something acknowledged is not, though it was promised to outlive a power cut.
    Broken,
    /// Something acknowledged is not, and its class never promised that.
    LostUnpromised,
    /// Everything acknowledged is there, but no cut came that could have taken it: it proves nothing.
    NoCut,
    /// Nothing was acknowledged.
    NothingToJudge,
}

impl MethodOutcome {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Broken => "BROKEN",
            Self::LostUnpromised => "lost, not promised",
            Self::NoCut => "no cut",
            Self::NothingToJudge => "nothing to judge",
        }
    }
}

/// The verdict on one stream.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct StreamVerdict {
    /// The commit method's id, or `log`.
    pub method: String,
    /// What it was written through.
    pub kind: StreamKind,
    /// What its acknowledged records were promised to outlive.
    pub promised: Durability,
    /// Records acknowledged in all, as the witness holds it; older ones may have been overwritten or trimmed.
    pub acknowledged: u64,
    /// Whether it was acknowledged last, that is whether the cut came in its turn.
    pub last: bool,
    /// What became of them.
    #[serde(flatten)]
    pub counts: Counts,
    /// What that means.
    pub verdict: MethodOutcome,
}

/// Why it is known that no power cut came while a run wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoCut {
    /// The run reported to the witness that it was done.
    EndedByItself,
    /// The host is in the boot that the run wrote in.
    SameBoot,
}

impl NoCut {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::EndedByItself => "no cut came: it ended by itself",
            Self::SameBoot => "no cut came: this host has not restarted since",
        }
    }
}

/// The verdict on one run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Judgement {
    /// Which run.
    pub run: RunId,
    /// Where it wrote.
    pub place: String,
    /// When it began by the witness's clock, seconds since 1970.
    pub begun_unix_seconds: u64,
    /// Whether it ended by itself, without any cut.
    pub ended: bool,
    /// Why it is known that no cut came while it wrote; absent if one came, or it is unknown.
    pub no_cut: Option<NoCut>,
    /// By stream.
    pub streams: Vec<StreamVerdict>,
}

/// Which verdict counts mean.
pub(crate) fn verdict(
    counts: &Counts,
    acknowledged: u64,
    promised: Durability,
    no_cut: bool,
) -> MethodOutcome {
    match (counts.is_loss(), promised) {
        _ if counts.phantom > 0 => MethodOutcome::Broken,
        _ if acknowledged == 0 => MethodOutcome::NothingToJudge,
        (false, _) if no_cut => MethodOutcome::NoCut,
        (false, _) => MethodOutcome::Kept,
        (true, Durability::PowerLoss) => MethodOutcome::Broken,
        (true, _) => MethodOutcome::LostUnpromised,
    }
}

impl Judgement {
    /// Whether any promise was broken.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.streams.iter().any(|stream| stream.verdict == MethodOutcome::Broken)
    }

    /// Whether there was anything to judge.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.streams.iter().all(|stream| stream.verdict == MethodOutcome::NothingToJudge)
    }

    /// As a table for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let how = self.no_cut.map_or("was cut off", NoCut::name);
        writeln!(out, "run {} in {}: {how}\n", self.run, self.place)?;
        writeln!(
            out,
            "{:26} {:14} {:>12} {:>9} {:>9} {:>6} {:>6} {:>9} {:>7}  verdict",
            "method",
            "promised",
            "acknowledged",
            "expected",
            "intact",
            "lost",
            "torn",
            "reordered",
            "phantom"
        )?;
        for stream in &self.streams {
            let Counts { expected, intact, lost, torn, reordered, phantom, first } = &stream.counts;
            writeln!(
                out,
                "{:26} {:14} {:>12} {expected:>9} {intact:>9} {lost:>6} {torn:>6} {reordered:>9} {phantom:>7}  {}{}",
                stream.method,
                stream.promised.name(),
                stream.acknowledged,
                stream.verdict.name(),
                if stream.last { ", last" } else { "" }
            )?;
            if let Some(first) = first {
                writeln!(out, "{:26} {first}", "")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Durability, MethodOutcome, verdict};

    #[test]
    fn the_table_in_the_header_holds() {
        let clean = Counts { expected: 3, intact: 3, ..Counts::default() };
        let lost = Counts { expected: 3, intact: 2, lost: 1, ..Counts::default() };
        let phantom = Counts { phantom: 1, ..Counts::default() };
        for class in Durability::ALL {
            let broken = if class == Durability::PowerLoss {
                MethodOutcome::Broken
            } else {
                MethodOutcome::LostUnpromised
            };
            assert_eq!(verdict(&clean, 3, class, false), MethodOutcome::Kept);
            assert_eq!(verdict(&clean, 3, class, true), MethodOutcome::NoCut);
            for no_cut in [false, true] {
                assert_eq!(verdict(&lost, 3, class, no_cut), broken);
                assert_eq!(verdict(&phantom, 0, class, no_cut), MethodOutcome::Broken);
                assert_eq!(verdict(&Counts::default(), 0, class, no_cut), MethodOutcome::NothingToJudge);
            }
        }
    }
}
