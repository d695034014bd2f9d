//! Findings about disturbances: CPU waits, neighbours' I/O, drift and runs that are too short.
//!
//! Invariant: thresholds are constants next to the rule that uses them, so that a finding can be checked.

use super::{Found, Severity, say, shown};
use crate::figures::{bytes, count, duration_ns, listing, percent, plural, rate, significant};
use crate::judgement::capped;
use crate::latency::Percentile;
use crate::rank::{EffectiveClass, Ranked, Ranking, ToBest};
use crate::row::Round;
use crate::settle::Busy;
use crate::study::Study;
use seawall_sys::durability::{DeviceCache, Medium};

/// Share of slow commits' time, spent waiting for a CPU, above which the disk is not to blame.
pub(crate) const CPU_WAIT_SHARE_MAX: f64 = 0.2;

/// Whether commits of `row` waited for a CPU more than they may, and how much: share of the time of slow ones, or of all
/// where too few were slow.
pub(super) fn tail_wait(row: &Ranked<'_>) -> Option<f64> {
    row.measured.blamed_wait_share().filter(|share| *share > CPU_WAIT_SHARE_MAX)
}

/// The rows whose slow commits waited for a CPU, with the share. Baselines that never leave memory wait for
/// nothing else, so they count only where nothing durable was measured.
pub(super) fn waiting<'a, 'b>(ranking: &'b Ranking<'a>) -> Vec<(&'b Ranked<'a>, f64)> {
    let durable = ranking.rows.iter().any(|row| row.class <= EffectiveClass::NotConfirmed);
    ranking
        .rows
        .iter()
        .filter(|row| !durable || row.class <= EffectiveClass::NotConfirmed)
        .filter_map(|row| Some((row, tail_wait(row)?)))
        .collect()
}

pub(super) fn cpu_wait(ranking: &Ranking<'_>) -> Found {
    if !ranking.result.study.ranked {
        return operations_waited(&ranking.result.study);
    }
    let waiting = waiting(ranking);
    let (worst, share) = waiting.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let measured = worst.measured;
    let mean_ns = |ns: u64| duration_ns(ns / measured.tail.commits.max(1));
    let others = match waiting.len() - 1 {
        0 => String::new(),
        others => format!(" {} did the same.", plural(others as u64, "other method", "other methods")),
    };
    let all =
        measured.wait_share().filter(|share| *share > CPU_WAIT_SHARE_MAX).map_or(String::new(), |share| {
            format!(
                " Over all its commits it was {}: neither are rate and mean the disk's alone.",
                percent(share.min(1.0))
            )
        });
    let slow =
        measured.tail.wait_share().filter(|slow| measured.tail.commits >= 3 && *slow > CPU_WAIT_SHARE_MAX);
    let what = match slow {
        Some(slow) => format!(
            "Slow commits waited for a CPU, not for the disk: {} of the time of those above {}'s p99 ({} of {} on average).{all}",
            percent(slow),
            worst.id(),
            mean_ns(measured.tail.wait_ns),
            mean_ns(measured.tail.latency_ns)
        ),
        None => format!(
            "Commits waited for a CPU, not for the disk: {} of the time of all commits by {}.",
            percent(*share),
            worst.id()
        ),
    };
    if let Some(limit) = capped::cpu_limit(ranking) {
        return say(
            Severity::Caution,
            format!(
                "{what}{others} A limit of the control group bounds this process ({limit}): what waits is mostly throttled."
            ),
            "raise the limit of CPU time (cpu.max, `docker --cpus`, a pod's limit), or measure with the limit that production has",
        );
    }
    say(
        Severity::Caution,
        format!("{what}{others}"),
        "measure on an idle machine or pin the writers (--pin); in production give the journal's thread a CPU of its own",
    )
}

/// The largest share of its commits' time that a row which is judged waited for a CPU; `None` where that is not counted.
pub(super) fn own_wait(ranking: &Ranking<'_>) -> Option<f64> {
    let durable = ranking.rows.iter().filter(|row| row.class <= EffectiveClass::NotConfirmed);
    durable.filter_map(|row| row.measured.wait_share()).map(|share| share.min(1.0)).reduce(f64::max)
}

