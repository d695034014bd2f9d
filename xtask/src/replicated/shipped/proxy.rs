//! A proxy in front of an S3-compatible store that does to requests what networks and stores do.
//!
//! ```text
//! client ──► proxy ──► store      one request a connection: head and body are read, sent on, and the answer is passed back
//! ```
//!
//! Invariants: while no [`Trouble`] is set everything is passed on as it is; the store sees every request that is not refused as a whole.

use super::next_random;
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// None reaches the store: each is answered with 503.
    Refused,
    /// None reaches the store: each connection is closed.
    Closed,
    /// What would write does not reach the store, and is answered with 403; all else does.
    WritesRefused,
    /// None reaches the store, and none is answered while it lasts.
    Silent,
    /// The store gets each, and no answer arrives.
    AnswersLost,
    /// The first half of each answer arrives.
    AnswersCut,
    /// Each takes so much longer.
    Slow(Duration),
    /// A list that was given before is given again.
    StaleLists,
}

/// How many answers to a list are kept.
const KEPT: usize = 64;
const PATIENCE: Duration = Duration::from_mins(2);
const HEAD_BYTES_MAX: usize = 64 << 10;

#[derive(Default)]
struct State {
    trouble: Option<Trouble>,
    /// One in N requests meets it, at random: a command that retries must not meet it at the same request for ever.
    one_in: u64,
    random: u64,
    met: u64,
    /// Answers to lists, the oldest first, by what was asked.
    lists: HashMap<String, Vec<Vec<u8>>>,
}

#[derive(Clone)]
pub(super) struct Proxy {
    state: Arc<Mutex<State>>,
    pub(super) port: u16,
}

