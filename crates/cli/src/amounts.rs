//! Reads amounts of the command line as people write them: sizes as fio and dd do, times in plain seconds too, CPUs as
//! taskset does.
//!
//! ```text
//!   4k  4K  4KiB  4KB     4,096 bytes: every unit is a power of 1,024
//!   2300  2300B           bytes
//!   5  0.5                seconds
//!   5s  1m30s  500ms      as the unit says
//!   0,2  0-3  0-1,4       CPUs, in this order
//! ```

use crate::exit::Failure;
use bytesize::ByteSize;
use std::time::Duration;

const UNITS: [(char, u32); 6] = [('k', 10), ('m', 20), ('g', 30), ('t', 40), ('p', 50), ('e', 60)];

pub(crate) fn size(text: &str) -> Result<ByteSize, Failure> {
    let refused = || Failure::usage("not a size such as 4k, 16KiB or 2300");
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(at);
    let unit = unit.trim().to_ascii_lowercase();
    let shift = match unit.as_str() {
        "" | "b" => 0,
        _ => {
            let (_, shift) =
                UNITS.into_iter().find(|(first, _)| unit.starts_with(*first)).ok_or_else(refused)?;
            if !["", "b", "ib"].contains(&&unit[1..]) {
                return Err(refused());
            }
            shift
        }
    };
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(1 << shift).map(ByteSize).ok_or_else(|| Failure::usage("more than 16 EiB"));
    }
    let part: f64 = digits.parse().map_err(|_| refused())?;
    let bytes = part * (1_u64 << shift) as f64;
    if bytes.fract() != 0.0 || !(0.0..1.8e19).contains(&bytes) {
        return Err(refused());
    }
    format!("{bytes:.0}").parse().map(ByteSize).map_err(|_| refused())
}

pub(crate) fn time(text: &str) -> Result<Duration, Failure> {
    match text.trim().parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(Failure::usage),
        Err(_) => humantime::parse_duration(text)
            .map_err(|error| Failure::Usage(format!("{error}; 5, 5s or 1m30s are times"))),
    }
}

/// CPUs, in the order in which writers are pinned to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cpus(pub(crate) Vec<usize>);

pub(crate) fn cpus(text: &str) -> Result<Cpus, Failure> {
    /// More than any machine has.
    const CPU_MAX: usize = 1 << 16;
    let refused = || Failure::usage("not CPUs such as 0, 0,2 or 0-3");
    let number = |text: &str| {
        let cpu = text.trim().parse::<usize>().ok();
        cpu.filter(|cpu| *cpu <= CPU_MAX).ok_or_else(refused)
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(refused());
        }
        cpus.extend(first..=last);
    }
    Ok(Cpus(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_numbers_and_ranges_as_taskset_reads_them() {
        for (text, expected) in [("0", &[0][..]), ("2,0", &[2, 0]), ("0-1,4", &[0, 1, 4]), ("3-3", &[3])] {
            assert_eq!(cpus(text).expect(text).0, expected);
        }
        for text in ["", "0,,1", "1-", "-1", "2-1", "x", "0-99999999"] {
            assert!(cpus(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn sizes_are_those_of_fio_and_dd() {
        let rows = [
            ("4k", 4096),
            ("16K", 16 << 10),
            ("4KiB", 4096),
            ("4kb", 4096),
            ("1MB", 1 << 20),
            ("1.5k", 1536),
            ("2300", 2300),
            ("2300B", 2300),
            ("0", 0),
            ("1 GiB", 1 << 30),
            ("1EiB", 1 << 60),
        ];
        for (text, bytes) in rows {
            assert_eq!(size(text).ok(), Some(ByteSize(bytes)), "{text}");
        }
        for text in ["much", "", "4x", "4kbit", "-1", "0.3", "99999EiB", "1..2", "k"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_seconds() {
        let rows = [("5", 5_000), ("0.5", 500), ("5s", 5_000), ("1m30s", 90_000), ("500ms", 500)];
        for (text, ms) in rows {
            assert_eq!(time(text).ok(), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["-1", "long", "5x", "NaN", "1e30"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
