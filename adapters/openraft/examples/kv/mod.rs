//! What a node needs besides Raft: state, snapshots on the disk, and requests of one line of JSON each.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, error::Error, fs};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the entries up to `applied` have made.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct State<L, M> {
    pub(crate) applied: Option<L>,
    pub(crate) members: M,
    pub(crate) map: BTreeMap<String, String>,
}

impl<L, M> State<L, M> {
    /// Applies an entry, which is the JSON of a key and its value; returns the value before.
    pub(crate) fn set(&mut self, entry: &str) -> Option<String> {
        let (key, value) = serde_json::from_str(entry).ok()?;
        self.map.insert(key, value)
    }
}

/// The state, and the last snapshot.
type Both<L, M> = (State<L, M>, Option<State<L, M>>);

/// The state is in memory. A node that starts takes that of its snapshot, and Raft applies the entries after it again.
#[derive(Clone)]
pub(crate) struct Machine<L, M>(Arc<Mutex<Both<L, M>>>, PathBuf);

impl<L: Clone + PartialOrd + Serialize + DeserializeOwned, M: Clone + Default + Serialize + DeserializeOwned>
    Machine<L, M>
{
    pub(crate) fn open(file: &Path) -> io::Result<Self> {
        let bytes = if file.exists() { Some(fs::read(file)?) } else { None };
        let snapshot = bytes.map(|bytes| serde_json::from_slice::<State<L, M>>(&bytes)).transpose()?;
        let empty = State { applied: None, members: M::default(), map: BTreeMap::new() };
        Ok(Self(Arc::new(Mutex::new((snapshot.clone().unwrap_or(empty), snapshot))), file.into()))
    }

    pub(crate) fn both(&self) -> MutexGuard<'_, Both<L, M>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `state` the snapshot: durable, because the log then loses the entries that it covers.
    pub(crate) fn keep(&self, state: &State<L, M>) -> io::Result<()> {
        let (mut both, new) = (self.both(), self.1.with_extension("new"));
        // One is built beside a later one that is being installed.
        if both.1.as_ref().is_none_or(|kept| kept.applied < state.applied) {
            fs::write(&new, serde_json::to_vec(state)?)?;
            fs::File::open(&new)?.sync_all()?;
            fs::rename(&new, &self.1)?;
            fs::File::open(self.1.parent().unwrap_or(Path::new(".")))?.sync_all()?;
            both.1 = Some(state.clone());
        }
        Ok(())
    }

    /// Makes a snapshot of another node, durable first, the state.
    pub(crate) fn install(&self, snapshot: &[u8]) -> io::Result<()> {
        let state = serde_json::from_slice(snapshot)?;
        self.keep(&state)?;
        self.both().0 = state;
        Ok(())
    }
}

/// Another node.
pub(crate) struct Peer(pub(crate) String, pub(crate) Option<BufReader<TcpStream>>);

impl Peer {
    pub(crate) async fn ask<R: DeserializeOwned>(&mut self, request: &impl Serialize) -> io::Result<R> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        if self.1.is_none() {
            self.1 = Some(BufReader::new(TcpStream::connect(&self.0).await?));
        }
        // Put back when it was answered: no request reads the answer to another.
        let mut stream = self.1.take().ok_or(ErrorKind::NotConnected)?;
        stream.get_mut().write_all(&line).await?;
        line.clear();
        stream.read_until(b'\n', &mut line).await?;
        self.1 = Some(stream);
        Ok(serde_json::from_slice(&line)?)
    }
}

/// Answers requests; those of one connection in turn.
pub(crate) async fn serve<
    Q: DeserializeOwned + Send,
    F: Future<Output = serde_json::Result<Vec<u8>>> + Send,
>(
    address: &str,
    answer: impl Fn(Q) -> F + Clone + Send + Sync + 'static,
) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (mut stream, answer) = (BufReader::new(listener.accept().await?.0), answer.clone());
        tokio::spawn(async move {
            let mut line = Vec::new();
            while stream.read_until(b'\n', &mut line).await? > 0 {
                line = answer(serde_json::from_slice(&line)?).await?;
                line.push(b'\n');
                stream.get_mut().write_all(&line).await?;
                line.clear();
            }
            io::Result::Ok(())
        });
    }
}

/// Runs a node by the arguments of the program.
pub(crate) fn main(
    run: impl AsyncFnOnce(usize, &Path, &[String]) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [id, dir, addresses @ ..] = &arguments[..] else {
        return Err("these are needed: ID DIR ADDRESS...".into());
    };
    tokio::runtime::Runtime::new()?.block_on(run(id.parse()?, Path::new(dir), addresses))
}