impl Proxy {
    /// Listens, and passes on to the store at `to`.
    pub(super) fn start(to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(Error::at("the proxy"))?;
        let port = listener.local_addr().map_err(Error::at("the proxy"))?.port();
        let proxy = Self { state: Arc::default(), port };
        let serving = proxy.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let proxy = serving.clone();
                // What fails is a connection that ends early, which is what clients have to bear.
                std::thread::spawn(move || proxy.serve(client, to));
            }
        });
        Ok(proxy)
    }

    /// From now on, until the next call: one in N requests meets it.
    pub(super) fn set(&self, trouble: Trouble, one_in: u64) {
        self.with(|state| (state.trouble, state.one_in) = (Some(trouble), one_in));
    }

    pub(super) fn clear(&self) {
        self.with(|state| state.trouble = None);
    }

    pub(super) fn met(&self) -> u64 {
        self.with(|state| state.met)
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn serve(&self, mut client: TcpStream, to: SocketAddr) -> std::io::Result<()> {
        client.set_read_timeout(Some(PATIENCE))?;
        let Some(request) = Request::read(&mut client)? else { return Ok(()) };
        let trouble = self.with(|state| {
            let mut trouble = state.trouble;
            trouble = trouble.filter(|trouble| match trouble {
                Trouble::StaleLists => request.lists(),
                Trouble::WritesRefused => request.what.starts_with("PUT "),
                _ => true,
            });
            state.random = next_random(state.random);
            trouble = trouble.filter(|_| (state.random >> 33) % state.one_in.max(1) == 0);
            state.met += u64::from(trouble.is_some());
            trouble
        });
        match trouble {
            Some(Trouble::Refused) => {
                return client
                    .write_all(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
            Some(Trouble::Closed) => return Ok(()),
            Some(Trouble::WritesRefused) => {
                let body = "<Error><Code>AccessDenied</Code><Message>no more writes</Message></Error>";
                let length = body.len();
                return write!(
                    client,
                    "HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
            }
            Some(Trouble::Silent) => {
                while self.with(|state| state.trouble == Some(Trouble::Silent)) {
                    std::thread::sleep(Duration::from_millis(50));
                }
                return Ok(());
            }
            Some(Trouble::Slow(time)) => std::thread::sleep(time),
            Some(Trouble::StaleLists) => {
                // The oldest that is kept: the list before a few dozen others.
                let stale = self.with(|state| state.lists.get(&request.what)?.first().cloned());
                if let Some(stale) = stale {
                    return client.write_all(&stale);
                }
            }
            None | Some(Trouble::AnswersLost | Trouble::AnswersCut) => {}
        }
        let mut store = TcpStream::connect(to)?;
        store.set_read_timeout(Some(PATIENCE))?;
        store.write_all(&request.bytes)?;
        let mut answer = Vec::new();
        store.read_to_end(&mut answer)?;
        match trouble {
            Some(Trouble::AnswersLost) => return Ok(()),
            Some(Trouble::AnswersCut) => return client.write_all(&answer[..answer.len() / 2]),
            _ => {}
        }
        client.write_all(&answer)?;
        if request.lists() && answer.starts_with(b"HTTP/1.1 200") {
            self.with(|state| {
                let kept = state.lists.entry(request.what).or_default();
                kept.push(answer);
                if kept.len() > KEPT {
                    kept.remove(0);
                }
            });
        }
        Ok(())
    }
}

/// A request, as it is sent on: with the order to close the connection after the answer.
struct Request {
    /// Its first line.
    what: String,
    bytes: Vec<u8>,
}

impl Request {
    /// The next one; none if the connection ends.
    fn read(from: &mut impl Read) -> std::io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let mut more = [0; 4096];
            let count = from.read(&mut more)?;
            if count == 0 || bytes.len() > HEAD_BYTES_MAX {
                return Ok(None);
            }
            bytes.extend_from_slice(&more[..count]);
        };
        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let mut body = bytes.split_off(head);
        let already = body.len();
        body.resize(length.unwrap_or(0).max(already), 0);
        from.read_exact(&mut body[already..])?;
        let (what, rest) = text.split_once("\r\n").unwrap_or((&text, ""));
        let kept = rest
            .lines()
            .filter(|line| !line.is_empty() && !line.to_ascii_lowercase().starts_with("connection:"));
        let lines: Vec<&str> = [what].into_iter().chain(kept).chain(["Connection: close", "", ""]).collect();
        let mut bytes = lines.join("\r\n").into_bytes();
        bytes.extend(body);
        Ok(Some(Self { what: what.to_owned(), bytes }))
    }

    fn lists(&self) -> bool {
        self.what.starts_with("GET ") && self.what.contains("list-type=2")
    }
}

#[cfg(test)]
mod tests {
    use super::{Proxy, Trouble};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// A store that answers each request with its number; how many it got.
    fn store() -> (std::net::SocketAddr, &'static AtomicU64) {
        static GOT: AtomicU64 = AtomicU64::new(0);
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut request = [0; 1000];
                let count = client.read(&mut request).expect("reads");
                assert!(String::from_utf8_lossy(&request[..count]).contains("Connection: close\r\n\r\n"));
                let number = GOT.fetch_add(1, Ordering::SeqCst);
                write!(client, "HTTP/1.1 200 OK\r\n\r\n{number}").expect("answers");
            }
        });
        (address, &GOT)
    }

    #[test]
    fn every_trouble_does_what_it_says() {
        let (address, got) = store();
        let proxy = Proxy::start(address).expect("starts");
        let ask = |what: &str| {
            let mut client = TcpStream::connect(("127.0.0.1", proxy.port)).expect("connects");
            write!(client, "GET {what} HTTP/1.1\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc")
                .expect("asks");
            let mut answer = String::new();
            let _ = client.read_to_string(&mut answer);
            answer
        };
        let list = "/b?list-type=2&prefix=a";
        assert!(ask(list).ends_with("\r\n\r\n0"));
        assert!(ask(list).ends_with("\r\n\r\n1"));
        for (trouble, starts, ends, reached) in [
            (Trouble::Refused, "HTTP/1.1 503", "\r\n\r\n", 0),
            (Trouble::Closed, "", "", 0),
            (Trouble::AnswersLost, "", "", 1),
            (Trouble::AnswersCut, "HTTP/1.1", "", 1),
            (Trouble::Slow(Duration::from_millis(1)), "HTTP/1.1 200", "\r\n\r\n4", 1),
            (Trouble::StaleLists, "HTTP/1.1 200", "\r\n\r\n0", 0),
        ] {
            let (before, met) = (got.load(Ordering::SeqCst), proxy.met());
            proxy.set(trouble, 1);
            let answer = ask(list);
            assert!(answer.starts_with(starts) && answer.ends_with(ends), "{trouble:?}: {answer}");
            assert_eq!(answer.is_empty(), starts.is_empty(), "{trouble:?}: {answer}");
            assert_eq!(got.load(Ordering::SeqCst) - before, reached, "{trouble:?}");
            assert_eq!(proxy.met() - met, 1);
        }
        assert!(ask("/b/other").ends_with("\r\n\r\n5"), "what lists nothing is never stale");
        proxy.set(Trouble::WritesRefused, 1);
        assert!(ask(list).ends_with("\r\n\r\n6"), "what writes nothing is passed on");
        proxy.clear();
        assert!(ask(list).ends_with("\r\n\r\n7"));
        proxy.set(Trouble::Refused, 2);
        let refused = (0..64).filter(|_| ask("/").starts_with("HTTP/1.1 503")).count();
        assert!((10..54).contains(&refused), "one of two is refused: {refused} of 64");
    }
}
