//! Encodes and decodes records for standard input and output: as text, JSON or raw bytes.
//!
//! | form | one record |
//! | --- | --- |
//! | text | a line; printed as it is, so a record with line ends of its own prints as several lines |
//! | json | a line: `{"lsn":…,"end":…,"ends_transaction":…,"text":…}`, or `"base64"` for what is not UTF-8 |
//! | raw | its length as four little-endian bytes, then its bytes: what `append --format raw` reads |

use base64::Engine as _;
use clap::ValueEnum;
use seawall::Record;
use seawall::bench::Row;
use std::io::{self, BufRead, Read, Write};

/// How records are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// One line a record
    Text,
    /// One JSON object a line; `append` takes the whole line as the record
    Json,
    /// Four bytes of length (little-endian), then the record
    Raw,
}

impl Form {
    /// What one record is called when there is something to be said about it.
    pub(super) fn unit(self) -> &'static str {
        if self == Self::Raw { "record" } else { "line" }
    }
}

/// Reads records, none longer than its bound: a length that was misread must not become memory.
pub(super) struct Input<R> {
    reader: io::BufReader<R>,
    form: Form,
    bytes_max: usize,
    /// Records that were read whole.
    count: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R, form: Form, bytes_max: usize) -> Self {
        Self { reader: io::BufReader::with_capacity(256 << 10, reader), form, bytes_max, count: 0 }
    }

    /// Reads the next record into `record`; returns whether there was one. The error names it by its number.
    pub(super) fn next(&mut self, record: &mut Vec<u8>) -> Result<bool, String> {
        record.clear();
        let read = if self.form == Form::Raw { self.next_framed(record) } else { self.next_line(record) };
        let one = || format!("{} {} of the input", self.form.unit(), self.count + 1);
        let was_one = match read {
            Ok(Ok(was_one)) => was_one,
            Ok(Err(wrong)) => return Err(format!("{}: {wrong}", one())),
            Err(error) => return Err(format!("{}: cannot read it: {error}", one())),
        };
        self.count += u64::from(was_one);
        Ok(was_one)
    }

    fn next_line(&mut self, record: &mut Vec<u8>) -> io::Result<Result<bool, String>> {
        // With its line end a line of the greatest length is one byte longer.
        let bytes_max = self.bytes_max as u64;
        let read = self.reader.by_ref().take(bytes_max + 1).read_until(b'\n', record)?;
        if record.last() == Some(&b'\n') {
            record.pop();
        } else if record.len() > self.bytes_max {
            return Ok(Err(format!("it is longer than the bound of {bytes_max} bytes")));
        }
        Ok(Ok(read > 0))
    }

    fn next_framed(&mut self, record: &mut Vec<u8>) -> io::Result<Result<bool, String>> {
        let read = self.reader.by_ref().take(4).read_to_end(record)?;
        let Ok(length) = <[u8; 4]>::try_from(record.as_slice()) else {
            let cut = format!("its length is cut: {} of 4 bytes are missing", 4 - read);
            return Ok(if read == 0 { Ok(false) } else { Err(cut) });
        };
        record.clear();
        let (length, bytes_max) = (u64::from(u32::from_le_bytes(length)), self.bytes_max as u64);
        if length > bytes_max {
            return Ok(Err(format!(
                "its length of {length} bytes is more than the bound of {bytes_max}; before each record stand four \
                 bytes of its length, little-endian"
            )));
        }
        let read = self.reader.by_ref().take(length).read_to_end(record)? as u64;
        let cut = || format!("it is cut: {} of its {length} bytes are missing", length - read);
        Ok(if read == length { Ok(true) } else { Err(cut()) })
    }

    /// Whether the next record would have to be waited for.
    pub(super) fn would_wait(&self) -> bool {
        self.reader.buffer().is_empty()
    }
}

/// Prints records.
pub(super) struct Output<W> {
    writer: W,
    form: Form,
}

impl<W: Write> Output<W> {
    pub(super) fn new(writer: W, form: Form) -> Self {
        Self { writer, form }
    }

