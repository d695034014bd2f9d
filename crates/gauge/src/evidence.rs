//! Checks a claimed durability class against the device's counters: writes, sectors and flushes per commit.
//!
//! ```text
//!   claimed class   device cache    flushes per commit       outcome
//!   below power loss     any             any                 nothing claimed
//!   power loss      none volatile        any                 not needed
//!   power loss      any                  no counters, or     cannot tell
//!                                        none of flushes
//!   power loss      any                  none during one of  contradicted, whatever the blocks counted
//!                                        the watched commits
//!   power loss      unknown              < 0.9               cannot tell
//!   power loss      any                  neighbour flushes   confirmed by the watched commits, else cannot tell
//!   power loss      write-back           ≥ 0.9, and none     confirmed
//!                                        missing
//!   power loss      write-back           ≥ 0.9, and a few    cannot tell
//!                                        missing
//!   power loss      write-back, FUA      < 0.9, pure direct  by FUA
//!                                        dsync overwrite
//!   power loss      write-back           ≥ 0.9 / writers     shared (each writer waits for its own commit,
//!                                                            so one flush serves at most one of each)
//!   power loss      write-back, FUA      less, by a method    cannot tell
//!                                        that is not known
//!   power loss      write-back           less                contradicted
//! ```
//!
//! Flushes are held against what a commit needs: one, or one for each of its writes where the method makes each stable by
//! itself ([`flushes_needed`]).
//!
//! Before the blocks each method made some commits one by one, around which the counters of every level of the stack were read
//! ([`Watched`]): the top one has no neighbours, and none flushes in the time of each commit below.
//!
//! A flush is missing if one writer made more commits than the device counted flushes, a neighbour's included: each
//! commit of a sequence needs a flush that begins after the one before it has ended, so that none can be merged away.
//! More than 2 %, and two a block, convict: a liar that drops one sync in twenty does after some thousand commits. Fewer leave
//! the class unconfirmed. A forced write is held against its bytes in the same way. What is dropped at other times than those
//! of the run is not seen.
//!
//! [`convict`] takes the class of methods whose bytes never reached the device: one that claims to outlive a system
//! crash must have handed each commit's bytes to the device before it was acknowledged.
//!
//! Invariants: without counters there are no figures, never zeros; the idle baseline is scaled to the method's time
//! and subtracted; counters are the whole device's, so a busy baseline is reported with every outcome.

use crate::lookup;
use crate::result::RunResult;
use crate::row::{Measured, Row};
use seawall_sys::counters::{Counting, Verdict, Watched};
use seawall_sys::durability::{Claim, DeviceCache, Durability};
use std::fmt;

/// The size in which the kernel counts, bytes.
const SECTOR_BYTES: f64 = 512.0;
/// As many flushes a commit as one flush each, but for what the counters miss at a block's edge.
const ONE_EACH: f64 = 0.9;
/// A baseline that makes up more than this share of the counts disturbs the outcome.
const BASELINE_SHARE_MAX: f64 = 0.1;
/// The share of flushes or forced bytes below which a method is convicted, and that of any bytes.
const ALL_BUT_A_FEW: f64 = 0.98;
const HALF: f64 = 0.5;

/// Why a neighbour's flushes leave no outcome: they may hide that this method's are missing, or that they came.
pub(crate) const NEIGHBOUR: &str = "a neighbour's flushes cannot be separated from this method's";

/// Why a few flushes or bytes that are missing leave no outcome.
pub(crate) const A_FEW_MISSING: &str = "the device counted a little less than these commits need";

/// What the devices did per commit, without the idle baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PerCommit {
    /// Write requests.
    pub writes: f64,
    /// Sectors of 512 bytes.
    pub sectors: f64,
    /// Flush requests; `None` if a device does not count them.
    pub flushes: Option<f64>,
    /// Bytes written to the devices by bytes committed.
    pub write_amplification: f64,
    /// Whether the idle baseline was large enough to matter.
    pub baseline_matters: bool,
    /// Whether the idle baseline's flushes were.
    pub flushes_blurred: bool,
}

impl PerCommit {
    /// KiB written to the devices.
    pub(crate) fn kib(&self) -> f64 {
        self.sectors * SECTOR_BYTES / 1024.0
    }
}

