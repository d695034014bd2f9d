//! The finding that a method became slower for minutes: burst credits, a full write buffer, a neighbour.
//!
//! ```text
//!   commits/s ▔▔▔▔▔▔▔▔╲                        a fall: every window, but single ones, below 70 % of the median of
//!                      ▁▁▁▁▁▁▁▁▁▁▁▁▁           those before it, for a minute or more and three windows or more
//!             windows of the method's own blocks, which others' blocks separate
//! ```
//!
//! Invariants: a window without commits counts as slow and not as absent; what is short, a single stall or noise around a level,
//! is no fall; of several falls the longest is named.

use super::machine::tail_wait;
use super::{Found, Severity, say};
use crate::figures::{bytes, count, duration_ns, percent, rate};
use crate::ranges;
use crate::rank::{Ranked, Ranking};
use crate::row::{Measured, Round, Series, SeriesPoint};
use crate::scenario::commit::COMMITS_OVER_TIME;

/// A rate below this share of the one before is lower.
const SHARE_MAX: f64 = 0.7;
/// A shorter fall is a stall, nanoseconds.
const LASTING_NS: u64 = 60_000_000_000;
/// Windows of a fall, at least; and as many before it.
const WINDOWS_MIN: usize = 3;
/// The length of a window: a sixtieth of the time of the blocks, but no less, nanoseconds. A point of the series, of which a
/// window must hold several, is 3.2 s long at most in a block of half an hour.
const WINDOW_NS_MIN: u64 = 2_000_000_000;
const WINDOWS: u64 = 60;

/// A piece of a method's blocks, or several short blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Window {
    /// When it begins and ends, nanoseconds since the run began.
    at_ns: u64,
    end_ns: u64,
    /// How much of that the method had, nanoseconds.
    active_ns: u64,
    commits: u64,
}

impl Window {
    fn per_s(&self) -> f64 {
        self.commits as f64 * 1e9 / self.active_ns.max(1) as f64
    }
}

/// A time at a lower rate.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fall {
    /// From when to when, nanoseconds since the run began.
    at_ns: u64,
    end_ns: u64,
    to_the_end: bool,
    /// Commits a second before it and in it: the medians of the windows.
    before_per_s: f64,
    after_per_s: f64,
}

/// The blocks cut into windows, or put together to such.
fn windows(rounds: &[Round], points: &[SeriesPoint]) -> Vec<Window> {
    let all_ns = rounds.iter().fold(0_u64, |sum, round| sum.saturating_add(round.elapsed_ns));
    let window_ns = (all_ns / WINDOWS).max(WINDOW_NS_MIN);
    let mut pieces: Vec<Window> = Vec::new();
    for round in rounds {
        let parts = (round.elapsed_ns / window_ns).max(1);
        let edge = |part: u64| round.start_ns.saturating_add(round.elapsed_ns / parts * part);
        pieces.extend((0..parts).map(|part| {
            let (at_ns, end_ns) = (edge(part), edge(part + 1));
            Window { at_ns, end_ns, active_ns: end_ns - at_ns, commits: 0 }
        }));
    }
    for point in points {
        let after = pieces.partition_point(|piece| piece.at_ns <= point.at_ns);
        if let Some(piece) = after.checked_sub(1).and_then(|at| pieces.get_mut(at)) {
            piece.commits = piece.commits.saturating_add(point.commits);
        }
    }
    let mut windows: Vec<Window> = Vec::new();
    for piece in pieces {
        match windows.last_mut() {
            // Short of a window by no more than cutting makes it.
            Some(last) if last.active_ns < window_ns / 2 => {
                last.end_ns = piece.end_ns;
                last.active_ns = last.active_ns.saturating_add(piece.active_ns);
                last.commits = last.commits.saturating_add(piece.commits);
            }
            _ => windows.push(piece),
        }
    }
    windows
}

fn median(windows: &[Window]) -> f64 {
    let mut rates: Vec<f64> = windows.iter().map(Window::per_s).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}

