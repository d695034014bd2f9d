//! What handles of a queue share with their messages: this process owns the log, or is connected to the one that does.
//!
//! ```text
//! open ─► connect to the owner ──────────────► client ─► the connection ends ─► again
//!            └─ nobody ─► take the log's lock ─► owner, until it is closed ◄─ the log fails ─► again
//! ```
//!
//! What is asked and not answered is asked again of the next owner. A message that was put when the owner died may therefore be in the
//! queue twice.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use seawall_sys::clock::monotonic_ns;
use seawall_sys::fork::Home;
use seawall_sys::local_socket::LocalSocket;

use crate::broker::Broker;
use crate::call::{Answering, Call, call};
use crate::core::Reply;
use crate::error::{Error, Result};
use crate::queue::Options;
use crate::refusal::Refusal;
use crate::server::{SOCKET, Server};
use crate::wire::{self, Answer, Delivered, Request, VERSION};

/// How long a handle waits before it looks for an owner again.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// How long an owner may take to greet.
const GREETING: Duration = Duration::from_secs(5);

/// What a queue and its messages share.
pub(crate) struct Handle {
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    session: u64,
    home: Home,
    inner: Mutex<Inner>,
}

struct Inner {
    role: Role,
    /// What is asked of an owner in another process, as frames.
    asked: BTreeMap<u64, (Vec<u8>, Reply)>,
    number: u64,
    /// Messages that are out at this handle, and their attempts.
    out: HashMap<u64, u32>,
    /// Reads the owner's answers.
    thread: Option<JoinHandle<()>>,
}

enum Role {
    Owner(Arc<Broker>, Option<Server>),
    Client(Arc<Connection>),
    /// Looks for an owner.
    Neither,
    Closed,
}

/// The connection to an owner in another process.
struct Connection {
    socket: LocalSocket,
    /// What the socket had no room for, while a thread sends that.
    unsent: Mutex<Option<Vec<u8>>>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("dir", &self.dir).finish_non_exhaustive()
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    // What is not over yet is no 0.
    u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

impl Handle {
    /// Becomes the owner of the queue in `dir`, or connects to it.
    pub(crate) fn open(dir: &Path, options: Options) -> Result<Arc<Self>> {
        let handle = Arc::new(Self {
            // It is opened again when another owner ends, wherever this process is then.
            dir: std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf()),
            options,
            // Processes that were forked off draw the same numbers.
            session: (fastrand::u64(..) ^ u64::from(std::process::id()) << 32).max(1),
            home: Home::here(),
            inner: Mutex::new(Inner {
                role: Role::Neither,
                asked: BTreeMap::new(),
                number: 0,
                out: HashMap::new(),
                thread: None,
            }),
        });
        if let Some(answers) = handle.elect()? {
            handle.follow(Some(answers))?;
        }
        Ok(handle)
    }

    /// Keeps to an owner on a thread of its own.
    fn follow(self: &Arc<Self>, answers: Option<LocalSocket>) -> Result<()> {
        let of_thread = Arc::clone(self);
        let mut inner = self.inner();
        if matches!(inner.role, Role::Closed) {
            return Ok(());
        }
        let thread = std::thread::Builder::new().name("seawall-queue".into());
        let thread = thread.spawn(move || of_thread.keep(answers));
        inner.thread = Some(thread.map_err(|source| self.socket("start a thread for", source))?);
        Ok(())
    }

