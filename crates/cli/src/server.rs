//! Serves metrics and health over HTTP to many clients in one thread: a silent or slow client does not delay the others.
//!
//! ```text
//!   no client ──► sleeps in accept ──► clients ──► each is read from and written to as far as it goes, every 5 ms
//!                                                  └─► its answer is out, it went away, or two seconds are over: dropped
//! ```
//!
//! Invariants: a request is 8 KiB at most; a client has two seconds, and the oldest goes when there are too many; nothing of
//! a request is kept or printed; what is served was complete before the first byte is sent.

use crate::exit::Failure;
use crate::exposition::Form;
use seawall_sys::clock::monotonic_ns;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const REQUEST_BYTES_MAX: usize = 8 << 10;
const CLIENT_NS_MAX: u64 = 2_000_000_000;
/// More clients than these at once are no scrapers; each takes a descriptor.
const CLIENTS_MAX: usize = 256;
/// The interval at which clients are polled.
const EVERY: Duration = Duration::from_millis(5);

pub(crate) struct Page {
    status: &'static str,
    kind: &'static str,
    body: String,
}

const PLAIN: &str = "text/plain; charset=utf-8";

impl Page {
    pub(crate) fn metrics(form: Form, body: String) -> Self {
        Self { status: "200 OK", kind: form.content_type(), body }
    }

    pub(crate) fn health(is_well: bool, body: String) -> Self {
        Self { status: if is_well { "200 OK" } else { "503 Service Unavailable" }, kind: PLAIN, body }
    }

    fn plain(status: &'static str, body: &str) -> Self {
        Self { status, kind: PLAIN, body: body.to_owned() }
    }
}

/// Serves the page of a path, metrics in the form that the client prefers.
pub(crate) trait Pages: Fn(&str, Form) -> Option<Page> {}

impl<F: Fn(&str, Form) -> Option<Page>> Pages for F {}

pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| {
        Failure::Message(format!(
            "--listen {address}: {error}; name an address of this machine and a port that is free, or port 0"
        ))
    })
}

/// Serves `pages`, in a thread of its own that ends with the process.
pub(crate) fn serve(listener: TcpListener, pages: impl Pages + Send + 'static) -> Result<(), Failure> {
    let run = move || {
        let mut clients: Vec<Client<TcpStream>> = Vec::new();
        loop {
            accept(&listener, &mut clients);
            let now_ns = monotonic_ns();
            clients.retain_mut(|client| {
                let stays = client.until_ns > now_ns && client.go_on(&pages).unwrap_or(false);
                if !stays {
                    // A client that goes away, or is too slow, is its own affair.
                    let _ = client.stream.shutdown(Shutdown::Write);
                }
                stays
            });
            if !clients.is_empty() {
                std::thread::sleep(EVERY);
            }
        }
    };
    let spawned = std::thread::Builder::new().name("seawall-metrics".to_owned()).spawn(run);
    spawned.map(drop).map_err(|error| Failure::Message(format!("no thread for --listen: {error}")))
}

fn accept(listener: &TcpListener, clients: &mut Vec<Client<TcpStream>>) {
    loop {
        let accepted = listener
            .set_nonblocking(!clients.is_empty())
            .and_then(|()| listener.accept())
            .and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok(stream)
            });
        match accepted {
            Ok(stream) => {
                if clients.len() >= CLIENTS_MAX {
                    clients.remove(0);
                }
                clients.push(Client::new(stream, monotonic_ns() + CLIENT_NS_MAX));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => {
                // Too many open files, for example: not a reason to spin.
                std::thread::sleep(Duration::from_millis(100));
                return;
            }
        }
    }
}

struct Client<S> {
    stream: S,
    until_ns: u64,
    head: Vec<u8>,
    /// What is still to be sent, once it is known.
    answer: Option<Vec<u8>>,
    sent: usize,
}

impl<S: Read + Write> Client<S> {
    fn new(stream: S, until_ns: u64) -> Self {
        Self { stream, until_ns, head: Vec::new(), answer: None, sent: 0 }
    }