/// What the counters say about the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvidenceOutcome {
    /// The class claims no more than the calls could not fail to give.
    NothingClaimed,
    /// The device has no volatile write cache: no flush is needed.
    NotNeeded,
    /// A flush for each commit.
    Confirmed,
    /// No flush, but the write itself was sent with FUA.
    ByFua,
    /// Several writers shared flushes, within what is possible.
    Shared,
    /// There is nothing to judge by; the words say why.
    CannotTell(&'static str),
    /// The flush, or even the write, never reached the device: the class is not confirmed.
    Contradicted,
}

/// Figures and outcome of one method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// The figures; `None` without counters.
    pub(crate) per_commit: Option<PerCommit>,
    /// What they mean.
    pub outcome: EvidenceOutcome,
}

impl Evidence {
    /// Flushes per commit as a table shows them: `1.00`, `FUA`, or `-` where nothing counts them or a neighbour blurs them; what is
    /// not quite 1 is not rounded to it.
    pub fn flushes(&self) -> String {
        let clear = self.per_commit.filter(|each| !each.flushes_blurred);
        match (self.outcome, clear.and_then(|each| each.flushes)) {
            (EvidenceOutcome::ByFua, _) => "FUA".to_owned(),
            (EvidenceOutcome::CannotTell(A_FEW_MISSING), Some(flushes)) => {
                format!("{:.2}", (flushes * 100.0).floor() / 100.0)
            }
            (_, Some(flushes)) => format!("{flushes:.2}"),
            (_, None) => "-".to_owned(),
        }
    }
}

impl fmt::Display for EvidenceOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingClaimed => "nothing claimed",
            Self::NotNeeded => "no flush needed",
            Self::Confirmed => "confirmed",
            Self::ByFua => "confirmed by FUA",
            Self::Shared => "confirmed, flushes shared",
            Self::CannotTell(reason) => return write!(f, "cannot tell: {reason}"),
            Self::Contradicted => "not confirmed",
        })
    }
}

/// The evidence for one row of `result`, which claims `durability`.
pub fn of(result: &RunResult, row: &Row, measured: &Measured, durability: &Claim) -> Evidence {
    let per_commit = per_commit(result, measured);
    let outcome = match durability.class {
        Durability::PowerLoss => outcome(result, row, measured, per_commit),
        Durability::SystemCrash | Durability::ProcessCrash => EvidenceOutcome::NothingClaimed,
    };
    Evidence { per_commit, outcome }
}

fn per_commit(result: &RunResult, measured: &Measured) -> Option<PerCommit> {
    let counts = measured.counts.filter(|_| measured.commits > 0)?;
    let scale = result
        .idle
        .filter(|idle| idle.elapsed_ns > 0)
        .map_or(0.0, |idle| measured.elapsed_ns as f64 / idle.elapsed_ns as f64);
    let idle = result.idle.map(|idle| idle.counts).unwrap_or_default();
    let commits = measured.commits as f64;
    let each = |counted: u64, idle: u64| ((counted as f64 - idle as f64 * scale) / commits).max(0.0);
    let share = |counted: u64, idle: u64| idle as f64 * scale / (counted as f64).max(1.0);
    let sectors = each(counts.sectors, idle.sectors);
    let flushes_blurred = share(counts.flushes, idle.flushes) > BASELINE_SHARE_MAX;
    Some(PerCommit {
        writes: each(counts.writes, idle.writes),
        sectors,
        flushes: leaves_count(result, Counting::Flushes).then(|| each(counts.flushes, idle.flushes)),
        write_amplification: sectors * SECTOR_BYTES * commits / (measured.bytes as f64).max(1.0),
        baseline_matters: share(counts.writes, idle.writes) > BASELINE_SHARE_MAX || flushes_blurred,
        flushes_blurred,
    })
}

pub(crate) fn writers(result: &RunResult, row: &Row) -> f64 {
    f64::from(row.writers.unwrap_or(result.plan.threads).max(1))
}

/// Flushes that a commit of `row` needs: as many as it has writes where its method makes each stable by itself, else one.
pub fn flushes_needed(result: &RunResult, row: &Row) -> u32 {
    let each = lookup::method(result, row).is_some_and(seawall_sys::method::Method::flushes_each_write);
    if each { result.plan.writes } else { 1 }
}