/// The longest fall, if there is one.
fn fall(windows: &[Window]) -> Option<Fall> {
    let mut longest: Option<Fall> = None;
    let mut from = WINDOWS_MIN;
    while from < windows.len() {
        let before_per_s = median(&windows[..from]);
        let is_low = |window: &Window| window.per_s() < before_per_s * SHARE_MAX;
        // One window above does not end it, two do.
        let ends =
            (from..windows.len()).find(|at| windows[*at..].iter().take(2).all(|window| !is_low(window)));
        let end = ends.unwrap_or(windows.len());
        if end > from {
            let fallen = &windows[from..end];
            let (at_ns, end_ns) = (fallen[0].at_ns, fallen[fallen.len() - 1].end_ns);
            let after_per_s = median(fallen);
            let lasts = end - from >= WINDOWS_MIN && end_ns - at_ns >= LASTING_NS;
            let lower = is_low(&fallen[0]) && after_per_s < before_per_s * SHARE_MAX;
            if lasts && lower && longest.is_none_or(|known| known.end_ns - known.at_ns < end_ns - at_ns) {
                let to_the_end = end == windows.len();
                longest = Some(Fall { at_ns, end_ns, to_the_end, before_per_s, after_per_s });
            }
        }
        from = if longest.is_some_and(|known| known.at_ns == windows[from].at_ns) {
            end.max(from + 1)
        } else {
            from + 1
        };
    }
    longest
}

/// Commits and bytes of a row until then.
fn until(measured: &Measured, at_ns: u64) -> (u64, u64) {
    let before = points(measured).iter().filter(|point| point.at_ns < at_ns);
    let commits = before.fold(0_u64, |sum, point| sum.saturating_add(point.commits));
    let each = measured.bytes.checked_div(measured.commits).unwrap_or(0);
    (commits, commits.saturating_mul(each))
}

fn points(measured: &Measured) -> &[SeriesPoint] {
    let series = measured.series.iter().find(|one| one.name == COMMITS_OVER_TIME);
    series.map_or(&[], |series: &Series| &series.points)
}

/// The longest fall of the best durable method, if it became slower for a minute or more.
fn of_best<'b>(ranking: &'b Ranking<'_>) -> Option<(&'b Ranked<'b>, Fall)> {
    // What waited for a CPU says nothing of the device, and scheduled arrivals have the rate of their schedule.
    let best = ranking.best_durable().filter(|best| tail_wait(best).is_none())?;
    if ranking.result.plan.rate_per_s.is_some() || ranking.result.plan.workload.is_some() {
        return None;
    }
    let points = points(best.measured);
    if points.iter().all(|point| point.commits == 0) {
        return None;
    }
    Some((best, fall(&windows(&best.measured.rounds, points))?))
}

/// From when to when it was slower, and which method was, for a picture: nanoseconds since the run began.
pub(super) fn span<'b>(ranking: &'b Ranking<'_>) -> Option<(&'b str, u64, u64)> {
    of_best(ranking).map(|(best, fall)| (best.id(), fall.at_ns, fall.end_ns))
}