pub(super) fn capped(ranking: &Ranking<'_>) -> Found {
    let cap = capped::of(ranking)?;
    say(
        Severity::Caution,
        format!(
            "{} {} it, though the fastest commits took a fraction of the mean. Ratios of methods say nothing here.",
            cap.sentence(),
            if cap.rows == 1 { "One row made".to_owned() } else { format!("{} rows made", cap.rows) }
        ),
        "raise the limit (the volume's type or size, io.max), or commit more in one write; waiting for an idle machine changes nothing",
    )
}

/// The same of rows that are no ranked methods.
fn operations_waited(study: &Study) -> Found {
    let waiting: Vec<(&str, f64)> = study
        .measured()
        .filter_map(|(row, measured)| Some((shown(row), measured.tail.wait_share()?)))
        .filter(|(_, share)| *share > CPU_WAIT_SHARE_MAX)
        .collect();
    let (_, most) = *waiting.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let ids: Vec<&str> = waiting.iter().map(|(id, _)| *id).collect();
    say(
        Severity::Caution,
        format!(
            "Slow operations (those above p99) waited for a CPU, not for the disk, in {}: up to {} of their time.",
            listing(&ids, 4),
            percent(most)
        ),
        "stop other work or give the program a CPU of its own (--pin), then measure again",
    )
}

/// Medians on the ticks of the scheduler are its figures, not the disk's.
pub(super) fn ticks(ranking: &Ranking<'_>) -> Found {
    let waiting = waiting(ranking);
    let on_tick: Vec<(&str, u64, Tick)> =
        waiting.iter().filter_map(|(row, _)| Some((row.id(), row.p50_ns(), tick(row.p50_ns())?))).collect();
    let (id, p50_ns, tick) = on_tick.first()?;
    let others = match on_tick.len() - 1 {
        0 => String::new(),
        others => format!(", and of {}", plural(others as u64, "other method", "other methods")),
    };
    say(
        Severity::Caution,
        format!(
            "The median of {id}{others} lies on the scheduler's clock: {} is {} of {} ({} Hz). Its thread got a CPU when the tick gave it one; the disk's time is not to be seen.",
            duration_ns(*p50_ns),
            plural(tick.times, "tick", "ticks"),
            duration_ns(tick.ns),
            1_000_000_000 / tick.ns
        ),
        "measure on an idle machine, or pin the writers (--pin)",
    )
}

/// So many ticks of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tick {
    times: u64,
    ns: u64,
}

/// The ticks that `p50_ns` is a multiple of, to 1.5 %: those of kernels at 100, 250 and 1,000 Hz, up to three of the
/// shorter ones, because every long time is near a multiple of a short one.
fn tick(p50_ns: u64) -> Option<Tick> {
    const TICKS: [(u64, u64); 3] = [(10_000_000, 3), (4_000_000, 3), (1_000_000, 2)];
    let fits = |ns: u64, times: u64| (ns * times).abs_diff(p50_ns) * 1000 <= ns * times * 15;
    TICKS.into_iter().find_map(|(ns, most)| {
        let times = (1..=most).find(|times| fits(ns, *times))?;
        Some(Tick { times, ns })
    })
}

pub(super) fn interrupted(ranking: &Ranking<'_>) -> Found {
    let result = ranking.result;
    if result.complete {
        return None;
    }
    say(
        Severity::Caution,
        format!(
            "The run was interrupted in round {} of {}: rows have unequal shares of it.",
            result.order.len(),
            result.plan.rounds
        ),
        "run it to its end before comparing rows; figures of whole rounds are sound, only fewer",
    )
}

