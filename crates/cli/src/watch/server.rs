//! Serves metrics over HTTP to one client at a time.
//!
//! Invariants: a request is 8 KiB at most and arrives within two seconds, or is dropped, so that no client holds up the
//! others for longer; nothing of a request is kept or printed; what is served was complete before the first byte is sent.

use crate::exit::Failure;
use crate::exposition::Form;
use seawall_sys::clock::monotonic_ns;
use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const REQUEST_BYTES_MAX: usize = 8 << 10;
const CLIENT_TIME_MAX: Duration = Duration::from_secs(2);

/// A place that is listened on.
pub(super) fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| {
        Failure::Message(format!(
            "--listen {address}: {error}; name an address of this machine and a port that is free, or port 0"
        ))
    })
}

/// Serves what `text` gives, in a thread of its own that ends with the process.
pub(super) fn serve(
    listener: TcpListener,
    text: impl Fn(Form) -> String + Send + 'static,
) -> Result<(), Failure> {
    let run = move || {
        loop {
            match listener.accept() {
                // A client that goes away, or is too slow, is its own affair.
                Ok((client, _)) => drop(answer(client, &text)),
                // Too many open files, for example: not a reason to spin.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    let spawned = std::thread::Builder::new().name("seawall-metrics".to_owned()).spawn(run);
    spawned.map(drop).map_err(|error| Failure::Message(format!("no thread for --listen: {error}")))
}

fn answer(mut client: TcpStream, text: &dyn Fn(Form) -> String) -> io::Result<()> {
    client.set_write_timeout(Some(CLIENT_TIME_MAX))?;
    let until_ns = monotonic_ns() + CLIENT_TIME_MAX.as_secs() * 1_000_000_000;
    let head = head(&mut client, &|client| {
        let left_ns = until_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_read_timeout(Some(Duration::from_nanos(left_ns)))
    })?;
    client.write_all(&response(&head, text))?;
    client.shutdown(std::net::Shutdown::Write)
}

/// Reads up to the empty line behind a request's head; as much as there is if it never comes. `wait` bounds each read.
fn head<R: Read>(from: &mut R, wait: &dyn Fn(&R) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") && head.len() < REQUEST_BYTES_MAX {
        wait(from)?;
        match from.read(&mut part)? {
            0 => break,
            bytes => head.extend_from_slice(&part[..bytes]),
        }
    }
    Ok(head)
}

/// What to answer to a request of which this is the head.
fn response(head: &[u8], text: &dyn Fn(Form) -> String) -> Vec<u8> {
    const PLAIN: &str = "text/plain; charset=utf-8";
    let request =
        std::str::from_utf8(head).ok().and_then(|head| head.split_once("\r\n\r\n")).map(|(head, _)| head);
    let line = request.and_then(|request| request.lines().next()).unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let path = words.get(1).map(|path| path.split('?').next().unwrap_or_default());
    let (status, kind, body) = match (words.as_slice(), path) {
        ([_, _, version], _) if !version.starts_with("HTTP/1.") => {
            ("505 HTTP Version Not Supported", PLAIN, "HTTP/1.0 and 1.1 are served\n".to_owned())
        }
        (["GET" | "HEAD", ..], Some("/metrics")) if words.len() == 3 => {
            let form = wanted(request.unwrap_or_default());
            ("200 OK", form.content_type(), text(form))
        }
        (["GET" | "HEAD", ..], Some(_)) if words.len() == 3 => {
            ("404 Not Found", PLAIN, "the metrics are at /metrics\n".to_owned())
        }
        ([_, _, _], _) => ("405 Method Not Allowed", PLAIN, "only GET and HEAD are served\n".to_owned()),
        _ => ("400 Bad Request", PLAIN, "this is no HTTP request\n".to_owned()),
    };
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
        String::from_utf8(response(request, &|form| format!("{form:?}\n"))).expect("text")
    }

    #[test]
    fn each_request_has_its_answer() {
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", "200 OK"),
            ("GET /metrics?x=1 HTTP/1.0\r\nHost: x\r\n\r\n", "200 OK"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK"),
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
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

    #[test]
    fn a_head_is_read_up_to_its_end_and_no_further_than_its_bound() {
        let read = |bytes: &[u8]| head(&mut &bytes[..], &|_| Ok(())).expect("read").len();
        assert_eq!(read(b"GET / HTTP/1.1\r\n\r\n"), 18);
        assert_eq!(read(b"GET"), 3);
        assert_eq!(read(&vec![b'x'; 1 << 20]), REQUEST_BYTES_MAX);
    }
}