    pub(super) fn record(&mut self, record: &Record) -> io::Result<()> {
        match self.form {
            Form::Text => {
                self.writer.write_all(&record.payload)?;
                self.writer.write_all(b"\n")
            }
            Form::Json => {
                let (key, value) = match std::str::from_utf8(&record.payload) {
                    Ok(text) => ("text", text.to_owned()),
                    Err(_) => {
                        ("base64", base64::engine::general_purpose::STANDARD.encode(&record.payload[..]))
                    }
                };
                let line = serde_json::json!({
                    "lsn": record.lsn.get(),
                    "end": record.end.get(),
                    "ends_transaction": record.ends_transaction,
                    key: value,
                });
                writeln!(self.writer, "{line}")
            }
            Form::Raw => {
                let length = u32::try_from(record.payload.len()).map_err(io::Error::other)?;
                self.writer.write_all(&length.to_le_bytes())?;
                self.writer.write_all(&record.payload)
            }
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// One workload of the benchmark as JSON.
pub(super) fn row(row: &Row) -> serde_json::Value {
    let (floor_p50, log_p50) = row.latency(|summary| summary.p50);
    let (floor_p999, log_p999) = row.latency(|summary| summary.p999);
    let [floor_cpu, cpu] = row.cpu();
    let [floor_wait, wait] = row.cpu_wait();
    let rounds: Vec<_> = row
        .rounds
        .iter()
        .map(|round| serde_json::json!({ "floor": round.floor, "bare": round.bare, "log": round.log }))
        .collect();
    serde_json::json!({
        "workload": row.name,
        "what": row.what,
        "unit": row.unit,
        "floor": row.floor(),
        "log": row.log(),
        "ratio": row.ratio(),
        "ratio_to_bare": row.bare_ratio(),
        "goal_reached": row.is_reached(),
        "floor_ns_p50": floor_p50,
        "log_ns_p50": log_p50,
        "log_ns_p99": row.latency(|summary| summary.p99).1,
        "floor_ns_p999": floor_p999,
        "log_ns_p999": log_p999,
        "floor_cpu_s_per_million": floor_cpu,
        "cpu_s_per_million": cpu,
        "floor_cpu_wait": floor_wait,
        "cpu_wait": wait,
        "rounds": rounds,
    })
}

#[cfg(test)]
mod tests {
    use super::{Form, Input};

    const BYTES_MAX: usize = 6;

    fn read(form: Form, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut input = Input::new(bytes, form, BYTES_MAX);
        let (mut all, mut record) = (Vec::new(), Vec::new());
        while input.next(&mut record)? {
            all.push(record.clone());
        }
        Ok(all)
    }

    #[test]
    fn lines_and_lengths_come_apart() {
        let lines = [b"a".to_vec(), Vec::new(), b"bc".to_vec()];
        assert_eq!(read(Form::Text, b"a\n\nbc"), Ok(lines.to_vec()));
        assert_eq!(read(Form::Raw, b"\x01\0\0\0a\0\0\0\0"), Ok(vec![b"a".to_vec(), Vec::new()]));
        assert_eq!(read(Form::Raw, b"\x06\0\0\0abcdef"), Ok(vec![b"abcdef".to_vec()]));
        assert_eq!(read(Form::Text, b"abcdef\n"), Ok(vec![b"abcdef".to_vec()]));
        assert_eq!(read(Form::Text, b"abcdef"), Ok(vec![b"abcdef".to_vec()]));
    }

    #[test]
    fn what_is_no_record_is_told_with_its_number_and_what_is_wrong() {
        let wrong: [(Form, &[u8], &str); 6] = [
            (Form::Raw, b"\x05\0\0\0a", "record 1 of the input: it is cut: 4 of its 5 bytes are missing"),
            (Form::Raw, b"\x01\0\0\0a\x05", "record 2 of the input: its length is cut: 3 of 4 bytes"),
            (Form::Raw, b"\xFF\xFF\xFF\xFF", "record 1 of the input: its length of 4294967295 bytes is more"),
            (Form::Raw, b"\x07\0\0\0abcdefg", "its length of 7 bytes is more than the bound of 6"),
            (Form::Text, b"\nabcdefg", "line 2 of the input: it is longer than the bound of 6 bytes"),
            (Form::Json, b"abcdefg\n", "line 1 of the input: it is longer than the bound of 6 bytes"),
        ];
        for (form, bytes, told) in wrong {
            let error = read(form, bytes).expect_err("is wrong");
            assert!(error.contains(told), "{error}");
        }
    }
}