pub(super) fn busy(ranking: &Ranking<'_>) -> Found {
    let environment = &ranking.result.environment;
    let busy = Busy::of(&environment.pressure, environment.cpus)?.words(environment.cpus);
    // What this program's own threads waited decides: a host's pressure is not its containers'.
    if let Some(share) = own_wait(ranking).filter(|share| *share <= CPU_WAIT_SHARE_MAX) {
        return say(
            Severity::Note,
            format!(
                "The machine was busy when the run began ({busy}), but commits waited for a CPU in {} of their time only.",
                percent(share)
            ),
            "the figures stand; on a quieter machine tails may be shorter",
        );
    }
    say(
        Severity::Caution,
        format!("The machine was busy when the run began: {busy}."),
        "stop other work and run again",
    )
}

pub(super) fn stolen(ranking: &Ranking<'_>) -> Found {
    const STOLEN_PERCENT_MAX: f64 = 2.0;
    let stolen =
        ranking.result.environment.pressure.stolen_percent.filter(|percent| *percent > STOLEN_PERCENT_MAX)?;
    say(
        Severity::Caution,
        format!(
            "The hypervisor took {stolen:.1} % of this machine's CPU time since boot for its other guests."
        ),
        "expect longer tails than the disk's own; use a machine with dedicated CPUs",
    )
}

pub(super) fn not_idle(ranking: &Ranking<'_>) -> Found {
    const WRITES_PER_S_MAX: f64 = 20.0;
    const FLUSHES_PER_S_MAX: f64 = 5.0;
    let idle = ranking.result.idle.filter(|idle| idle.elapsed_ns > 0)?;
    let seconds = idle.elapsed_ns as f64 / 1e9;
    let (writes_per_s, flushes_per_s) =
        (idle.counts.writes as f64 / seconds, idle.counts.flushes as f64 / seconds);
    if writes_per_s < WRITES_PER_S_MAX && flushes_per_s < FLUSHES_PER_S_MAX {
        return None;
    }
    let claims = |row: &&Ranked<'_>| row.class <= EffectiveClass::NotConfirmed;
    let blurred = ranking
        .rows
        .iter()
        .filter(claims)
        .any(|row| row.evidence.per_commit.is_some_and(|each| each.baseline_matters));
    let so = if blurred { ", but blurs it: counts per commit prove little here" } else { "" };
    say(
        Severity::Caution,
        format!(
            "A neighbour uses the device: {} writes and {} flushes a second while nothing was measured. It is taken off the evidence{so}.",
            rate(writes_per_s),
            rate(flushes_per_s)
        ),
        "stop what writes there (`iotop`, `pidstat -d`), or measure on a device of its own",
    )
}

pub(super) fn drift(ranking: &Ranking<'_>) -> Found {
    const TIMES_MAX: f64 = 1.5;
    // What waited for a CPU says nothing of the device.
    let best = ranking.best_durable().filter(|best| tail_wait(best).is_none())?;
    if capped::of(ranking).is_some() {
        return None;
    }
    let rounds: Vec<&Round> = best.measured.rounds.iter().filter(|round| round.commits >= 10).collect();
    if rounds.len() < 3 {
        return None;
    }
    let slowest = rounds.iter().max_by_key(|round| round.p50_ns)?;
    let fastest = rounds.iter().min_by_key(|round| round.p50_ns)?;
    let times = slowest.p50_ns as f64 / (fastest.p50_ns as f64).max(1.0);
    if times < TIMES_MAX {
        return None;
    }
    let falls = rounds.windows(2).all(|pair| pair[0].p50_ns <= pair[1].p50_ns);
    let remedy = if falls {
        "it got slower from round to round: run longer (--time 10m) to see where it levels off; burst credits and caches run out"
    } else {
        "run again when nothing else uses the device; the ratios between methods hold, since rounds are paired"
    };
    say(
        Severity::Caution,
        format!(
            "The device changed during the run: {}'s median was {} in round {} and {} in round {}.",
            best.id(),
            duration_ns(fastest.p50_ns),
            fastest.round + 1,
            duration_ns(slowest.p50_ns),
            slowest.round + 1
        ),
        remedy,
    )
}

