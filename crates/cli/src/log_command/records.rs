//! How do records look outside of the log?
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

/// Reads records.
pub(super) struct Input<R> {
    reader: io::BufReader<R>,
    form: Form,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R, form: Form) -> Self {
        Self { reader: io::BufReader::with_capacity(256 << 10, reader), form }
    }

    /// Reads the next record into `record`; returns whether there was one.
    pub(super) fn next(&mut self, record: &mut Vec<u8>) -> io::Result<bool> {
        record.clear();
        if self.form != Form::Raw {
            let read = self.reader.read_until(b'\n', record)?;
            if record.last() == Some(&b'\n') {
                record.pop();
            }
            return Ok(read > 0);
        }
        let mut length = [0; 4];
        if self.reader.fill_buf()?.is_empty() {
            return Ok(false);
        }
        self.reader.read_exact(&mut length)?;
        let length = u64::from(u32::from_le_bytes(length));
        let read = self.reader.by_ref().take(length).read_to_end(record)?;
        if read as u64 == length { Ok(true) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
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

    fn read(form: Form, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut input = Input::new(bytes, form);
        let (mut all, mut record) = (Vec::new(), Vec::new());
        while input.next(&mut record).expect("is whole") {
            all.push(record.clone());
        }
        all
    }

    #[test]
    fn lines_and_lengths_come_apart() {
        assert_eq!(read(Form::Text, b"a\n\nbc"), [b"a".to_vec(), Vec::new(), b"bc".to_vec()]);
        assert_eq!(read(Form::Raw, b"\x01\0\0\0a\0\0\0\0"), [b"a".to_vec(), Vec::new()]);
        let mut cut = Input::new(&b"\x05\0\0\0a"[..], Form::Raw);
        assert!(cut.next(&mut Vec::new()).is_err());
    }
}
