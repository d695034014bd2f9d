//! Example: a durable at-least-once queue; messages in one log, the consumer's position in a second one.
//!
//! Messages are records of one log; the consumer's position is a record of a second one, and the first log is trimmed
//! up to it. A message is delivered at least once: the consumer's position is written after the message is processed.
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

/// Sends ten messages and consumes ten; returns those, as they are printed.
fn exchange(dir: &str) -> std::result::Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut received = Vec::new();
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
            received.push(String::from_utf8_lossy(&message.payload).into_owned());
            let done = consumer.append_commit(&message.end.get().to_le_bytes())?.end;
            // Only the last place counts.
            consumer.trim(Lsn::new(done.get().saturating_sub(12)))?;
            messages.trim(message.end)?;
        }
        sender.join().map_err(|_| "the sender panicked")??;
        Ok(())
    })?;
    consumer.close()?;
    messages.close()?;
    Ok(received)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    exchange(&std::env::args().nth(1).ok_or("queue DIR")?).map(drop)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_message_is_consumed_once_and_the_queue_goes_on_after_it_was_closed() {
        // Next to the test program, because the system's temporary folder may lie in memory.
        let here = std::env::current_exe().expect("is known");
        let dir = tempfile::tempdir_in(here.parent().expect("is in one")).expect("a directory on a disk");
        let sent: Vec<String> = (0..10).map(|i| format!("message {i}")).collect();
        for _ in 0..3 {
            assert_eq!(super::exchange(dir.path().to_str().expect("is text")).expect("goes through"), sent);
        }
    }
}