pub(super) fn few_samples(ranking: &Ranking<'_>) -> Found {
    let best = ranking.best_durable()?;
    let latency = best.measured.main();
    let sample = latency.percentile(99.9);
    if matches!(sample, Percentile::Sound(_)) {
        return None;
    }
    let mark = if sample == Percentile::Refused { "refused (-)" } else { "uncertain (~)" };
    say(
        Severity::Note,
        format!(
            "{} of {} are too few for its p99.9, which takes 10,000: it is {mark}.",
            plural(latency.count(), "commit", "commits"),
            best.id()
        ),
        "run longer (--time), or fewer methods (--methods)",
    )
}

pub(super) fn single_round(ranking: &Ranking<'_>) -> Found {
    if ranking.result.plan.rounds > 1 || ranking.rows.len() < 2 {
        return None;
    }
    say(
        Severity::Note,
        "One round cannot show whether a difference is noise: the ratios have no interval.".to_owned(),
        "give --rounds 5 or more",
    )
}

pub(super) fn clock(ranking: &Ranking<'_>) -> Found {
    const SHARE_MAX: f64 = 0.2;
    let clock = ranking.result.environment.clock;
    let fastest = ranking.rows.iter().min_by_key(|row| row.p50_ns())?;
    let p50_ns = fastest.p50_ns() as f64;
    let coarse = clock.tick_ns as f64 > p50_ns * SHARE_MAX;
    let costly = clock.read_ns * 2.0 > p50_ns * SHARE_MAX;
    if !coarse && !costly {
        return None;
    }
    say(
        Severity::Note,
        format!(
            "The clock steps by {} and costs {} a reading, against {} of {}: such a figure is good to a few steps only.",
            duration_ns(clock.tick_ns),
            crate::figures::duration(clock.read_ns),
            duration_ns(fastest.p50_ns()),
            fastest.id()
        ),
        "compare the fast baselines by commits/s; durable rows are not affected if they are ten times slower",
    )
}

pub(super) fn queueing(ranking: &Ranking<'_>) -> Found {
    let best = ranking.best_durable()?;
    let response = best.measured.latency("response")?;
    let (seen_ns, own_ns) = (response.percentile(99.0).ns()?, best.measured.main().percentile(99.0).ns()?);
    if seen_ns < own_ns.saturating_mul(2) {
        return None;
    }
    say(
        Severity::Caution,
        format!(
            "At this rate commits queue: from scheduled arrival to durable {}'s p99 is {}, though a commit's own is {}.",
            best.id(),
            duration_ns(seen_ns),
            duration_ns(own_ns)
        ),
        "size by the response, not by the latency: lower --rate or commit in groups",
    )
}

/// Whether an interval says next to nothing.
fn is_wide(to_best: &ToBest) -> bool {
    const HALF_WIDTH_MAX: f64 = 0.5;
    match to_best {
        ToBest::Ratio(ratio) => ratio.half_width() > HALF_WIDTH_MAX * ratio.estimate,
        ToBest::Best | ToBest::Single(_) => false,
    }
}

/// Whether most of the ratios among the durable methods say next to nothing.
pub(super) fn is_too_noisy(ranking: &Ranking<'_>) -> bool {
    let same = ranking.of(EffectiveClass::PowerLoss).skip(1).filter(|row| row.to_best.within_noise()).count();
    let wide = ranking.of(EffectiveClass::PowerLoss).filter(|row| is_wide(&row.to_best)).count();
    same > 0 && wide * 2 > same
}

pub(super) fn same_within_noise(ranking: &Ranking<'_>) -> Found {
    let same: Vec<&str> = ranking
        .of(EffectiveClass::PowerLoss)
        .skip(1)
        .filter(|row| row.to_best.within_noise())
        .map(Ranked::id)
        .collect();
    let best = ranking.best_durable().filter(|_| !same.is_empty() && capped::of(ranking).is_none())?;
    let wide = ranking.of(EffectiveClass::PowerLoss).filter(|row| is_wide(&row.to_best)).count();
    if is_too_noisy(ranking) {
        return say(
            Severity::Caution,
            format!(
                "Too noisy to rank: {wide} of {} ratios are known to no better than ±50 %, with {} within noise of {} (≈).",
                ranking.of(EffectiveClass::PowerLoss).count() - 1,
                plural(same.len() as u64, "method", "methods"),
                best.id()
            ),
            "measure on an idle machine, or with more --rounds and fewer --methods",
        );
    }
    say(
        Severity::Note,
        format!("Same within noise as {} (≈ in the table): {}.", best.id(), listing(&same, 3)),
        "choose among them by what your software supports, or add --rounds",
    )
}

