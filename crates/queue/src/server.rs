//! Serves the handles of other processes: two threads for each connection.
//!
//! Invariant: a handle that does not read its answers keeps nobody else waiting.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use seawall_sys::local_socket::{LocalListener, LocalSocket};

use crate::broker::Broker;
use crate::error::Error;
use crate::refusal::Refusal;
use crate::wire::{self, Answer, Request, VERSION};

/// The socket in the directory of the log.
pub(crate) const SOCKET: &str = "queue.socket";
/// How long a process that connects may take to say what it is.
const HELLO: Duration = Duration::from_secs(10);

/// Listens for other processes until it is stopped.
pub(crate) struct Server {
    accepting: Arc<Accepting>,
    listener: LocalListener,
    thread: JoinHandle<()>,
    dir: std::path::PathBuf,
}

struct Accepting {
    broker: Arc<Broker>,
    stopped: AtomicBool,
    connections: Mutex<Vec<Sender<Sent>>>,
}

enum Sent {
    Answer(u64, Answer),
    End,
}

impl Server {
    pub(crate) fn start(broker: &Arc<Broker>, dir: &Path) -> std::io::Result<Self> {
        let listener = LocalListener::bind(dir, SOCKET)?;
        let accepts = listener.try_clone()?;
        let accepting = Arc::new(Accepting {
            broker: Arc::clone(broker),
            stopped: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let of_thread = Arc::clone(&accepting);
        let thread = spawn("seawall-accept", move || of_thread.run(&accepts))?;
        Ok(Self { accepting, listener, thread, dir: dir.to_path_buf() })
    }

    /// Ends every connection after the answers that were given. The broker is closed.
    pub(crate) fn stop(self) {
        self.accepting.stopped.store(true, Ordering::SeqCst);
        let waked = self.listener.wake(&self.dir, SOCKET);
        let connections = std::mem::take(&mut *self.accepting.connections());
        for connection in &connections {
            drop(connection.send(Sent::End));
        }
        if waked {
            let _ = self.thread.join();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(work)
}

impl Accepting {
    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<Sender<Sent>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(self: Arc<Self>, listener: &LocalListener) {
        while !self.stopped.load(Ordering::SeqCst) {
            match listener.accept() {
                Ok(socket) => {
                    let accepting = Arc::clone(&self);
                    // A process that cannot be served sees its connection end, and tries again.
                    drop(spawn("seawall-serve", move || drop(accepting.serve(socket))));
                }
                Err(_) if self.stopped.load(Ordering::SeqCst) => return,
                // No descriptors are left, for one.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn serve(&self, mut socket: LocalSocket) -> std::io::Result<()> {
        socket.set_timeouts(Some(HELLO), Some(HELLO))?;
        let hello = wire::read(&mut socket)?;
        let Some((number, Request::Hello { version, session, out, redeliver_ms })) = hello else {
            return Ok(());
        };
        // Before the greeting, so that no handle counts on what cannot answer.
        let to = socket.try_clone()?;
        wire::write(&mut &socket, number, &Answer::Hello { version: VERSION })?;
        if version != VERSION {
            return Ok(());
        }
        socket.set_timeouts(None, None)?;
        let (sender, receiver) = channel();
        let writer = spawn("seawall-answer", move || write_answers(&to, &receiver))?;
        {
            let mut connections = self.connections();
            if self.stopped.load(Ordering::SeqCst) {
                return Ok(());
            }
            // Those that ended are let go.
            connections.retain(|connection| connection.send(Sent::Answer(0, Answer::Done)).is_ok());
            connections.push(sender.clone());
        }
        self.broker.enter(session, &out, redeliver_ms);
        while let Ok(Some((number, request))) = wire::read(&mut socket) {
            let sender = sender.clone();
            let reply = Box::new(move |result| {
                let answer = match result {
                    Ok(answer) => answer,
                    // The next owner answers.
                    Err(Error::Closed) => return,
                    Err(error) => Answer::Refused(Refusal::of(&error)),
                };
                // The process may be gone.
                let _ = sender.send(Sent::Answer(number, answer));
            });
            if let Some(lsn) = self.broker.submit((session, number), request, reply) {
                self.broker.request(lsn);
            }
        }
        self.broker.leave(session);
        let _ = sender.send(Sent::End);
        let _ = writer.join();
        Ok(())
    }
}

fn write_answers(mut to: &LocalSocket, answers: &Receiver<Sent>) {
    while let Ok(Sent::Answer(number, answer)) = answers.recv() {
        // Number 0 only asks whether this thread is there.
        if number > 0 && wire::write(&mut to, number, &answer).is_err() {
            break;
        }
    }
    to.shutdown();
}