    /// Reads and writes as far as that goes without waiting; whether there is more to do.
    fn go_on(&mut self, pages: &dyn Pages) -> io::Result<bool> {
        if self.answer.is_none() && self.read()? {
            self.answer = Some(response(&self.head, pages));
        }
        let Some(answer) = &self.answer else { return Ok(true) };
        while self.sent < answer.len() {
            match self.stream.write(&answer[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => self.sent += bytes,
                Err(error) if waits(&error) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Reads up to the empty line after a request's head, or as much as a request may have; whether that is all.
    fn read(&mut self) -> io::Result<bool> {
        let mut part = [0; 1024];
        while !self.head.windows(4).any(|four| four == b"\r\n\r\n") && self.head.len() < REQUEST_BYTES_MAX {
            match self.stream.read(&mut part) {
                Ok(0) => break,
                Ok(bytes) => self.head.extend_from_slice(&part[..bytes]),
                Err(error) if waits(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// What to answer to a request of which this is the head.
fn response(head: &[u8], pages: &dyn Pages) -> Vec<u8> {
    let request =
        std::str::from_utf8(head).ok().and_then(|head| head.split_once("\r\n\r\n")).map(|(head, _)| head);
    let line = request.and_then(|request| request.lines().next()).unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let path = words.get(1).map(|path| path.split('?').next().unwrap_or_default());
    let page = match (words.as_slice(), path) {
        ([_, _, version], _) if !version.starts_with("HTTP/1.") => {
            Page::plain("505 HTTP Version Not Supported", "HTTP/1.0 and 1.1 are served\n")
        }
        (["GET" | "HEAD", ..], Some(path)) if words.len() == 3 => {
            pages(path, wanted(request.unwrap_or_default()))
                .unwrap_or_else(|| Page::plain("404 Not Found", "the metrics are at /metrics\n"))
        }
        ([_, _, _], _) => Page::plain("405 Method Not Allowed", "only GET and HEAD are served\n"),
        _ => Page::plain("400 Bad Request", "not an HTTP request\n"),
    };
    let Page { status, kind, body } = page;
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let mut response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    if words.first() != Some(&"HEAD") {
        response.push_str(&body);
    }
    response.into_bytes()
}

/// The form that a client prefers, by its `Accept`; the older one unless it asks for the other.
fn wanted(request: &str) -> Form {
    let headers = request.lines().skip(1).filter_map(|line| line.split_once(':'));
    let accepts = headers.filter(|(name, _)| name.eq_ignore_ascii_case("accept")).map(|(_, value)| value);
    let mut best = [0.0_f64; 2];
    for range in accepts.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let (mut weight, mut version) = (1.0, "");
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name {
                "q" => weight = value.parse().unwrap_or(0.0),
                "version" => version = value,
                _ => {}
            }
        }
        match (kind.as_str(), version) {
            ("application/openmetrics-text", "" | "1.0.0") => best[1] = best[1].max(weight),
            ("text/plain", "" | "0.0.4") | ("text/*" | "*/*", _) => best[0] = best[0].max(weight),
            _ => {}
        }
    }
    if best[1] > 0.0 && best[1] >= best[0] { Form::OpenMetrics } else { Form::Text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(request: &[u8]) -> String {
        let pages = |path: &str, form| match path {
            "/metrics" => Some(Page::metrics(form, format!("{form:?}\n"))),
            "/health" => Some(Page::health(false, "away\n".to_owned())),
            _ => None,
        };
        String::from_utf8(response(request, &pages)).expect("text")
    }

    #[test]
    fn each_request_has_its_answer() {
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", "200 OK"),
            ("GET /metrics?x=1 HTTP/1.0\r\nHost: x\r\n\r\n", "200 OK"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK"),
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("GET /health HTTP/1.1\r\n\r\n", "503 Service Unavailable"),
            ("GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            ("GET /metrics HTTP/2\r\n\r\n", "505 HTTP Version Not Supported"),
            ("GET /metrics\r\n\r\n", "400 Bad Request"),
            ("GET /metrics HTTP/1.1", "400 Bad Request"),
            ("\x16\x03\x01\r\n\r\n", "400 Bad Request"),
            ("", "400 Bad Request"),
        ] {
            let answer = answered(request.as_bytes());
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request:?}: {answer}");
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            let length = if request.starts_with("HEAD") { 5 } else { body.len() };
            assert!(head.contains(&format!("Content-Length: {length}\r\n")), "{answer}");
            assert_eq!(body.is_empty(), request.starts_with("HEAD"), "{answer}");
        }
        assert!(answered(b"\xff\xfe\r\n\r\n").contains("400"));
    }

    #[test]
    fn the_form_is_the_one_that_is_preferred() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, form) in [
            (prometheus, Form::OpenMetrics),
            ("application/openmetrics-text", Form::OpenMetrics),
            ("application/openmetrics-text; version=0.0.1", Form::Text),
            ("application/openmetrics-text;q=0.1, text/plain;q=0.2", Form::Text),
            ("application/openmetrics-text;q=0", Form::Text),
            ("*/*", Form::Text),
            ("text/html,*/*;q=0.8", Form::Text),
            ("", Form::Text),
        ] {
            assert_eq!(wanted(&format!("GET /metrics HTTP/1.1\r\naCCept: {accept}")), form, "{accept}");
        }
        assert_eq!(wanted("GET /metrics HTTP/1.1"), Form::Text);
    }

    /// A client that has sent so much, and takes so much of an answer at once.
    struct Peer {
        sent: Vec<u8>,
        takes: usize,
        taken: Vec<u8>,
    }

    impl Read for Peer {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let bytes = self.sent.len().min(into.len());
            if bytes == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            into[..bytes].copy_from_slice(&self.sent[..bytes]);
            self.sent.drain(..bytes);
            Ok(bytes)
        }
    }

    impl Write for Peer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let takes = self.takes.min(bytes.len());
            self.takes -= takes;
            self.taken.extend_from_slice(&bytes[..takes]);
            if takes == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(takes) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_client_is_served_in_pieces_and_no_further_than_the_bound_of_a_request() {
        let text = |_: &str, form: Form| Some(Page::metrics(form, "x".repeat(5000)));
        let client =
            |sent: &[u8]| Client::new(Peer { sent: sent.to_vec(), takes: 3000, taken: Vec::new() }, 0);
        let mut silent = client(b"GET /metrics HTTP/1.1\r\n");
        assert!(silent.go_on(&text).expect("waits") && silent.stream.taken.is_empty());
        silent.stream.sent = b"\r\n".to_vec();
        assert!(silent.go_on(&text).expect("waits") && silent.stream.taken.len() == 3000);
        silent.stream.takes = 1 << 20;
        assert!(!silent.go_on(&text).expect("is done"));
        assert!(silent.stream.taken.starts_with(b"HTTP/1.1 200") && silent.stream.taken.len() > 5000);
        let mut endless = client(&vec![b'x'; 1 << 20]);
        assert!(!endless.go_on(&text).expect("is done"));
        assert_eq!(endless.head.len(), REQUEST_BYTES_MAX);
        assert!(endless.stream.taken.starts_with(b"HTTP/1.1 400"));
    }
}