    /// Lets go of a log that has failed, so that another process, or this one, opens it again. `false` if it is not owned yet.
    fn give_up(self: &Arc<Self>) -> bool {
        let mut inner = self.inner();
        let role = std::mem::replace(&mut inner.role, Role::Neither);
        let Role::Owner(broker, server) = role else {
            let is_closed = matches!(role, Role::Closed);
            inner.role = role;
            return is_closed;
        };
        drop(inner);
        // Those that wait for it have its error.
        let _ = broker.close();
        if let Some(server) = server {
            server.stop();
        }
        if let Err(error) = self.follow(None) {
            self.inner().role = Role::Closed;
            self.fail(&error);
        }
        true
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_owner(&self) -> bool {
        self.home.is_here() && matches!(self.inner().role, Role::Owner(..))
    }

    /// Notes what was handed out here.
    pub(crate) fn note(&self, messages: &[Delivered]) {
        self.inner().out.extend(messages.iter().map(|message| (message.seq, message.attempts)));
    }

    fn socket(&self, operation: &'static str, source: std::io::Error) -> Error {
        Error::Socket { operation, path: self.dir.join(SOCKET), source }
    }

    /// How long an owner may take.
    #[expect(clippy::unnecessary_wraps, reason = "consumers may wait without end")]
    pub(crate) fn limit(&self) -> Option<Duration> {
        Some(self.options.answer_within)
    }

    /// Asks and waits, for at most `limit` if that is given.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        request: Request,
        limit: Option<Duration>,
        convert: impl FnOnce(Answer) -> Option<T> + Send + 'static,
    ) -> Result<T> {
        let (call, answering) = call();
        self.submit(request, reply(answering, convert), true);
        self.wait(call, limit)
    }

    pub(crate) fn wait<T>(&self, mut call: Call<T>, limit: Option<Duration>) -> Result<T> {
        let silent = || Err(Error::NoAnswer { path: self.dir.clone(), after: self.options.answer_within });
        call.wait(limit).unwrap_or_else(silent)
    }

