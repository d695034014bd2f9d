//! Formats figures with three significant digits and a unit.
//!
//! Invariants: a unit is chosen after rounding, so that nothing reads `1000 µs`; every duration of the tight
//! form ends in a unit of two columns, so that right-aligned columns line up.

const UNITS: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];

/// A number with three significant digits, from 0.01 on.
pub fn significant(value: f64) -> String {
    if value < 0.0 {
        format!("{MINUS}{}", significant(-value))
    } else if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        thousands(&format!("{value:.0}"))
    }
}

/// A typographic minus, so that what is negative cannot be taken for a dash.
const MINUS: char = '−';

fn in_unit(ns: f64) -> (String, &'static str) {
    if ns < 0.0 {
        let (digits, unit) = in_unit(-ns);
        return (format!("{MINUS}{digits}"), unit);
    }
    let (scale, unit) = UNITS[unit_of(ns)];
    let value = ns / scale;
    (if unit == "ns" { format!("{value:.0}") } else { significant(value) }, unit)
}

/// The unit in which a duration has at most three digits before the point; seconds take any value.
fn unit_of(ns: f64) -> usize {
    UNITS.iter().position(|(scale, _)| ns / scale < 999.5).unwrap_or(UNITS.len() - 1)
}

/// A duration in words: `45.2 µs`.
pub fn duration(ns: f64) -> String {
    let (digits, unit) = in_unit(ns);
    format!("{digits} {unit}")
}

/// A duration of whole nanoseconds in words.
pub fn duration_ns(ns: u64) -> String {
    duration(ns as f64)
}

/// A round duration without the zeros that would make it look measured: `6 ms`, `1.5 ms`.
pub fn round_duration(ns: u64) -> String {
    let (digits, unit) = in_unit(ns as f64);
    let short =
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
    format!("{short} {unit}")
}

/// A duration for a column: `45.2µs`, `1.23 s`.
pub fn tight(ns: f64) -> String {
    let (digits, unit) = in_unit(ns);
    format!("{digits}{unit:>2}")
}

/// Two durations that add up, for a column, with two digits each and one unit where they share it: `12+54µs`,
/// `5.2µs+3.2ms`.
pub(crate) fn tight_sum(first_ns: f64, second_ns: f64) -> String {
    let brief = |ns: f64| {
        let (scale, unit) = UNITS[unit_of(ns)];
        let value = ns / scale;
        (if value < 9.95 && scale > 1.0 { format!("{value:.1}") } else { format!("{value:.0}") }, unit)
    };
    let ((first, of_first), (second, of_second)) = (brief(first_ns), brief(second_ns));
    if of_first == of_second {
        format!("{first}+{second}{of_second}")
    } else {
        format!("{first}{of_first}+{second}{of_second}")
    }
}

/// A whole number with separators: `65,536`.
pub fn count(n: u64) -> String {
    thousands(&n.to_string())
}

/// A rate with three significant digits and separators: `21,300`.
pub fn rate(per_s: f64) -> String {
    if per_s < 999.5 {
        return significant(per_s);
    }
    let unit = 10_f64.powf(per_s.log10().floor() - 2.0);
    thousands(&format!("{:.0}", (per_s / unit).round() * unit))
}

/// A rate for a column: `21.3k`.
pub(crate) fn rate_tight(per_s: f64) -> String {
    if per_s < 0.0 {
        format!("{MINUS}{}", rate_tight(-per_s))
    } else if per_s < 999.5 {
        significant(per_s)
    } else if per_s < 999_500.0 {
        format!("{}k", significant(per_s / 1e3))
    } else {
        format!("{}M", significant(per_s / 1e6))
    }
}

/// A share of one in per cent: `84 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A size in binary units: `16 KiB`, exact where it can be.
pub fn bytes(n: u64) -> String {
    const BINARY: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in BINARY {
        if n >= unit && n.is_multiple_of(unit) {
            return format!("{} {name}", count(n / unit));
        }
        // A few KiB are a transaction's size, whose every byte counts.
        if n >= unit.max(10 << 10) {
            return format!("{} {name}", significant(n as f64 / unit as f64));
        }
    }
    format!("{} B", count(n))
}

/// `1 writer`, `4 writers`.
pub(crate) fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// At most `limit` of `names`, in words: `a, b and 3 more`.
pub fn listing(names: &[&str], limit: usize) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        _ if names.len() > limit => {
            format!("{} and {} more", names[..limit].join(", "), names.len() - limit)
        }
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn thousands(digits: &str) -> String {
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(crate) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_the_right_unit() {
        let cases = [
            (0.0, "0 ns"),
            (812.4, "812 ns"),
            (999.6, "1.00 µs"),
            (45_210.0, "45.2 µs"),
            (99_960.0, "100 µs"),
            (999_600.0, "1.00 ms"),
            (1_234_567.0, "1.23 ms"),
            (12_340_000_000.0, "12.3 s"),
            (12_340_000_000_000.0, "12,340 s"),
        ];
        for (ns, words) in cases {
            assert_eq!(duration(ns), words);
        }
        assert_eq!((tight(-16_064.0).as_str(), duration(-12.0).as_str()), ("−16.1µs", "−12 ns"));
        assert_eq!([significant(-12_345.0), rate_tight(-12_345.0)], ["−12,345", "−12.3k"]);
        assert_eq!((tight(1.5e9).as_str(), tight(45_210.0).as_str()), ("1.50 s", "45.2µs"));
        let sums = [(12_300.0, 54_100.0), (5_230.0, 3_210_000.0), (999.6, 182_400.0), (812.0, 45.0)];
        let sums = sums.map(|(first, second)| tight_sum(first, second));
        assert_eq!(sums, ["12+54µs", "5.2µs+3.2ms", "1.0+182µs", "812+45ns"]);
    }

    #[test]
    fn rates_sizes_and_lists_read_well() {
        assert_eq!([rate(21_345.0), rate(99_960.0), rate(12.0)], ["21,300", "100,000", "12.0"]);
        assert_eq!([rate_tight(21_345.0), rate_tight(432.0)], ["21.3k", "432"]);
        assert_eq!([bytes(16 << 10), bytes(2300), bytes(1 << 30)], ["16 KiB", "2,300 B", "1 GiB"]);
        assert_eq!([bytes(5625 << 20), bytes(0), bytes(12_345)], ["5.49 GiB", "0 B", "12.1 KiB"]);
        assert_eq!([round_duration(6_000_000), round_duration(1_500_000)], ["6 ms", "1.5 ms"]);
        assert_eq!(listing(&["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(listing(&["a", "b"], 2), "a and b");
    }
}