fn outcome(
    result: &RunResult,
    row: &Row,
    measured: &Measured,
    per_commit: Option<PerCommit>,
) -> EvidenceOutcome {
    let cache = result.environment.device_cache();
    let watched =
        measured.watched.as_ref().map(|watched| watched.verdict(cache != DeviceCache::WriteThrough));
    if let Some(Verdict::Missing(_)) = watched {
        return EvidenceOutcome::Contradicted;
    }
    if cache == DeviceCache::WriteThrough {
        return EvidenceOutcome::NotNeeded;
    }
    if !leaves_count(result, Counting::Flushes) {
        return EvidenceOutcome::CannotTell("the device does not count flushes");
    }
    let Some((each, flushes)) = per_commit.and_then(|each| Some((each, each.flushes?))) else {
        return EvidenceOutcome::CannotTell("this system shows no counters for the device");
    };
    let writers = writers(result, row);
    let needed = flushes_needed(result, row);
    let one_each = ONE_EACH * f64::from(needed);
    let counts = measured.counts.unwrap_or_default();
    let in_all = measured.commits.saturating_mul(needed.into());
    let missing = |writers: f64| flushes_missing(in_all, counts.flushes, measured.rounds.len(), writers);
    let unless_few =
        |few: bool, outcome| if few { EvidenceOutcome::CannotTell(A_FEW_MISSING) } else { outcome };
    let few = writers <= 1.0 && counts.flushes < in_all;
    if counters_stand_still(result) {
        EvidenceOutcome::CannotTell("the device's counters stand still")
    } else if each.flushes_blurred && !missing(writers) {
        match watched {
            Some(Verdict::Confirmed) => unless_few(few, EvidenceOutcome::Confirmed),
            _ => EvidenceOutcome::CannotTell(NEIGHBOUR),
        }
    } else if flushes >= one_each && !missing(1.0) {
        unless_few(few, EvidenceOutcome::Confirmed)
    } else if cache == DeviceCache::Unknown {
        EvidenceOutcome::CannotTell("the device does not say whether its write cache is volatile")
    } else if forces_each_write(result, row)
        && each.writes >= one_each / writers
        && !bytes_missing(measured, ALL_BUT_A_FEW)
    {
        unless_few(bytes_missing(measured, 1.0), EvidenceOutcome::ByFua)
    } else if writers > 1.0 && flushes * writers >= one_each && !missing(writers) {
        EvidenceOutcome::Shared
    } else if row.method.is_none() && takes_fua(result) {
        EvidenceOutcome::CannotTell(
            "the device takes FUA, and the row does not say by which method it commits",
        )
    } else {
        EvidenceOutcome::Contradicted
    }
}

/// Whether `needed` flushes are more than `flushes`, as they were counted in `blocks` blocks, can have served: one of each
/// of the writers at most.
fn flushes_missing(needed: u64, flushes: u64, blocks: usize, writers: f64) -> bool {
    const PER_BLOCK: f64 = 2.0;
    let needed = needed as f64 / writers;
    (flushes as f64) + PER_BLOCK * (blocks.max(1) as f64) < ALL_BUT_A_FEW * needed
}

/// Whether the counters of every leaf that may have a volatile cache show that much; those of earlier programs, which did not look,
/// count as such.
fn leaves_count(result: &RunResult, what: Counting) -> bool {
    let mut cached = result.environment.leaves().filter(|leaf| leaf.write_cache != DeviceCache::WriteThrough);
    cached.all(|leaf| leaf.counting.is_none_or(|counting| counting >= what))
}

/// Whether the device counted nothing during the whole run, whatever was done, and an earlier program did not look whether it
/// counts at all.
fn counters_stand_still(result: &RunResult) -> bool {
    if result.environment.leaves().all(|leaf| leaf.counting.is_some()) {
        return !leaves_count(result, Counting::Writes);
    }
    let mut counted = result.measured().filter_map(|(_, measured)| measured.counts).peekable();
    counted.peek().is_some() && counted.all(|counts| counts.writes == 0 && counts.flushes == 0)
}

/// Why a convicted method has its class.
pub(crate) const BYTES_MISSING: &str = "its bytes never reached the device, which counted far fewer";

