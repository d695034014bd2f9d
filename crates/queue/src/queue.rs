//! Opens a queue, puts messages into it and gets them.

use std::borrow::Borrow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::call::{Call, call};
use crate::error::{Error, Result};
use crate::handle::{Handle, millis};
use crate::message::Message;
use crate::wire::{Answer, DeadLetter, Delivered, Request, Stats};

/// How a queue is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of the log, for when this process owns it. A log with a disk cap cannot be emptied once it is full.
    pub log: seawall::Options,
    /// A message that this handle got and has not acknowledged after that is handed out again. `None`: only when it is given back or
    /// this handle is gone.
    pub redeliver_after: Option<Duration>,
    /// A message that was handed out so often, and comes back from this handle or would be handed out to it, becomes a dead letter.
    pub max_attempts: u32,
    /// After that a call fails whose owner does not answer.
    pub answer_within: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            log: seawall::Options::default().crash_memory_bytes(1 << 20),
            redeliver_after: None,
            max_attempts: u32::MAX,
            answer_within: Duration::from_secs(30),
        }
    }
}

/// A durable queue in one directory, for any number of producers and consumers in any processes of the machine.
#[derive(Debug)]
pub struct Queue(Arc<Handle>);

impl Queue {
    /// Opens the queue in `dir`, or creates it. One of the processes that have it open owns the log; when it closes the queue or ends,
    /// another one takes over.
    ///
    /// # Errors
    /// As [`seawall::Log::open`]; [`Error::NotAQueue`]; [`Error::NoAnswer`] if another process has the log and does not answer;
    /// [`Error::Socket`] where processes cannot be connected (Windows) and another one has it.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        Handle::open(dir.as_ref(), options).map(Self)
    }

    /// Puts a message; returns its ID when it is durable. Threads and processes that put at once share a flush.
    ///
    /// # Errors
    /// As [`seawall::Log::append_commit`], [`seawall::Error::TooLong`] 8 bytes earlier; [`Error::Owner`], [`Error::NoAnswer`],
    /// [`Error::Closed`].
    pub fn put(&self, body: &[u8]) -> Result<u64> {
        self.put_many(vec![body.to_vec()], Duration::ZERO).map(|ids| ids.start)
    }

    /// Puts messages, all or none, which are not handed out before `delay` is over; returns their IDs when they are durable.
    ///
    /// # Errors
    /// As [`Queue::put`].
    pub fn put_many(&self, bodies: Vec<Vec<u8>>, delay: Duration) -> Result<Range<u64>> {
        let count = bodies.len() as u64;
        self.0.ask(Request::Put { bodies, delay_ms: millis(delay) }, self.0.limit(), ids(count))
    }

    /// As [`Queue::put_many`], as a future.
    pub fn put_async(&self, bodies: Vec<Vec<u8>>, delay: Duration) -> Call<Range<u64>> {
        let count = bodies.len() as u64;
        self.0.ask_async(Request::Put { bodies, delay_ms: millis(delay) }, ids(count))
    }

    /// The next message; waits for one, for at most `timeout` if that is given. It is durable, and its attempt outlives the process; a
    /// power cut it outlives with the next commit.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; as [`Queue::put`].
    pub fn get(&self, timeout: Option<Duration>) -> Result<Message> {
        let mut messages = self.get_many(1, timeout)?;
        messages.pop().ok_or(Error::TimedOut { after: timeout.unwrap_or_default() })
    }

    /// The next messages, at most this many: its share of those that wait, among all consumers that do. None if the time is over.
    ///
    /// # Errors
    /// As [`Queue::put`].
    pub fn get_many(&self, messages_max: u32, timeout: Option<Duration>) -> Result<Vec<Message>> {
        let limit = timeout.map(|timeout| timeout.saturating_add(self.0.options.answer_within));
        self.0.wait(self.get_async(messages_max, timeout), limit)
    }

    /// As [`Queue::get_many`], as a future. Dropped, it takes no message.
    pub fn get_async(&self, messages_max: u32, timeout: Option<Duration>) -> Call<Vec<Message>> {
        self.0.ask_until_dropped(self.wanted(messages_max, timeout), self.messages())
    }

    fn wanted(&self, messages_max: u32, timeout: Option<Duration>) -> Request {
        let options = &self.0.options;
        Request::Get {
            messages_max,
            wait_ms: timeout.map(millis),
            redeliver_ms: options.redeliver_after.map(millis),
            attempts_max: options.max_attempts,
        }
    }

    fn messages(&self) -> impl FnOnce(Answer) -> Option<Vec<Message>> + Send + 'static {
        let handle = Arc::clone(&self.0);
        move |answer| match answer {
            Answer::Messages(messages) => {
                handle.note(&messages);
                Some(messages.into_iter().map(|message| Message::new(&handle, message)).collect())
            }
            _ => None,
        }
    }

    /// Acknowledges messages together: when it returns it is durable that they are never handed out again. Those that another handle got
    /// are acknowledged by that, one by one.
    ///
    /// # Errors
    /// As [`Queue::put`].
    pub fn ack_many(&self, messages: impl IntoIterator<Item: Borrow<Message>>) -> Result<()> {
        let (own, others): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| message.borrow().is_of(&self.0));
        others.iter().try_for_each(|message| message.borrow().ack())?;
        self.0.ack(own.iter().map(|message| message.borrow().release()).collect())
    }

    /// As [`Queue::ack_many`], as a future. [`Error::NoMessage`] if another handle got one of them.
    pub fn ack_many_async(&self, messages: impl IntoIterator<Item: Borrow<Message>>) -> Call<()> {
        let messages: Vec<_> = messages.into_iter().collect();
        if let Some(other) = messages.iter().find(|message| !(*message).borrow().is_of(&self.0)) {
            let (call, answering) = call();
            answering.answer(Err(Error::NoMessage { seq: other.borrow().id() }));
            return call;
        }
        self.0.ack_async(messages.iter().map(|message| message.borrow().release()).collect())
    }

    /// The first messages that wait, at most this many: their IDs, their attempts and their bodies. They stay.
    ///
    /// # Errors
    /// As [`Queue::put`].
    pub fn peek(&self, messages_max: u32) -> Result<Vec<DeadLetter>> {
        self.0.ask(Request::Peek { messages_max }, self.0.limit(), |answer| match answer {
            Answer::Messages(messages) => Some(messages.into_iter().map(peeked).collect()),
            _ => None,
        })
    }

    /// The messages that were tried too often, at most this many, in the order in which that happened.
    ///
    /// # Errors
    /// As [`Queue::put`].
    pub fn dead_letters(&self, letters_max: u32) -> Result<Vec<DeadLetter>> {
        self.0.ask(Request::DeadLetters { letters_max }, self.0.limit(), |answer| match answer {
            Answer::DeadLetters(letters) => Some(letters),
            _ => None,
        })
    }

    /// Puts all dead letters into the queue again, as new messages; returns how many.
    ///
    /// # Errors
    /// As [`Queue::put`].
    pub fn retry_dead_letters(&self) -> Result<u64> {
        self.0.ask(Request::RetryDead, self.0.limit(), |answer| count(&answer))
    }

    /// Removes all dead letters; returns how many.
    ///
    /// # Errors
    /// As [`Queue::put`].
    pub fn drop_dead_letters(&self) -> Result<u64> {
        self.0.ask(Request::DropDead, self.0.limit(), |answer| count(&answer))
    }

    /// Removes all messages that wait or are delayed, not those that are out; returns how many.
    ///
    /// # Errors
    /// As [`Queue::put`].
    pub fn purge(&self) -> Result<u64> {
        self.0.ask(Request::Purge, self.0.limit(), |answer| count(&answer))
    }

    /// What the queue holds now.
    ///
    /// # Errors
    /// As [`Queue::put`].
    pub fn stats(&self) -> Result<Stats> {
        self.0.ask(Request::Stats, self.0.limit(), |answer| match answer {
            Answer::Stats(stats) => Some(stats),
            _ => None,
        })
    }

    /// Whether this process owns the log now.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.0.is_owner()
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Leaves the queue: what is out at this handle waits again, calls that wait get [`Error::Closed`]. An owner makes everything durable
    /// first. Does nothing the second time.
    ///
    /// # Errors
    /// As [`seawall::Log::close`].
    pub fn close(&self) -> Result<()> {
        self.0.close()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Whoever wants to know closes it.
        let _ = self.0.close();
    }
}

fn ids(count: u64) -> impl FnOnce(Answer) -> Option<Range<u64>> + Send + 'static {
    move |answer| match answer {
        Answer::Put { first } => Some(first..first.saturating_add(count)),
        _ => None,
    }
}

fn count(answer: &Answer) -> Option<u64> {
    if let Answer::Count(count) = answer { Some(*count) } else { None }
}

fn peeked(message: Delivered) -> DeadLetter {
    DeadLetter { id: message.id, attempts: message.attempts, body: message.body }
}
