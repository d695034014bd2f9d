//! Formats the result: one line per workload and row, the floor first, and a legend of the rows below.

use std::fmt::Write;

use crate::measure::{Outcome, Workload};
use crate::subjects::{Crowd, SUBJECTS, version};

/// The table with its notes.
pub(crate) fn table(parts: &[(&Workload, Vec<Outcome>)]) -> String {
    let mut text = format!(
        "{:<9} {:<12} {:>10} {:>8} {:>9} {:>9} {:>9} {:>10}\n",
        "workload", "who", "commits/s", "to floor", "p50 us", "p99 us", "p99.9 us", "CPU s/mill"
    );
    for (workload, outcomes) in parts {
        let floor = outcomes.first().map_or(0.0, Outcome::rate);
        for outcome in outcomes {
            let ratio = if floor > 0.0 { format!("{:.2}", outcome.rate() / floor) } else { "n/a".to_owned() };
            let cpu = outcome.cpu_s_per_million().map_or_else(|| "n/a".to_owned(), |cpu| format!("{cpu:.2}"));
            let us = |quantile| outcome.times.value_at_quantile(quantile) as f64 / 1e3;
            let _ = writeln!(
                text,
                "{:<9} {:<12} {:>10.0} {ratio:>8} {:>9.1} {:>9.1} {:>9.1} {cpu:>10}",
                workload.name,
                outcome.subject.name,
                outcome.rate(),
                us(0.5),
                us(0.99),
                us(0.999),
            );
        }
    }
    text.push('\n');
    for (workload, outcomes) in parts {
        let slices = outcomes.first().map_or(0, |outcome| outcome.rates.len());
        let _ = writeln!(text, "{}: {}; the median of {slices} slices", workload.name, workload.what);
    }
    text.push('\n');
    for subject in &SUBJECTS {
        let version = match version(subject.package) {
            Some(version) if subject.package == subject.name => format!(" {version}"),
            Some(version) => format!(" ({} {version})", subject.package),
            None => String::new(),
        };
        let alone = match subject.crowd {
            Crowd::HasNone => "; one writer at a time, so that it is in no row of several threads",
            Crowd::Shares | Crowd::StaysAlone => "",
        };
        let _ = writeln!(text, "{}{version}: {}{alone}", subject.name, subject.set_up);
    }
    text.push_str(
        "CPU: user and system time of the whole process for a million commits, without the housekeeping\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::measure::{Outcome, WORKLOADS, histogram};
    use crate::subjects::SUBJECTS;

    fn outcome(index: usize, rates: &[f64], ns: u64, cpu_ns: Option<u64>) -> Outcome {
        let mut times = histogram();
        times.saturating_record(ns);
        Outcome { subject: &SUBJECTS[index], rates: rates.to_vec(), times, commits: 1000, cpu_ns }
    }

    #[test]
    fn a_row_tells_medians_ratio_latencies_and_cpu() {
        let rows = vec![
            outcome(0, &[10_000.0, 30_000.0, 20_000.0], 50_000, Some(10_000_000)),
            outcome(2, &[5_000.0, 1.0, 9e9], 200_000, None),
        ];
        let told = table(&[(&WORKLOADS[0], rows)]);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            lines[1],
            "W1        floor             20000     1.00      50.0      50.0      50.0      10.00"
        );
        assert_eq!(
            lines[2],
            "W1        okaywal            5000     0.25     200.1     200.1     200.1        n/a"
        );
        assert!(lines.contains(&"W1: 1 writer, 16 KiB, each committed; the median of 3 slices"));
        assert!(lines.iter().any(|line| line.starts_with("okaywal 0.")), "{told}");
        assert!(lines.iter().any(|line| line.starts_with("sqlite (rusqlite 0.")), "{told}");
    }
}
