//! A queue that several processes share: put, get, acknowledge, and what was tried too often.
//!
//! Invariant: a message that was handed out is given back when its memory is freed, unless it was acknowledged before.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use seawall_queue::{DeadLetter, Message as Handed, Queue as Inner};
use seawall_sys::fork::Home;

use crate::error::{Failure, Result, call, number, quiet};
use crate::log::check;
use crate::options::Options;
use crate::pointers::{give, give_prefix, handle, into_handle, items, made, path, slice, take};

/// A queue that this process has open.
pub struct Queue {
    inner: Inner,
    home: Home,
}

/// Bytes that a caller hands in.
#[repr(C)]
#[derive(Debug)]
pub struct Bytes {
    /// Where they are; may be NULL if there are none.
    pub data: *const c_void,
    /// How many.
    pub bytes: u64,
}

/// A message of a queue.
#[repr(C)]
#[derive(Debug)]
pub struct Message {
    /// What put it returned; of one that was put by several at once, that plus its place among them.
    pub id: u64,
    /// Its bytes; never NULL if there is a message.
    pub data: *const u8,
    /// How many.
    pub bytes: u64,
    /// How often it was handed out, by any process, this time included if it was handed out now.
    pub attempts: u32,
    /// Always 0.
    pub reserved: u32,
    /// What `seawall_message_free` frees; NULL if there is no message.
    pub memory: *mut c_void,
}

/// What a message points to as its memory.
enum Memory {
    /// It is out.
    Out(Handed),
    /// It was only shown.
    Shown(DeadLetter),
}

impl Message {
    fn none() -> Self {
        let (data, memory) = (std::ptr::null(), std::ptr::null_mut());
        Self { id: 0, data, bytes: 0, attempts: 0, reserved: 0, memory }
    }

    fn of(kept: Memory) -> Self {
        // The bytes lie after what is kept, which may move.
        let (id, body, attempts) = match &kept {
            Memory::Out(message) => (message.id(), message.body(), message.attempt()),
            Memory::Shown(letter) => (letter.id, &letter.body[..], letter.attempts),
        };
        let (data, bytes) = (body.as_ptr(), body.len() as u64);
        Self { id, data, bytes, attempts, reserved: 0, memory: into_handle(kept).cast() }
    }
}

/// The queue behind a handle.
///
/// # Safety
/// As the header asks of every handle.
unsafe fn inner<'a>(queue: *const Queue) -> Result<&'a Inner> {
    // SAFETY: as the caller says.
    let queue = unsafe { handle(queue, "queue is NULL") }?;
    check(queue.home)?;
    Ok(&queue.inner)
}

/// The messages that a caller has got.
///
/// # Safety
/// `messages` is null, or points to `count` messages that nobody else uses as long as the references live.
unsafe fn handed<'a>(messages: *const Message, count: u64) -> Result<Vec<&'a Handed>> {
    // SAFETY: as the caller says.
    let messages = unsafe { items(messages, count) }?;
    let handed = messages.iter().map(|message| {
        // SAFETY: it is null, or what `Message::of` made.
        match unsafe { handle(message.memory.cast::<Memory>().cast_const(), "there is no message") }? {
            Memory::Out(message) => Ok(message),
            Memory::Shown(_) => {
                Err(Failure::Argument("the message was only shown, not handed out: get it first"))
            }
        }
    });
    handed.collect()
}

/// Frees a message and makes it none.
///
/// # Safety
/// `message` is null, or points to a message that nobody else uses.
unsafe fn free(message: *mut Message) {
    // SAFETY: as the caller says.
    let Some(message) = (unsafe { message.as_mut() }) else { return };
    let memory: *mut Memory = std::mem::replace(message, Message::none()).memory.cast();
    // SAFETY: it is null or what `Message::of` made, and the message that named it is gone.
    drop(unsafe { take(memory) });
}

/// Has `find` find at most `capacity` messages and gives them to a caller; returns how many.
///
/// # Safety
/// `messages` is null, or points to memory for `capacity` messages that nobody else uses.
unsafe fn given(
    messages: *mut Message,
    capacity: u64,
    find: impl FnOnce(u32) -> Result<Vec<Memory>>,
) -> Result<i64> {
    if messages.is_null() || capacity == 0 {
        return Err(Failure::Argument("messages is NULL, or there is room for none"));
    }
    let found = find(u32::try_from(capacity).unwrap_or(u32::MAX))?;
    let count = found.len() as u64;
    for (at, kept) in found.into_iter().enumerate() {
        // SAFETY: within the caller's memory: no more were found than it holds.
        unsafe { give(messages.wrapping_add(at), Message::of(kept), "messages is NULL") }?;
    }
    number(count)
}

/// Runs a call that shows what `list` lists of a queue.
///
/// # Safety
/// Both pointers are as the header asks.
unsafe fn listed(
    queue: *const Queue,
    messages: *mut Message,
    capacity: u64,
    list: fn(&Inner, u32) -> seawall_queue::Result<Vec<DeadLetter>>,
) -> i64 {
    call(|| {
        // SAFETY: as the caller says.
        let queue = unsafe { inner(queue) }?;
        let find = |most| Ok(list(queue, most)?.into_iter().map(Memory::Shown).collect());
        // SAFETY: as the caller says.
        unsafe { given(messages, capacity, find) }
    })
}

