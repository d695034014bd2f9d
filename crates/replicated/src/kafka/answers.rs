//! Passes librdkafka's delivery reports from its threads to the thread that waits for them.

use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;
use seawall_sys::clock;
use std::pin::pin;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;

/// A record's end: its slot, when its acknowledgement came, and what is wrong if it did not.
pub(super) type Ended = (usize, u64, Result<(), KafkaError>);

/// Passes on the outcome of each record, and keeps the last error of a connection: a request that fails for it reports
/// only that no answer came.
pub(super) struct Deliveries {
    ended: Sender<Ended>,
    last_error: Mutex<Option<String>>,
}

impl Deliveries {
    pub(super) fn new(ended: Sender<Ended>) -> Self {
        Self { ended, last_error: Mutex::default() }
    }

    /// The last error of a connection.
    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for Deliveries {
    fn error(&self, error: KafkaError, reason: &str) {
        // "All brokers are down" does not say why.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            let reason = reason.trim().to_owned();
            self.last_error.lock().unwrap_or_else(PoisonError::into_inner).replace(reason);
        }
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, outcome: &DeliveryResult<'_>, slot: usize) {
        let outcome = outcome.as_ref().map(|_| ()).map_err(|(error, _)| error.clone());
        // The receiver is gone only when the run has failed already.
        let _ = self.ended.send((slot, clock::monotonic_ns(), outcome));
    }
}

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for an administrative request, which is bounded by its own options.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