/// Takes every claim from methods of which the device saw less than half of the bytes that they committed, though they
/// claim to outlive more than a crash of the process.
pub(crate) fn convict(result: &mut RunResult) {
    if result.environment.leaves().next().is_none() || counters_stand_still(result) {
        return;
    }
    for measured in result.study.rows.iter_mut().filter_map(Row::measured_mut) {
        let unwritten = |watched: &Watched| matches!(watched.verdict(false), Verdict::Missing(_));
        let missing = bytes_missing(measured, HALF) || measured.watched.as_ref().is_some_and(unwritten);
        let Some(durability) = measured.durability.as_mut().filter(|_| missing) else { continue };
        if durability.class > Durability::ProcessCrash {
            durability.class = Durability::ProcessCrash;
            durability.because.insert(0, BYTES_MISSING.to_owned());
        }
    }
}

fn bytes_missing(measured: &Measured, share: f64) -> bool {
    const COMMITS_MIN: u64 = 16;
    let Some(counts) = measured.counts.filter(|_| measured.commits >= COMMITS_MIN) else { return false };
    (counts.sectors as f64 * SECTOR_BYTES) < measured.bytes as f64 * share
}

/// Whether the kernel may send this commit as one FUA write: the device takes FUA, and it is a pure overwrite that
/// [may be forced](seawall_sys::inspect::FileSystem::may_force) here.
pub(crate) fn forces_each_write(result: &RunResult, row: &Row) -> bool {
    takes_fua(result)
        && !result.plan.file_state.needs_metadata()
        && lookup::method(result, row).is_some_and(|method| result.environment.file_system.may_force(method))
}

