//! Tests that an archive in an object store is read several objects at once, within the memory, by a store that counts.

use crate::{SEAWALL, folder, printed};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use seawall::{Log, Options};

/// A folder as a bucket of S3, that answers each read after a while.
struct Slow {
    root: PathBuf,
    now: AtomicUsize,
    most: AtomicUsize,
    reads: AtomicUsize,
}

impl Slow {
    fn serve(root: &Path) -> (Arc<Self>, u16) {
        let root = root.to_path_buf();
        let (now, most, reads) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let slow = Arc::new(Self { root, now, most, reads });
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("has an address").port();
        let shared = Arc::clone(&slow);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let slow = Arc::clone(&shared);
                std::thread::spawn(move || slow.talk(client));
            }
        });
        (slow, port)
    }

    fn talk(&self, mut client: TcpStream) -> Option<()> {
        let mut input = BufReader::new(client.try_clone().ok()?);
        loop {
            let (mut line, mut length) = (String::new(), 0);
            if input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            loop {
                let mut header = String::new();
                input.read_line(&mut header).ok()?;
                if let Some((name, value)) = header.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().ok()?;
                }
                if header.trim().is_empty() {
                    break;
                }
            }
            std::io::copy(&mut input.by_ref().take(length), &mut std::io::sink()).ok()?;
            let path = line.split(' ').nth(1)?.to_owned();
            let (status, body) =
                if path.contains("list-type=2") { self.list(&path) } else { self.get(&path) };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"x\"\r\nLast-Modified: Wed, 25 Nov 2026 00:00:00 GMT\r\n\r\n"
            );
            client.write_all(head.as_bytes()).and_then(|()| client.write_all(&body)).ok()?;
        }
    }

    fn get(&self, path: &str) -> (&'static str, Vec<u8>) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.reads.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(30));
        let read = std::fs::read(self.root.join(path.trim_start_matches("/bucket/log/")));
        self.now.fetch_sub(1, Ordering::SeqCst);
        read.map_or_else(|_| ("404 Not Found", Vec::new()), |bytes| ("200 OK", bytes))
    }

    fn list(&self, path: &str) -> (&'static str, Vec<u8>) {
        let value = |name: &str| {
            let mut pairs = path.split(['?', '&']).filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|(key, _)| *key == name).map_or("", |(_, value)| value);
            found.replace("%2F", "/").replace("%2f", "/")
        };
        let (prefix, after) = (value("prefix"), value("start-after"));
        let part = prefix.trim_start_matches("log/").trim_end_matches('/').to_owned();
        let entries = std::fs::read_dir(self.root.join(&part)).map(|all| all.flatten().collect::<Vec<_>>());
        let mut keys: Vec<String> = entries
            .unwrap_or_default()
            .iter()
            .map(|entry| format!("log/{part}/{}", entry.file_name().to_string_lossy()))
            .filter(|key| *key > after)
            .collect();
        keys.sort();
        let content = |key: &String| {
            format!(
                "<Contents><Key>{key}</Key><Size>1</Size><ETag>x</ETag><LastModified>2026-11-25T00:00:00.000Z</LastModified></Contents>"
            )
        };
        let contents = keys.iter().map(content).collect::<Vec<_>>().concat();
        let text = format!(
            "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
        );
        ("200 OK", text.into_bytes())
    }
}

fn seawall(words: &[&str], port: u16) -> Output {
    let mut command = Command::new(SEAWALL);
    command.args(words).stdin(Stdio::null());
    command.env("AWS_ACCESS_KEY_ID", "k").env("AWS_SECRET_ACCESS_KEY", "s").env("AWS_REGION", "us-east-1");
    command.env("AWS_ENDPOINT", format!("http://127.0.0.1:{port}")).env("AWS_ALLOW_HTTP", "true");
    command.output().expect("runs")
}

/// A read of one object after the other would never have two at once; one without a bound would take all.
#[test]
fn several_objects_are_read_at_once_as_many_as_the_memory_holds() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (from, kept) = (path("log"), path("kept"));
    let log = Log::open(&from, Options::default().segment_bytes(1 << 20)).expect("opens");
    for i in 0..150_u8 {
        log.append_commit(&vec![i; 15_000]).expect("commits");
    }
    log.close().expect("closes");
    let to = format!("folder:{kept}");
    let ship = ["log", "ship", &from, "--to", &to, "--object-bytes", "16k", "--once"];
    printed(&seawall(&ship, 1));
    let (small, large) = ((20, 32), (2, 4));
    for (words, (least, most)) in [
        (&["log", "drill", "--from", "s3://bucket/log"][..], small),
        (&["log", "rebuild", &path("again"), "--from", "s3://bucket/log", "--copy"], small),
        (&["log", "drill", "--from", "s3://bucket/log", "--memory", "64k"], large),
    ] {
        let (slow, port) = Slow::serve(Path::new(&kept));
        printed(&seawall(words, port));
        let at_once = slow.most.load(Ordering::SeqCst);
        assert!((least..=most).contains(&at_once), "{words:?}: {at_once} at once");
        let reads = slow.reads.load(Ordering::SeqCst);
        assert!((75..250).contains(&reads), "{words:?}: {reads} reads");
    }
}
