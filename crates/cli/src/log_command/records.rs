//! Encodes and decodes records for standard input and output: as text, JSON or raw bytes.
//!
//! | form | one record |
//! | --- | --- |
//! | text | a line; printed as it is, so a record with line ends of its own prints as several lines; on a terminal without control characters and on one line |
//! | json | a line: `{"lsn":…,"end":…,"ends_transaction":…,"text":…}`, or `"base64"` for what is not UTF-8 |
//! | raw | its length as four little-endian bytes, then its bytes: what `append --format raw` reads |

use crate::exit::Failure;
use base64::Engine as _;
use clap::ValueEnum;
use seawall::{Engine, Evidence, Record, Report, Tail, View};
use seawall_gauge::rank::EffectiveClass;
use seawall_host::text::printable;
use seawall_sys::clock::unix_us;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// One line a record
    Text,
    /// One JSON object a line, with the record in `text` or `base64`; `append` reads what `cat` prints
    Json,
    /// Four bytes of length (little-endian), then the record
    Raw,
}

impl Form {
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
    /// Whether the last one ends its transaction.
    ends_transaction: bool,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R, form: Form, bytes_max: usize) -> Self {
        Self {
            reader: io::BufReader::with_capacity(256 << 10, reader),
            form,
            bytes_max,
            count: 0,
            ends_transaction: true,
        }
    }

    /// Reads the next record into `record`; returns whether there was one. The error names it by its number.
    pub(super) fn next(&mut self, record: &mut Vec<u8>) -> Result<bool, Failure> {
        record.clear();
        let read = match self.form {
            Form::Text => self.next_line(record, self.bytes_max),
            Form::Json => self.next_object(record),
            Form::Raw => self.next_framed(record),
        };
        let one = || format!("{} {} of the input", self.form.unit(), self.count + 1);
        let was_one = read.map_err(|wrong| Failure::Message(format!("{}: {wrong}", one())))?;
        self.count += u64::from(was_one);
        Ok(was_one)
    }

    pub(super) fn ends_transaction(&self) -> bool {
        self.ends_transaction
    }

    fn next_object(&mut self, record: &mut Vec<u8>) -> Result<bool, Failure> {
        // PowerShell and editors of Windows put a mark of the byte order in front.
        const MARK: &[u8] = b"\xef\xbb\xbf";
        if self.count == 0 && self.reader.fill_buf().is_ok_and(|read| read.starts_with(MARK)) {
            self.reader.consume(MARK.len());
        }
        // Each byte may be escaped in six.
        let line_max = self.bytes_max.saturating_mul(6).saturating_add(1024);
        if !self.next_line(record, line_max)? {
            return Ok(false);
        }
        let (payload, ends_transaction) = object(record)?;
        if payload.len() > self.bytes_max {
            return Err(Failure::Message(format!(
                "its record is longer than the bound of {} bytes",
                self.bytes_max
            )));
        }
        (*record, self.ends_transaction) = (payload, ends_transaction);
        Ok(true)
    }

    fn next_line(&mut self, record: &mut Vec<u8>, bytes_max: usize) -> Result<bool, Failure> {
        // With its line end a line of the greatest length is one byte longer.
        let line_max = bytes_max;
        let bytes_max = bytes_max as u64;
        let read = self.reader.by_ref().take(bytes_max + 1).read_until(b'\n', record).map_err(unread)?;
        if record.last() == Some(&b'\n') {
            record.pop();
        } else if record.len() > line_max {
            return Err(Failure::Message(format!("it is longer than the bound of {bytes_max} bytes")));
        }
        Ok(read > 0)
    }

    fn next_framed(&mut self, record: &mut Vec<u8>) -> Result<bool, Failure> {
        let read = self.reader.by_ref().take(4).read_to_end(record).map_err(unread)?;
        let Ok(length) = <[u8; 4]>::try_from(record.as_slice()) else {
            let cut = format!("its length is truncated: {} of 4 bytes are missing", 4 - read);
            return if read == 0 { Ok(false) } else { Err(Failure::Message(cut)) };
        };
        record.clear();
        let (length, bytes_max) = (u64::from(u32::from_le_bytes(length)), self.bytes_max as u64);
        if length > bytes_max {
            return Err(Failure::Message(format!(
                "its length of {length} bytes is more than the bound of {bytes_max}; each record follows its length, four \
                 bytes in little-endian order"
            )));
        }
        let read = self.reader.by_ref().take(length).read_to_end(record).map_err(unread)? as u64;
        let cut = || format!("it is truncated: {} of its {length} bytes are missing", length - read);
        if read == length { Ok(true) } else { Err(Failure::Message(cut())) }
    }

    /// Whether the next record would have to be waited for.
    pub(super) fn would_wait(&self) -> bool {
        self.reader.buffer().is_empty()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a function for map_err")]
fn unread(error: io::Error) -> Failure {
    Failure::Message(format!("cannot read it: {error}"))
}

/// The bytes of the record in a line of JSON, and whether it ends its transaction.
fn object(line: &[u8]) -> Result<(Vec<u8>, bool), Failure> {
    const WANTED: &str = "a line is what `log cat --format json` prints: {\"text\":\"…\"} or {\"base64\":\"…\"}, with \"lsn\", \
                          \"end\" and \"ends_transaction\" or without";
    let value = serde_json::from_slice(line)
        .map_err(|error| Failure::Message(format!("it is not JSON: {error}; {WANTED}")))?;
    let Value::Object(mut fields) = value else {
        return Err(Failure::Message(format!("it is not a JSON object; {WANTED}")));
    };
    let ends_transaction = match fields.remove("ends_transaction") {
        None => true,
        Some(Value::Bool(ends)) => ends,
        Some(_) => {
            return Err(Failure::Message(format!(
                "\"ends_transaction\" is neither true nor false; {WANTED}"
            )));
        }
    };
    // The log gives new ones.
    for name in ["lsn", "end"] {
        if fields.remove(name).is_some_and(|value| !value.is_u64()) {
            return Err(Failure::Message(format!("\"{name}\" is not an LSN; {WANTED}")));
        }
    }
    let payload = match (fields.remove("text"), fields.remove("base64")) {
        (Some(Value::String(text)), None) => text.into_bytes(),
        (None, Some(Value::String(text))) => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|error| Failure::Message(format!("its \"base64\" is invalid: {error}")))?,
        _ => return Err(Failure::Message(format!("it needs one string, \"text\" or \"base64\"; {WANTED}"))),
    };
    match fields.keys().next() {
        Some(name) => Err(Failure::Message(format!("\"{name}\" is not a known field; {WANTED}"))),
        None => Ok((payload, ends_transaction)),
    }
}