fn span_ns(ranking: &Ranking<'_>) -> u64 {
    let rounds = || ranking.rows.iter().flat_map(|row| &row.measured.rounds);
    let end_ns = rounds().map(|round| round.start_ns + round.elapsed_ns).max().unwrap_or(0);
    end_ns - rounds().map(|round| round.start_ns).min().unwrap_or(0)
}

/// A virtual disk may live on burst credits.
pub(super) fn burst_credits(ranking: &Ranking<'_>) -> Found {
    const SPAN_MIN_NS: u64 = 600_000_000_000;
    let environment = &ranking.result.environment;
    let span_ns = span_ns(ranking);
    let block = environment.file_system.medium == Medium::Block;
    if environment.hypervisor.is_none() || !block || span_ns > SPAN_MIN_NS || ranking.best_durable().is_none()
    {
        return None;
    }
    say(
        Severity::Note,
        format!("{} is shorter than a cloud volume's burst credits last.", duration_ns(span_ns)),
        "for sizing, run --time 30m and look at latency over time",
    )
}

pub(super) fn write_buffer(ranking: &Ranking<'_>) -> Found {
    const BYTES_PER_S_MIN: f64 = 200e6;
    const BYTES_MAX: u64 = 64 << 30;
    let environment = &ranking.result.environment;
    let best = ranking.best_durable()?;
    let written: u64 = ranking.rows.iter().map(|row| row.measured.bytes).sum();
    let flash = environment.leaves().any(|leaf| leaf.rotational == Some(false));
    let consumer = environment.device_cache() == DeviceCache::WriteBack && environment.hypervisor.is_none();
    if !flash || !consumer || best.measured.bytes_per_s() < BYTES_PER_S_MIN || written > BYTES_MAX {
        return None;
    }
    say(
        Severity::Note,
        format!(
            "{} at {} MB/s fit into an SSD's SLC buffer: sustained writing may be several times slower.",
            bytes(written),
            significant(best.measured.bytes_per_s() / 1e6)
        ),
        "if the journal sustains such a rate, run --time 10m or longer",
    )
}

pub(super) fn small_journal(ranking: &Ranking<'_>) -> Found {
    const JOURNAL_BYTES_MIN: u64 = 16 << 20;
    let plan = &ranking.result.plan;
    let best = ranking.best_durable()?;
    if plan.journal_bytes >= JOURNAL_BYTES_MIN || best.measured.bytes < plan.journal_bytes * 4 {
        return None;
    }
    say(
        Severity::Note,
        format!(
            "The journal of {} was overwritten {} times: so small a file may live in the device's cache.",
            bytes(plan.journal_bytes),
            count(best.measured.bytes / plan.journal_bytes.max(1))
        ),
        "give a --journal of the size that your software uses",
    )
}

#[cfg(test)]
mod tests {
    use super::{Tick, tick};

    #[test]
    fn medians_on_ticks_are_recognised_and_others_are_not() {
        let cases = [
            (3_990_000, Some((1, 4_000_000))),
            (8_020_000, Some((2, 4_000_000))),
            (10_050_000, Some((1, 10_000_000))),
            (999_000, Some((1, 1_000_000))),
            (1_500_000, None),
            (3_700_000, None),
            (65_000, None),
            (0, None),
        ];
        for (p50_ns, expected) in cases {
            assert_eq!(tick(p50_ns), expected.map(|(times, ns)| Tick { times, ns }), "{p50_ns}");
        }
    }
}