/// Opens the queue in the directory `dir`, or makes one, for any number of processes at once: the first that opens it owns its log and
/// serves the others, which call the same functions; when it closes the queue or ends, another one takes over. On Windows one
/// process alone uses it.
///
/// `options` are those of the log, for when this process owns it; NULL for the defaults. A message that was got and is not acknowledged
/// after `redeliver_after_ns` is handed out again; if that is negative, only when it is given back or its process is gone. A message that
/// was handed out `max_attempts` times becomes a dead letter in place of coming again; 0: never. `*queue` becomes a handle, to be freed by
/// `seawall_queue_free`, or NULL if the call fails. Waits for the disk, and for the owner, as every function of a queue: after 30 s
/// without an answer it fails with `SEAWALL_NO_ANSWER`.
///
/// Errors: `SEAWALL_NOT_A_QUEUE`, `SEAWALL_QUEUE_VERSION`, `SEAWALL_NO_ANSWER`, `SEAWALL_IO`; as `seawall_log_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_open(
    dir: *const c_char,
    options: *const Options,
    redeliver_after_ns: i64,
    max_attempts: u32,
    queue: *mut *mut Queue,
) -> i32 {
    let open = || {
        // SAFETY: as the header asks.
        let dir = unsafe { path(dir) }?;
        let mut chosen = seawall_queue::Options::default();
        // SAFETY: as the header asks.
        if let Some(options) = unsafe { options.as_ref() } {
            chosen.log = options.get();
        }
        chosen.redeliver_after = u64::try_from(redeliver_after_ns).ok().map(Duration::from_nanos);
        if max_attempts > 0 {
            chosen.max_attempts = max_attempts;
        }
        Ok(Queue { inner: Inner::open(dir, chosen)?, home: Home::here() })
    };
    // SAFETY: as the header asks.
    unsafe { made(queue, "queue is NULL", open) }
}

/// Puts `count` messages, all or none, which are not handed out before `delay_ns` is over; returns the ID of the first one when they
/// are durable, and those of the others follow. Threads and processes that put at once share a write.
///
/// Errors: as `seawall_log_append_commit`; `SEAWALL_QUEUE_OWNER`, `SEAWALL_NO_ANSWER`, `SEAWALL_CLOSED`, `SEAWALL_FORKED`. When the owner dies
/// during the call, its messages may be in the queue twice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_put(
    queue: *mut Queue,
    bodies: *const Bytes,
    count: u64,
    delay_ns: u64,
) -> i64 {
    call(|| {
        // SAFETY: as the header asks.
        let queue = unsafe { inner(queue) }?;
        // SAFETY: as the header asks.
        let bodies = unsafe { items(bodies, count) }?;
        // SAFETY: as the header asks.
        let copied = bodies.iter().map(|body| Ok(unsafe { slice(body.data, body.bytes) }?.to_vec()));
        let copied = copied.collect::<Result<_>>()?;
        number(queue.put_many(copied, Duration::from_nanos(delay_ns))?.start)
    })
}

/// Hands out the next messages, at most `capacity`: this consumer's share of those that wait, among all that do; returns how many it
/// wrote into `messages`. Each is to be acknowledged by `seawall_queue_ack`, given back by `seawall_queue_nack`, or freed by
/// `seawall_message_free`, which gives it back as well.
///
/// Waits for a message for at most `timeout_ns` nanoseconds, without end if that is negative. With 0 it does not wait, and returns 0 if
/// there is none now; a timeout is `SEAWALL_TIMED_OUT`. `seawall_queue_close` by another thread ends it with `SEAWALL_CLOSED`.
///
/// Errors: `SEAWALL_TIMED_OUT`; as `seawall_queue_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_get(
    queue: *mut Queue,
    timeout_ns: i64,
    messages: *mut Message,
    capacity: u64,
) -> i64 {
    call(|| {
        // SAFETY: as the header asks.
        let queue = unsafe { inner(queue) }?;
        let find = |most| {
            let limit = u64::try_from(timeout_ns).ok().map(Duration::from_nanos);
            let found = queue.get_many(most, limit)?;
            match limit.filter(|limit| found.is_empty() && !limit.is_zero()) {
                Some(after) => Err(seawall_queue::Error::TimedOut { after }.into()),
                None => Ok(found.into_iter().map(Memory::Out).collect()),
            }
        };
        // SAFETY: as the header asks.
        unsafe { given(messages, capacity, find) }
    })
}

/// Acknowledges messages together: returns when it is durable that they are never handed out again, and frees them. If it fails they
/// stay, to be acknowledged again or freed; they may be handed out again meanwhile, and freeing them does not give them back any more.
///
/// Errors: as `seawall_queue_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_ack(queue: *mut Queue, messages: *mut Message, count: u64) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let queue = unsafe { inner(queue) }?;
        // SAFETY: as the header asks.
        queue.ack_many(unsafe { handed(messages, count) }?)?;
        for at in 0..usize::try_from(count).unwrap_or_default() {
            // SAFETY: as the header asks; nothing refers to it any more.
            unsafe { free(messages.wrapping_add(at)) };
        }
        Ok(0)
    })
}

