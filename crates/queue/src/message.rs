//! A message that was handed out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::call::Call;
use crate::error::Result;
use crate::handle::Handle;
use crate::wire::Delivered;

/// A message that was handed out: acknowledge it with [`Message::ack`]. Dropped, it is given back.
#[derive(Debug)]
pub struct Message {
    handle: Arc<Handle>,
    delivered: Delivered,
    /// Whether it is given back when this is dropped.
    is_out: AtomicBool,
}

impl Message {
    pub(crate) fn new(handle: &Arc<Handle>, delivered: Delivered) -> Self {
        Self { handle: Arc::clone(handle), delivered, is_out: AtomicBool::new(true) }
    }

    /// What [`Queue::put`](crate::Queue::put) returned.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.delivered.id
    }

    /// How often it was handed out, this time included, by any process.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.delivered.attempts
    }

    /// What was put.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.delivered.body
    }

    /// Returns when it is durable that the message was processed: it is never handed out again. Also after another consumer got it, because
    /// the time for it was over, or while it is delayed; and a second time.
    ///
    /// # Errors
    /// As [`Queue::put`](crate::Queue::put). The message may be handed out again then, unless this is called again and succeeds.
    pub fn ack(&self) -> Result<()> {
        self.handle.ack(vec![self.release()])
    }

    /// As [`Message::ack`], as a future.
    pub fn ack_async(&self) -> Call<()> {
        self.handle.ack_async(vec![self.release()])
    }

    /// Gives it back: it is handed out again after the messages that wait now, and not before `delay` is over. Does nothing if another
    /// consumer has it, because the time for it was over, or if it was acknowledged.
    ///
    /// # Errors
    /// As [`Queue::put`](crate::Queue::put).
    pub fn nack(&self, delay: Duration) -> Result<()> {
        let out = (self.release(), self.delivered.attempts);
        self.handle.nack(out, delay)
    }

    /// Whether that handle got it.
    pub(crate) fn is_of(&self, handle: &Arc<Handle>) -> bool {
        Arc::ptr_eq(&self.handle, handle)
    }

    /// As [`Message::nack`], as a future.
    pub fn nack_async(&self, delay: Duration) -> Call<()> {
        let out = (self.release(), self.delivered.attempts);
        self.handle.nack_async(out, delay)
    }

    /// Its number for the owner; it is not given back any more when it is dropped.
    pub(crate) fn release(&self) -> u64 {
        self.is_out.store(false, Ordering::Relaxed);
        self.delivered.seq
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if *self.is_out.get_mut() {
            self.handle.give_back((self.delivered.seq, self.delivered.attempts));
        }
    }
}