/// The bytes as a terminal may have them: on one line, what it would obey is escaped, and so is what is not UTF-8.
fn shown(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return printable(text);
    }
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown.push_str(&printable(chunk.valid()));
        shown.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    Cow::Owned(shown)
}

pub(super) struct Output<W> {
    writer: W,
    form: Form,
    is_terminal: bool,
}

impl<W: Write> Output<W> {
    pub(super) fn new(writer: W, form: Form, is_terminal: bool) -> Self {
        Self { writer, form, is_terminal }
    }

    pub(super) fn record(&mut self, record: &Record) -> io::Result<()> {
        match self.form {
            Form::Text if self.is_terminal => writeln!(self.writer, "{}", shown(&record.payload)),
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
                let line = line.to_string();
                let line = if self.is_terminal { printable(&line) } else { Cow::Borrowed(line.as_str()) };
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

fn tail(tail: Tail) -> (&'static str, Option<Value>) {
    match tail {
        Tail::Clean => ("closed", None),
        Tail::Lost { from, to } => ("lost", Some(serde_json::json!({ "from": from.get(), "to": to.get() }))),
        _ => ("not closed", None),
    }
}

/// By how much a clock may be ahead without a word.
const AHEAD: Duration = Duration::from_mins(5);

/// That the last batch is of a time in the future, if it is: whatever goes by time is wrong then.
pub(super) fn ahead(time_us: u64) -> Option<String> {
    let ahead = Duration::from_micros(time_us.saturating_sub(unix_us()));
    let by = humantime::format_duration(Duration::from_secs(ahead.as_secs()));
    (ahead > AHEAD)
        .then(|| format!("the last batch is stamped {by} ahead of this clock: one of the clocks was wrong"))
}

/// What `stat` prints, as JSON; `tail` is null while there may be a writer.
/// `evidence` is null if no writer has looked since the file system was mounted.
pub(super) fn stat(view: &View, method: Option<(&str, Engine)>, evidence: Option<&Evidence>) -> Value {
    let (tail, lost) = view.tail().map(tail).unzip();
    serde_json::json!({
        "identity": view.log_id().to_string(),
        "first": view.first_lsn().get(),
        "end": view.end_lsn().get(),
        "segments": view.segments(),
        "outlives": EffectiveClass::after(view.durability(), evidence).name(),
        "claims": view.durability().name(),
        "method": method.map(|(method, _)| method),
        "engine": method.map(|(_, engine)| engine.name()),
        "evidence": evidence.map(Evidence::name),
        "evidence_because": evidence.and_then(Evidence::why),
        "writer": view.has_writer(),
        "newest_unix_us": view.time_us(),
        "tail": tail,
        "lost": lost.flatten(),
    })
}

/// What `verify` found, as JSON.
pub(super) fn report(report: &Report) -> Value {
    let (tail, lost) = tail(report.tail);
    let damage = report.damage.iter().map(|damage| {
        serde_json::json!({
            "path": damage.path.to_string_lossy(),
            "offset": damage.offset,
            "lsn": damage.lsn.get(),
            "what": damage.what,
        })
    });
    serde_json::json!({
        "identity": report.log_id.to_string(),
        "epoch": report.epoch,
        "block_bytes": report.block_bytes,
        "segments": report.segments,
        "prepared": report.spares,
        "first": report.first.get(),
        "end": report.end.get(),
        "records": report.records,
        "bytes": report.bytes,
        "batches": report.batches,
        "outlives": report.class.map(seawall::Durability::name),
        "tail": tail,
        "lost": lost,
        "known_durable": report.witnessed.get(),
        "damage": damage.collect::<Vec<_>>(),
        "not_ours": report.foreign_files,
    })
}

#[cfg(test)]
mod tests {
    use super::{Failure, Form, Input, ahead, shown, unix_us};

    const BYTES_MAX: usize = 6;

    fn read(form: Form, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
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
    fn what_is_no_record_is_named_by_its_number_with_what_is_wrong() {
        let wrong: [(Form, &[u8], &str); 6] = [
            (
                Form::Raw,
                b"\x05\0\0\0a",
                "record 1 of the input: it is truncated: 4 of its 5 bytes are missing",
            ),
            (Form::Raw, b"\x01\0\0\0a\x05", "record 2 of the input: its length is truncated: 3 of 4 bytes"),
            (Form::Raw, b"\xFF\xFF\xFF\xFF", "record 1 of the input: its length of 4294967295 bytes is more"),
            (Form::Raw, b"\x07\0\0\0abcdefg", "its length of 7 bytes is more than the bound of 6"),
            (Form::Text, b"\nabcdefg", "line 2 of the input: it is longer than the bound of 6 bytes"),
            (
                Form::Json,
                b"{\"text\":\"abcdefg\"}\n",
                "line 1 of the input: its record is longer than the bound of 6",
            ),
        ];
        for (form, bytes, words) in wrong {
            let error = read(form, bytes).expect_err("is wrong").to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn an_object_is_its_text_or_its_base64_and_nothing_else() {
        let lines: &[u8] =
            b"{\"text\":\"a\\nb\",\"lsn\":0,\"end\":7,\"ends_transaction\":true}\n{\"base64\":\"/w==\"}";
        assert_eq!(read(Form::Json, lines), Ok(vec![b"a\nb".to_vec(), vec![0xFF]]));
        for (line, words) in [
            ("not json", "line 1 of the input: it is not JSON"),
            ("", "it is not JSON"),
            ("[1]", "it is not a JSON object"),
            ("{}", "it needs one string, \"text\" or \"base64\""),
            (r#"{"text":"a","base64":""}"#, "it needs one string"),
            (r#"{"text":1}"#, "it needs one string"),
            (r#"{"base64":"?"}"#, "its \"base64\" is invalid"),
            (r#"{"text":"a","ends_transaction":1}"#, "\"ends_transaction\" is neither true nor false"),
            (r#"{"text":"a","lsn":-1}"#, "\"lsn\" is not an LSN"),
            (r#"{"text":"a","txet":"b"}"#, "\"txet\" is not a known field"),
        ] {
            let error = read(Form::Json, format!("{line}\n").as_bytes()).expect_err("is wrong").to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn a_batch_of_the_future_is_named_and_one_of_a_clock_that_is_a_little_ahead_is_not() {
        let (now, hour) = (unix_us(), 3_600_000_000);
        assert!(ahead(now - hour).is_none() && ahead(now + hour / 60).is_none());
        assert!(ahead(now + hour + hour / 2).is_some_and(|said| said.contains(" 1h ")));
        assert!(ahead(u64::MAX).is_some());
    }

    #[test]
    fn a_terminal_gets_nothing_that_it_obeys() {
        assert_eq!(shown("plain, ünïcode".as_bytes()), "plain, ünïcode");
        assert_eq!(shown(b"\x1b[2J\xff\x9b2J\r\n"), "\\u{1b}[2J\\xff\\x9b2J\\r\\n");
        let all: Vec<u8> = (0..=255).collect();
        assert!(!shown(&all).chars().any(char::is_control));
    }
}