    pub(crate) fn ask_async<T: Send + 'static>(
        &self,
        request: Request,
        convert: impl FnOnce(Answer) -> Option<T> + Send + 'static,
    ) -> Call<T> {
        let (call, answering) = call();
        self.submit(request, reply(answering, convert), false);
        call
    }

    /// As [`Handle::ask_async`]; when the call is dropped, the request is taken back.
    pub(crate) fn ask_until_dropped<T: Send + 'static>(
        self: &Arc<Self>,
        request: Request,
        convert: impl FnOnce(Answer) -> Option<T> + Send + 'static,
    ) -> Call<T> {
        let (call, answering) = call();
        let number = self.submit(request, reply(answering, convert), false);
        let handle = Arc::clone(self);
        call.or_cancel(move || {
            handle.submit(Request::Cancel { number }, Box::new(drop), false);
        })
    }

    pub(crate) fn ack(&self, seqs: Vec<u64>) -> Result<()> {
        self.ask(self.acked(seqs), self.limit(), |_| Some(()))
    }

    pub(crate) fn ack_async(&self, seqs: Vec<u64>) -> Call<()> {
        self.ask_async(self.acked(seqs), |_| Some(()))
    }

    fn acked(&self, seqs: Vec<u64>) -> Request {
        // A lock that was held when this process was forked off is held for ever.
        if self.home.is_here() {
            let mut inner = self.inner();
            for seq in &seqs {
                inner.out.remove(seq);
            }
        }
        Request::Ack { seqs }
    }

    /// Gives a message back.
    pub(crate) fn nack(&self, out: (u64, u32), delay: Duration) -> Result<()> {
        self.ask(self.given_back(out, delay), self.limit(), |_| Some(()))
    }

    pub(crate) fn nack_async(&self, out: (u64, u32), delay: Duration) -> Call<()> {
        self.ask_async(self.given_back(out, delay), |_| Some(()))
    }

    /// As [`Handle::nack`], without a delay; does not wait for the owner.
    pub(crate) fn give_back(&self, out: (u64, u32)) {
        if self.home.is_here() {
            self.submit(self.given_back(out, Duration::ZERO), Box::new(drop), false);
        }
    }

    fn given_back(&self, (seq, attempts): (u64, u32), delay: Duration) -> Request {
        if self.home.is_here()
            && let Entry::Occupied(out) = self.inner().out.entry(seq)
            && *out.get() == attempts
        {
            out.remove();
        }
        Request::Nack { seq, attempts, delay_ms: millis(delay) }
    }

    /// Returns the number of the request.
    fn submit(&self, request: Request, reply: Reply, waits: bool) -> u64 {
        if !self.home.is_here() {
            reply(Err(Error::Log(seawall::Error::Forked)));
            return 0;
        }
        let mut inner = self.inner();
        inner.number += 1;
        let number = inner.number;
        match &inner.role {
            Role::Closed => {
                drop(inner);
                reply(Err(Error::Closed));
            }
            Role::Owner(broker, _) => {
                let broker = Arc::clone(broker);
                drop(inner);
                match broker.submit((self.session, number), request, reply) {
                    Some(lsn) if waits => broker.settle(lsn),
                    Some(lsn) => broker.request(lsn),
                    None => {}
                }
            }
            Role::Client(..) | Role::Neither => match wire::frame(number, &request) {
                Ok(frame) => {
                    if let Role::Client(owner) = &inner.role {
                        owner.send(&frame);
                    }
                    inner.asked.insert(number, (frame, reply));
                }
                Err(source) => {
                    drop(inner);
                    reply(Err(self.socket("write a message to", source)));
                }
            },
        }
        number
    }

    /// Becomes the owner, or connects to it and returns the socket on which its answers come.
    fn elect(self: &Arc<Self>) -> Result<Option<LocalSocket>> {
        let began = monotonic_ns();
        let mut pause = PAUSE;
        loop {
            let connected = LocalSocket::connect(&self.dir, SOCKET, PAUSE_MAX);
            let refused = match connected.and_then(|socket| self.greet(socket)) {
                Ok(Ok(answers)) => return Ok(Some(answers)),
                Ok(Err(error)) => return Err(error),
                Err(error) => error,
            };
            if matches!(self.inner().role, Role::Closed) {
                return Err(Error::Closed);
            }
            let handle = Arc::downgrade(self);
            let on_failure = move || handle.upgrade().is_none_or(|handle| handle.give_up());
            match Broker::open(&self.dir, self.options.log.clone(), self.session, on_failure) {
                Ok(broker) => return self.own(&broker).map(|()| None),
                Err(Error::Log(seawall::Error::Locked { .. })) => {}
                Err(error) => return Err(error),
            }
            if matches!(refused.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) {
                return Err(self.socket("connect to", refused));
            }
            if Duration::from_nanos(monotonic_ns() - began) > self.options.answer_within {
                return Err(Error::NoAnswer { path: self.dir.clone(), after: self.options.answer_within });
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    fn own(&self, broker: &Arc<Broker>) -> Result<()> {
        let server = match Server::start(broker, &self.dir) {
            Ok(server) => Some(server),
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            Err(error) => {
                let _ = broker.close();
                return Err(self.socket("listen at", error));
            }
        };
        let mut inner = self.inner();
        if matches!(inner.role, Role::Closed) {
            drop(inner);
            let _ = broker.close();
            if let Some(server) = server {
                server.stop();
            }
            return Err(Error::Closed);
        }
        let out: Vec<_> = inner.out.iter().map(|(seq, attempts)| (*seq, *attempts)).collect();
        broker.enter(self.session, &out, self.options.redeliver_after.map(millis));
        inner.role = Role::Owner(Arc::clone(broker), server);
        let asked = std::mem::take(&mut inner.asked);
        drop(inner);
        for (number, (frame, reply)) in asked {
            if let Ok(Some((_, request))) = wire::read(&mut &frame[..])
                && let Some(lsn) = broker.submit((self.session, number), request, reply)
            {
                broker.request(lsn);
            }
        }
        Ok(())
    }

    /// Says to an owner what this handle is and has, and asks it what is not answered.
    fn greet(&self, mut socket: LocalSocket) -> std::io::Result<Result<LocalSocket>> {
        let greeting = Some(GREETING.min(self.options.answer_within));
        socket.set_timeouts(greeting, greeting)?;
        let out = self.inner().out.iter().map(|(seq, attempts)| (*seq, *attempts)).collect();
        let redeliver_ms = self.options.redeliver_after.map(millis);
        wire::write(
            &mut &socket,
            0,
            &Request::Hello { version: VERSION, session: self.session, out, redeliver_ms },
        )?;
        let Some((_, Answer::Hello { version })) = wire::read(&mut socket)? else {
            return Err(ErrorKind::ConnectionReset.into());
        };
        if version != VERSION {
            return Ok(Err(Error::Version { owner: version }));
        }
        socket.set_timeouts(None, Some(self.options.answer_within))?;
        let owner = Arc::new(Connection { socket: socket.try_clone()?, unsent: Mutex::default() });
        let mut inner = self.inner();
        if matches!(inner.role, Role::Closed) {
            return Ok(Err(Error::Closed));
        }
        for (frame, _) in inner.asked.values() {
            owner.send(frame);
        }
        inner.role = Role::Client(owner);
        Ok(Ok(socket))
    }

    /// Takes the owner's answers, and looks for the next owner when it ends, until this process owns the log or has closed the queue.
    fn keep(self: Arc<Self>, mut answers: Option<LocalSocket>) {
        loop {
            if let Some(mut answers) = answers.take() {
                while let Ok(Some((number, answer))) = wire::read::<Answer>(&mut answers) {
                    let asked = self.inner().asked.remove(&number);
                    if let Some((_, reply)) = asked {
                        reply(match answer {
                            Answer::Refused(refusal) => Err(refusal.error(&self.dir)),
                            answer => Ok(answer),
                        });
                    }
                }
                answers.shutdown();
            }
            answers = loop {
                let mut inner = self.inner();
                if matches!(inner.role, Role::Closed) {
                    return;
                }
                inner.role = Role::Neither;
                drop(inner);
                match self.elect() {
                    Ok(answers @ Some(_)) => break answers,
                    Ok(None) | Err(Error::Closed) => return,
                    Err(error) => self.fail(&error),
                }
                std::thread::sleep(PAUSE_MAX);
            };
        }
    }

    /// Everything that was asked fails.
    fn fail(&self, error: &Error) {
        let asked = std::mem::take(&mut self.inner().asked);
        let refusal = Refusal::of(error);
        for (_, reply) in asked.into_values() {
            reply(Err(refusal.error(&self.dir)));
        }
    }

    pub(crate) fn close(&self) -> Result<()> {
        if !self.home.is_here() {
            return Err(Error::Log(seawall::Error::Forked));
        }
        let mut inner = self.inner();
        let role = std::mem::replace(&mut inner.role, Role::Closed);
        let asked = std::mem::take(&mut inner.asked);
        let thread = inner.thread.take();
        drop(inner);
        for (_, reply) in asked.into_values() {
            reply(Err(Error::Closed));
        }
        let closed = match role {
            Role::Owner(broker, server) => {
                let closed = broker.close();
                if let Some(server) = server {
                    server.stop();
                }
                closed
            }
            Role::Client(owner) => {
                owner.socket.shutdown();
                Ok(())
            }
            Role::Neither | Role::Closed => Ok(()),
        };
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        closed
    }
}

impl Connection {
    fn unsent(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame without waiting for the owner, which may be stopped: a thread sends what there is no room for. If that fails the
    /// connection ends, and what is asked is asked again.
    fn send(self: &Arc<Self>, frame: &[u8]) {
        let mut unsent = self.unsent();
        if let Some(unsent) = &mut *unsent {
            return unsent.extend_from_slice(frame);
        }
        match self.socket.try_write(frame) {
            Ok(sent) if sent == frame.len() => {}
            Ok(sent) => {
                *unsent = Some(frame[sent..].to_vec());
                drop(unsent);
                let of_thread = Arc::clone(self);
                let thread = std::thread::Builder::new().name("seawall-send".into());
                if thread.spawn(move || of_thread.send_rest()).is_err() {
                    self.send_rest();
                }
            }
            Err(_) => self.socket.shutdown(),
        }
    }

    fn send_rest(&self) {
        loop {
            let mut unsent = self.unsent();
            let Some(rest) = unsent.take_if(|unsent| !unsent.is_empty()) else {
                *unsent = None;
                return;
            };
            *unsent = Some(Vec::new());
            drop(unsent);
            if (&self.socket).write_all(&rest).is_err() {
                self.socket.shutdown();
            }
        }
    }
}

/// Converts the answer for a call.
fn reply<T: Send + 'static>(
    answering: Answering<T>,
    convert: impl FnOnce(Answer) -> Option<T> + Send + 'static,
) -> Reply {
    Box::new(move |result| {
        let wrong = || Error::Owner { reason: "its answer is not one to this request".into() };
        answering.answer(result.and_then(|answer| convert(answer).ok_or_else(wrong)));
    })
}
