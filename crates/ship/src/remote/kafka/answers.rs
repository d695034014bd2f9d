//! Passes librdkafka's delivery reports on, and keeps what its connections say.

use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;
use rdkafka::util::IntoOpaque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The errors of a producer's connections: a request that fails for one reports only that no answer came.
#[derive(Default)]
pub struct Connection {
    last: Mutex<Option<String>>,
    /// The last one that does not pass: a login or a certificate that one side does not accept.
    refusal: Mutex<Option<String>>,
}

/// The value, also if a thread panicked while it held the lock.
pub(crate) fn kept<T>(of: &Mutex<Option<T>>) -> MutexGuard<'_, Option<T>> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    /// The last error of a connection.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        kept(&self.last).clone()
    }

    /// The last error that a retry does not mend; it is returned once.
    pub(crate) fn take_refusal(&self) -> Option<String> {
        kept(&self.refusal).take()
    }

    fn note(&self, error: &KafkaError, reason: &str) {
        let reason = reason.trim().to_owned();
        match error.rdkafka_error_code() {
            // It does not say why.
            Some(RDKafkaErrorCode::AllBrokersDown) => return,
            Some(
                RDKafkaErrorCode::Authentication
                | RDKafkaErrorCode::SaslAuthenticationFailed
                | RDKafkaErrorCode::SSL,
            ) => drop(kept(&self.refusal).replace(reason.clone())),
            _ => {}
        }
        kept(&self.last).replace(reason);
    }
}

type Delivered<T> = dyn Fn(&Connection, &DeliveryResult<'_>, T) + Send + Sync;

/// The context of a producer, whose messages each carry a `T`.
pub struct Context<T> {
    /// What its connections say.
    pub connection: Connection,
    delivered: Box<Delivered<T>>,
}

impl<T> Context<T> {
    /// Calls `delivered` with the outcome of each message, in a thread of the producer.
    pub fn new(delivered: impl Fn(&Connection, &DeliveryResult<'_>, T) + Send + Sync + 'static) -> Self {
        Self { connection: Connection::default(), delivered: Box::new(delivered) }
    }
}

impl<T: IntoOpaque> ClientContext for Context<T> {
    fn error(&self, error: KafkaError, reason: &str) {
        self.connection.note(&error, reason);
    }
}

impl<T: IntoOpaque> ProducerContext for Context<T> {
    type DeliveryOpaque = T;

    fn delivery(&self, outcome: &DeliveryResult<'_>, message: T) {
        (self.delivered)(&self.connection, outcome, message);
    }
}