pub(super) fn for_minutes(ranking: &Ranking<'_>) -> Found {
    let (best, fall) = of_best(ranking)?;
    let written = ranking.rows.iter().map(|row| until(row.measured, fall.at_ns));
    let (commits, volume) =
        written.fold((0_u64, 0_u64), |sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)));
    let lasted = if fall.to_the_end {
        "until the end".to_owned()
    } else {
        format!("for {}", duration_ns(fall.end_ns - fall.at_ns))
    };
    let credits = ranges::burst_credits(ranking.result);
    let cause = credits.map_or_else(
        || "burst credits, an SSD's write buffer or a neighbour: size by the lower rate, and see whether it comes back after a pause".to_owned(),
        |credits| format!("{credits}; size by the lower rate"),
    );
    say(
        Severity::Caution,
        format!(
            "{} was slower {lasted}, from {} after the start on: {} commits/s instead of {}, {}. Until then {} commits of all methods had written {}.",
            best.id(),
            duration_ns(fall.at_ns),
            rate(fall.after_per_s),
            rate(fall.before_per_s),
            percent(fall.after_per_s / fall.before_per_s.max(f64::MIN_POSITIVE)),
            count(commits),
            bytes(volume)
        ),
        cause,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn of(rates: impl IntoIterator<Item = u64>) -> Vec<Window> {
        let window = |(index, per_s): (usize, u64)| {
            let at_ns = index as u64 * 10 * SECOND;
            Window { at_ns, end_ns: at_ns + 10 * SECOND, active_ns: 10 * SECOND, commits: per_s * 10 }
        };
        rates.into_iter().enumerate().map(window).collect()
    }

    fn level(windows: usize, per_s: u64) -> impl Iterator<Item = u64> + Clone {
        std::iter::repeat_n(per_s, windows)
    }

    #[test]
    fn a_steady_rate_stalls_slow_starts_and_noise_are_no_fall() {
        let noise = |seed: u64| {
            let mut random = fastrand::Rng::with_seed(seed);
            (0..180).map(move |_| random.u64(750..1250)).collect::<Vec<_>>()
        };
        let rows: [(&str, Vec<u64>); 8] = [
            ("nothing", Vec::new()),
            ("two windows", vec![1000, 10]),
            ("steady", level(180, 1000).collect()),
            ("one stall", level(90, 1000).chain(level(1, 0)).chain(level(89, 1000)).collect()),
            ("fifty seconds", level(90, 1000).chain(level(5, 300)).chain(level(85, 1000)).collect()),
            ("a slow start", level(20, 300).chain(level(160, 1000)).collect()),
            ("a little slower", level(90, 1000).chain(level(90, 750)).collect()),
            ("up and down", [1000, 1000, 200].into_iter().cycle().take(180).collect()),
        ];
        for (name, rates) in rows {
            assert_eq!(fall(&of(rates)), None, "{name}");
        }
        for seed in 0..200 {
            assert_eq!(fall(&of(noise(seed))), None, "noise {seed}");
        }
    }

    #[test]
    fn a_fall_has_its_time_its_rates_and_its_end() {
        let to_the_end = fall(&of(level(75, 4000).chain(level(105, 1200)))).expect("a fall");
        let expected = Fall {
            at_ns: 750 * SECOND,
            end_ns: 1800 * SECOND,
            to_the_end: true,
            before_per_s: 4000.0,
            after_per_s: 1200.0,
        };
        assert_eq!(to_the_end, expected);
        let rates = level(30, 4000).chain(level(12, 1000)).chain(level(60, 4000));
        let recovered = fall(&of(rates)).expect("a fall");
        let expected = Fall {
            at_ns: 300 * SECOND,
            end_ns: 420 * SECOND,
            to_the_end: false,
            before_per_s: 4000.0,
            after_per_s: 1000.0,
        };
        assert_eq!(recovered, expected);
        // A window in which it was quick again does not hide it, nor one in which nothing was committed.
        let broken = level(30, 4000).chain([1000, 1100, 4000, 900, 0, 1000, 1000, 1000, 1000]);
        let broken = fall(&of(broken)).expect("a fall");
        assert_eq!((broken.at_ns, broken.end_ns, broken.to_the_end), (300 * SECOND, 390 * SECOND, true));
    }

    #[test]
    fn of_two_falls_the_longer_is_named_and_a_slow_start_hides_none() {
        let rates = level(30, 4000).chain(level(8, 1000)).chain(level(30, 4000)).chain(level(20, 2000));
        let longer = fall(&of(rates)).expect("a fall");
        assert_eq!((longer.at_ns, longer.end_ns), (680 * SECOND, 880 * SECOND));
        let rates = level(4, 100).chain(level(60, 4000)).chain(level(30, 1000));
        assert_eq!(fall(&of(rates)).expect("a fall").at_ns, 640 * SECOND);
    }

    #[test]
    fn noise_around_both_levels_moves_a_fall_by_no_more_than_a_window() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let rates = level(60, 4000).chain(level(60, 1500)).map(|per_s| per_s * random.u64(85..115) / 100);
            let found = fall(&of(rates.collect::<Vec<_>>())).expect("a fall");
            assert!(
                found.at_ns.abs_diff(600 * SECOND) <= 10 * SECOND && found.to_the_end,
                "{seed}: {found:?}"
            );
        }
    }

    #[test]
    fn windows_are_cut_from_the_blocks_and_a_span_without_commits_counts() {
        let round =
            |round: u32, start_ns| Round { round, start_ns, elapsed_ns: 10 * SECOND, ..Round::default() };
        let point = |at_ns| SeriesPoint { at_ns, max_ns: 1, commits: 100 };
        let points: Vec<_> = (0..4).map(|index| point(index * SECOND)).chain([point(59 * SECOND)]).collect();
        let cut = windows(&[round(0, 0), round(1, 50 * SECOND)], &points);
        assert_eq!(cut.len(), 10, "of two seconds each");
        assert_eq!(
            cut.iter().map(|window| window.commits).collect::<Vec<_>>(),
            [200, 200, 0, 0, 0, 0, 0, 0, 0, 100]
        );
        assert_eq!((cut[5].at_ns, cut[9].end_ns), (50 * SECOND, 60 * SECOND));
        // Ten thousand blocks of a tenth of a second are sixty windows or so, and every commit is in one of them.
        let short = |index: u64| Round { elapsed_ns: SECOND / 10, ..round(0, index * SECOND) };
        let rounds: Vec<_> = (0..10_000).map(short).collect();
        let points: Vec<_> = rounds.iter().map(|round| point(round.start_ns)).collect();
        let together = windows(&rounds, &points);
        assert!((50..=130).contains(&together.len()), "{}", together.len());
        assert_eq!(together.iter().map(|window| window.commits).sum::<u64>(), 1_000_000);
        assert!(together.iter().all(|window| (window.per_s() - 1000.0).abs() < 1.0));
    }
}