/// Gives a message back and frees it: it is handed out again after those that wait now, and not before `delay_ns` is over. Does nothing
/// else if another consumer has it, because the time for it was over. If it fails the message stays, as with `seawall_queue_ack`.
///
/// Errors: as `seawall_queue_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_nack(queue: *mut Queue, message: *mut Message, delay_ns: u64) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        unsafe { inner(queue) }?;
        // SAFETY: as the header asks.
        for message in unsafe { handed(message, 1) }? {
            message.nack(Duration::from_nanos(delay_ns))?;
        }
        // SAFETY: as the header asks; nothing refers to it any more.
        unsafe { free(message) };
        Ok(0)
    })
}

/// Shows the first messages that wait, at most `capacity`; they stay. Returns how many it wrote into `messages`, each to be freed by
/// `seawall_message_free`. Errors: as `seawall_queue_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_peek(queue: *mut Queue, messages: *mut Message, capacity: u64) -> i64 {
    // SAFETY: as the header asks.
    unsafe { listed(queue, messages, capacity, Inner::peek) }
}

/// As `seawall_queue_peek`, the messages that were tried too often, in the order in which that happened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_dead_letters(
    queue: *mut Queue,
    messages: *mut Message,
    capacity: u64,
) -> i64 {
    // SAFETY: as the header asks.
    unsafe { listed(queue, messages, capacity, Inner::dead_letters) }
}

/// Puts all dead letters into the queue again, as new messages; returns how many. Errors: as `seawall_queue_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_retry_dead_letters(queue: *mut Queue) -> i64 {
    // SAFETY: as the header asks.
    call(|| number(unsafe { inner(queue) }?.retry_dead_letters()?))
}

/// Removes all dead letters; returns how many. Errors: as `seawall_queue_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_drop_dead_letters(queue: *mut Queue) -> i64 {
    // SAFETY: as the header asks.
    call(|| number(unsafe { inner(queue) }?.drop_dead_letters()?))
}

/// Removes all messages that wait or are delayed, not those that are out; returns how many. Errors: as `seawall_queue_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_purge(queue: *mut Queue) -> i64 {
    // SAFETY: as the header asks.
    call(|| number(unsafe { inner(queue) }?.purge()?))
}

/// What a queue holds. Fields may be added at the end.
#[repr(C)]
#[derive(Debug)]
pub struct QueueStats {
    /// Messages that could be handed out.
    pub waiting: u64,
    /// Messages that are out at consumers.
    pub out: u64,
    /// Messages that are delayed.
    pub delayed: u64,
    /// Dead letters.
    pub dead: u64,
    /// Handles that use the queue, in all processes.
    pub handles: u64,
    /// Whether this process owns the log: 1 or 0.
    pub is_owner: u64,
}

/// Writes into `*stats`, a structure of `bytes` bytes (pass `sizeof`), what the queue holds now. Fields that this library does not know
/// become 0. Errors: as `seawall_queue_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_get_stats(
    queue: *mut Queue,
    stats: *mut QueueStats,
    bytes: u64,
) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        let queue = unsafe { inner(queue) }?;
        let seawall_queue::Stats { waiting, out, delayed, dead, handles } = queue.stats()?;
        let is_owner = queue.is_owner().into();
        let shown = QueueStats { waiting, out, delayed, dead, handles, is_owner };
        // SAFETY: as the header asks; the structure has numbers of 8 bytes only.
        unsafe { give_prefix(stats, bytes, &shown) }?;
        Ok(0)
    })
}

/// Leaves the queue: what is out at this handle waits again, and calls of other threads end with `SEAWALL_CLOSED`, as later ones do. An
/// owner makes everything durable first. Messages stay in memory until they are freed. The second time it does nothing.
///
/// Waits for the disk. Errors: `SEAWALL_FAILED`, `SEAWALL_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_close(queue: *mut Queue) -> i32 {
    call(|| {
        // SAFETY: as the header asks.
        unsafe { inner(queue) }?.close()?;
        Ok(0)
    })
}

/// Closes the queue if it is open and frees the handle; NULL is fine. No other thread may be in a call with it or use it afterwards. In
/// a process that was forked off it touches nothing, and its memory stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_queue_free(queue: *mut Queue) {
    quiet((), || {
        // SAFETY: as the header asks.
        let Some(queue) = (unsafe { take(queue) }) else { return };
        if queue.home.is_here() {
            drop(queue);
        } else {
            // Its locks may be held for ever here.
            std::mem::forget(queue);
        }
    });
}

/// Gives back a message that is out, frees the bytes of any, and makes it none; NULL and none are fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seawall_message_free(message: *mut Message) {
    // SAFETY: as the header asks.
    quiet((), || unsafe { free(message) });
}
