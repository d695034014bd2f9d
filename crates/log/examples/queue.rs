//! How does one build a durable queue on the log?
//!
//! Messages are records of one log; how far the consumer has come is a record of a second one, and what lies before
//! that is trimmed. A message is handed out at least once: the consumer's place is written after it is done.
//!
//! `queue DIR` sends ten messages from one thread and consumes them in another.

use seawall::{Log, Lsn, Options, Result};

/// Where the consumer stands: the last record of its own log.
fn place(log: &Log) -> Result<Lsn> {
    let mut place = Lsn::ZERO;
    for record in log.read(log.first_lsn())? {
        if let Ok(bytes) = record?.payload[..].try_into() {
            place = Lsn::new(u64::from_le_bytes(bytes));
        }
    }
    Ok(place)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("queue DIR")?;
    let messages = Log::open(format!("{dir}/messages"), Options::default())?;
    let consumer = Log::open(format!("{dir}/consumer"), Options::default())?;
    let start = place(&consumer)?.max(messages.first_lsn());
    std::thread::scope(|scope| -> std::result::Result<(), Box<dyn std::error::Error>> {
        let sender = scope.spawn(|| -> Result<()> {
            (0..10).try_for_each(|i| messages.append_commit(format!("message {i}").as_bytes()).map(drop))
        });
        let mut waiting = messages.follow(start)?;
        for _ in 0..10 {
            let Some(message) = waiting.next_record()? else { break };
            println!("{}: {}", message.lsn, String::from_utf8_lossy(&message.payload));
            let done = consumer.append_commit(&message.end.get().to_le_bytes())?;
            // Only the last place counts.
            consumer.trim(Lsn::new(done.get().saturating_sub(12)))?;
            messages.trim(message.end)?;
        }
        sender.join().map_err(|_| "the sender panicked")??;
        Ok(())
    })?;
    consumer.close()?;
    messages.close()?;
    Ok(())
}