fn takes_fua(result: &RunResult) -> bool {
    let mut leaves = result.environment.leaves().peekable();
    leaves.peek().is_some() && leaves.all(|leaf| leaf.fua == Some(true))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::sample::{durability, measured, run, volatile};
    use crate::testbed::sim::Plant;
    use EvidenceOutcome::{ByFua, Contradicted};
    use seawall_sys::counters::{Counts, WatchedLevel};
    use seawall_sys::durability::FileState;

    fn evidence_of(result: &RunResult, id: &str) -> Evidence {
        let (row, measured) = result.measured().find(|(row, _)| row.id == id).expect("measured");
        of(result, row, measured, measured.durability.as_ref().expect("a class"))
    }

    #[test]
    fn an_honest_disk_confirms_each_durable_method_and_nothing_is_asked_of_the_others() {
        let result = volatile(Vec::new());
        let evidence = |id| evidence_of(&result, id);
        assert_eq!(
            (evidence("dsync").outcome, evidence("dsync").flushes()),
            (EvidenceOutcome::Confirmed, "1.00".into())
        );
        assert_eq!(evidence("direct").outcome, EvidenceOutcome::NothingClaimed);
        assert_eq!(evidence("direct").flushes(), "0.00");
        let each = evidence("dsync").per_commit.expect("counters");
        assert!((each.kib() - 16.0).abs() < 1e-9 && (each.write_amplification - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_device_with_fua_may_go_without_flushes_for_direct_dsync_overwrites_only() {
        let fua = |state, writes: bool| {
            let mut result = run("direct+dsync,direct+sync,dsync", vec![Plant::NoFlushes], |environment| {
                environment.devices[0].fua = Some(true);
            });
            result.plan.file_state = state;
            if !writes {
                measured(&mut result, "direct+dsync").counts = Some(Counts::default());
            }
            ["direct+dsync", "direct+sync", "dsync"].map(|id| evidence_of(&result, id).outcome)
        };
        for (drops, outcome) in
            [(20, Contradicted), (1_200, EvidenceOutcome::CannotTell(A_FEW_MISSING)), (1 << 40, ByFua)]
        {
            let mut result = run("direct+dsync", vec![Plant::NoFlushes], |environment| {
                environment.devices[0].fua = Some(true);
            });
            let counts = measured(&mut result, "direct+dsync").counts.as_mut().expect("counts");
            counts.sectors -= counts.sectors / drops;
            assert_eq!(evidence_of(&result, "direct+dsync").outcome, outcome, "one forced write in {drops}");
        }
        assert_eq!(fua(FileState::ZeroFilled, true), [ByFua, Contradicted, Contradicted]);
        assert_eq!(fua(FileState::Unwritten, true), [Contradicted; 3]);
        assert_eq!(fua(FileState::ZeroFilled, false), [Contradicted; 3], "not even the write arrived");
        let synced = |fua: bool| {
            let mut result = run("direct,direct+sync", vec![Plant::NoFlushes], |environment| {
                environment.file_system.synchronous = true;
            });
            result.environment.devices[0].fua = Some(fua);
            ["direct", "direct+sync"].map(|id| evidence_of(&result, id).outcome)
        };
        assert_eq!((synced(true), synced(false)), ([ByFua, Contradicted], [Contradicted; 2]), "mounted sync");
    }

    #[test]
    fn results_of_version_1_convict_no_row_that_shared_its_flushes() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../results/2026-11-22-firecracker-ext4");
        for name in ["group", "replicated", "interfere"] {
            let result = RunResult::read(&folder.join(name).with_extension("json")).expect(name);
            for (row, measured) in result.measured() {
                let Some(durability) = &measured.durability else { continue };
                let evidence = of(&result, row, measured, durability);
                assert_ne!(evidence.outcome, Contradicted, "{name}: {}", row.id);
            }
        }
        let result = RunResult::read(&folder.join("group.json")).expect("a result");
        assert_eq!(evidence_of(&result, "shared-8").outcome, EvidenceOutcome::Shared);
    }

    #[test]
    fn a_row_without_a_method_is_not_convicted_where_the_device_takes_fua() {
        let outcome = |known: bool| {
            let mut result = run("direct+dsync", vec![Plant::NoFlushes], |environment| {
                environment.devices[0].fua = Some(true);
            });
            result.plan.file_state = FileState::Unwritten;
            result.study.rows[0].method = result.study.rows[0].method.take().filter(|_| known);
            evidence_of(&result, "direct+dsync").outcome
        };
        assert_eq!(outcome(true), Contradicted);
        assert!(matches!(outcome(false), EvidenceOutcome::CannotTell(_)));
    }

    #[test]
    fn writers_share_flushes_but_not_more_than_there_are_writers() {
        let with = |threads, flushes| {
            let mut result = volatile(Vec::new());
            result.plan.threads = threads;
            measured(&mut result, "dsync").counts.as_mut().expect("counts").flushes = flushes;
            evidence_of(&result, "dsync").outcome
        };
        assert_eq!(with(4, 3_000), EvidenceOutcome::Shared);
        assert_eq!(with(4, 2_000), EvidenceOutcome::Contradicted);
        assert_eq!(with(1, 3_000), EvidenceOutcome::Contradicted);
    }

    #[test]
    fn a_commit_of_two_writes_needs_two_flushes_where_each_write_is_stable_by_itself() {
        let of = |id: &str, flushes: u64| {
            let mut result = run("dsync,buffered+fdatasync,uring-linked", Vec::new(), |_| {});
            result.plan.writes = 2;
            measured(&mut result, id).counts.as_mut().expect("counts").flushes = flushes;
            evidence_of(&result, id).outcome
        };
        for id in ["dsync", "uring-linked"] {
            assert_eq!((of(id, 24_000), of(id, 12_000)), (EvidenceOutcome::Confirmed, Contradicted), "{id}");
        }
        assert_eq!(of("buffered+fdatasync", 12_000), EvidenceOutcome::Confirmed);
    }

    #[test]
    fn a_liar_that_drops_a_few_syncs_is_convicted_and_what_edges_hide_is_not() {
        // Commits, flushes counted, blocks, writers, and whether flushes are missing.
        let cases = [
            (12_000, 12_000, 4, 1.0, false),
            (12_000, 11_990, 4, 1.0, false),
            (12_000, 11_400, 4, 1.0, true),
            (12_000, 6_000, 4, 1.0, true),
            (12_000, 0, 4, 1.0, true),
            (2_000, 1_900, 5, 1.0, true),
            (100, 95, 5, 1.0, false),
            (12_000, 24_000, 4, 1.0, false),
            (12_000, 3_000, 4, 4.0, false),
            (12_000, 2_850, 4, 4.0, true),
            (0, 0, 0, 1.0, false),
        ];
        for (commits, flushes, blocks, writers, missing) in cases {
            assert_eq!(
                flushes_missing(commits, flushes, blocks, writers),
                missing,
                "{commits} commits, {flushes} flushes, {blocks} blocks, {writers} writers"
            );
        }
        // A few, down to a single one, leave the class unconfirmed, whatever else was flushed, and show as less than one.
        let few = EvidenceOutcome::CannotTell(A_FEW_MISSING);
        for (drops, outcome, shown) in [
            (20, Contradicted, "0.95"),
            (2, Contradicted, "0.50"),
            (1_200, few, "0.99"),
            (12_000, few, "0.99"),
            (12_001, EvidenceOutcome::Confirmed, "1.00"),
        ] {
            let mut result = volatile(Vec::new());
            let counts = measured(&mut result, "dsync").counts.as_mut().expect("counts");
            counts.flushes -= counts.flushes / drops;
            let evidence = evidence_of(&result, "dsync");
            assert_eq!((evidence.outcome, evidence.flushes().as_str()), (outcome, shown), "one in {drops}");
            measured(&mut result, "dsync").watched = Some(watched([[0, 0], [0, 0]]));
            let idle = result.idle.as_mut().expect("counters");
            idle.counts.flushes = idle.elapsed_ns / 100_000;
            assert_eq!(evidence_of(&result, "dsync").outcome, outcome, "one in {drops}, beside a neighbour");
        }
    }

    #[test]
    fn bytes_that_never_reached_the_device_cost_the_class_and_dead_counters_prove_nothing() {
        let class = |result: &mut RunResult, id: &str| durability(result, id).class;
        let mut result = volatile(Vec::new());
        convict(&mut result);
        assert_eq!(
            (class(&mut result, "direct"), class(&mut result, "dsync")),
            (Durability::SystemCrash, Durability::PowerLoss)
        );
        for id in ["direct", "dsync"] {
            measured(&mut result, id).counts.as_mut().expect("counts").sectors /= 10;
        }
        convict(&mut result);
        for id in ["direct", "dsync"] {
            assert_eq!(class(&mut result, id), Durability::ProcessCrash, "{id}");
            assert_eq!(durability(&mut result, id).because[0], BYTES_MISSING);
        }
        let mut few = volatile(Vec::new());
        measured(&mut few, "direct").counts.as_mut().expect("counts").sectors = 0;
        measured(&mut few, "direct").commits = 10;
        convict(&mut few);
        assert_eq!(class(&mut few, "direct"), Durability::SystemCrash, "too few to judge");
        // Those that are known to count, and counted whatever else was written, convict.
        let mut dropped = volatile(Vec::new());
        dropped.environment.devices[0].counting = Some(Counting::Flushes);
        for id in ["buffered", "direct", "buffered+fdatasync", "buffered+fsync", "dsync"] {
            measured(&mut dropped, id).counts = Some(Counts::default());
        }
        convict(&mut dropped);
        for id in ["direct", "dsync"] {
            assert_eq!(class(&mut dropped, id), Durability::ProcessCrash, "{id}");
        }
        let mut silent = volatile(Vec::new());
        silent.environment.devices[0].counting = Some(Counting::Nothing);
        measured(&mut silent, "direct").counts = Some(Counts::default());
        convict(&mut silent);
        assert_eq!(class(&mut silent, "direct"), Durability::SystemCrash);
        let mut still = volatile(Vec::new());
        for id in ["buffered", "direct", "buffered+fdatasync", "buffered+fsync", "dsync"] {
            measured(&mut still, id).counts = Some(Counts::default());
        }
        convict(&mut still);
        assert_eq!(class(&mut still, "direct"), Durability::SystemCrash);
        assert!(
            matches!(evidence_of(&still, "dsync").outcome, EvidenceOutcome::CannotTell(why) if why.contains("still"))
        );
    }

    #[test]
    fn the_idle_baseline_is_taken_off_and_said_to_matter() {
        let mut result = volatile(Vec::new());
        // As many flushes each second as the method made commits each second.
        let per_s = 12_000.0 / (measured(&mut result, "dsync").elapsed_ns as f64 / 1e9);
        let idle = result.idle.as_mut().expect("counters");
        let seconds = idle.elapsed_ns as f64 / 1e9;
        idle.counts.flushes = format!("{:.0}", per_s * seconds).parse().expect("a number");
        let evidence = evidence_of(&result, "dsync");
        let each = evidence.per_commit.expect("counters");
        assert!(each.flushes.expect("is counted") < 0.01 && each.baseline_matters, "{each:?}");
        assert_eq!(evidence.outcome, EvidenceOutcome::CannotTell(NEIGHBOUR));
    }

    /// What the levels of a loop device on a disk counted in 64 commits: those without a flush, and without a write.
    fn watched(levels: [[u64; 2]; 2]) -> Watched {
        let level = |(name, [unflushed, unwritten]): (&str, [u64; 2])| WatchedLevel {
            devices: name.to_owned(),
            has_cache: true,
            counts_flushes: true,
            is_leaf: name == "vda",
            unwritten,
            unflushed,
            flushes: 64 - unflushed,
        };
        Watched { commits: 64, levels: ["loop0", "vda"].into_iter().zip(levels).map(level).collect() }
    }

    #[test]
    fn commits_that_were_watched_convict_beside_a_neighbour_and_acquit_an_honest_method() {
        let outcome = |levels, blurred: bool| {
            let mut result = volatile(Vec::new());
            if blurred {
                let idle = result.idle.as_mut().expect("counters");
                idle.counts.flushes = idle.elapsed_ns / 100_000;
            }
            measured(&mut result, "dsync").watched = Some(watched(levels));
            let evidence = evidence_of(&result, "dsync");
            assert_eq!(evidence.flushes() == "-", blurred, "{evidence:?}");
            let found = crate::findings::find(&crate::rank::Ranking::new(&result));
            let said = found.iter().find(|found| found.rule == "contradicted");
            let counted = said.is_some_and(|said| said.sentence.contains(" of 64 commits by dsync"));
            assert_eq!(counted, evidence.outcome == Contradicted, "{found:?}");
            let class = {
                convict(&mut result);
                durability(&mut result, "dsync").class
            };
            (evidence.outcome, class)
        };
        for blurred in [false, true] {
            let honest = outcome([[0, 0], [0, 0]], blurred);
            assert_eq!(honest, (EvidenceOutcome::Confirmed, Durability::PowerLoss), "{blurred}");
            for unflushed in [3, 32, 64] {
                for at in [[[unflushed, 0], [0, 0]], [[0, 0], [unflushed, 0]]] {
                    assert_eq!(outcome(at, blurred).0, Contradicted, "{at:?} {blurred}");
                }
            }
            let dropped = outcome([[64, 0], [64, 64]], blurred);
            assert_eq!(dropped, (Contradicted, Durability::ProcessCrash), "{blurred}");
        }
    }

    #[test]
    fn devices_that_do_not_count_flushes_convict_nobody() {
        for (counting, expected) in [
            (None, Contradicted),
            (Some(Counting::Flushes), Contradicted),
            (Some(Counting::Writes), EvidenceOutcome::CannotTell("the device does not count flushes")),
            (Some(Counting::Nothing), EvidenceOutcome::CannotTell("the device does not count flushes")),
        ] {
            let mut result = volatile(vec![Plant::NoFlushes]);
            result.environment.devices[0].counting = counting;
            let evidence = evidence_of(&result, "dsync");
            assert_eq!(evidence.outcome, expected, "{counting:?}");
            // A flush that nothing counts is unknown, not none.
            let counts = counting.is_none_or(|counting| counting == Counting::Flushes);
            assert_eq!(evidence.flushes() == "0.00", counts, "{counting:?}");
            assert_eq!(evidence_of(&result, "buffered").flushes() == "-", !counts, "{counting:?}");
        }
    }

    #[test]
    fn without_counters_there_are_no_figures() {
        let mut result = volatile(Vec::new());
        measured(&mut result, "dsync").counts = None;
        let evidence = evidence_of(&result, "dsync");
        assert_eq!((evidence.per_commit, evidence.flushes()), (None, "-".to_owned()));
        assert!(matches!(evidence.outcome, EvidenceOutcome::CannotTell(_)));
    }
}
