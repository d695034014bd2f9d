//! Example: event-sourced accounts on the log; a transfer is one transaction of two records.
//!
//! A transfer is two events in one transaction: after any crash both are there or none. The balances are computed from
//! the events, every time.
//!
//! `journal DIR deposit WHO AMOUNT | transfer FROM TO AMOUNT | balances`

use std::collections::BTreeMap;
use std::io;

use seawall::{Error, Log, Lsn, Options};

type Balances = BTreeMap<String, i64>;

fn event(who: &str, amount: i64) -> Vec<u8> {
    let mut bytes = amount.to_le_bytes().to_vec();
    bytes.extend_from_slice(who.as_bytes());
    bytes
}

fn replay(log: &Log) -> seawall::Result<Balances> {
    let mut balances = Balances::new();
    for record in log.read(Lsn::ZERO)? {
        let record = record?;
        if let Some((amount, who)) = record.payload.split_first_chunk::<8>() {
            *balances.entry(String::from_utf8_lossy(who).into_owned()).or_default() +=
                i64::from_le_bytes(*amount);
        }
    }
    Ok(balances)
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// An amount of money that changes hands. One below zero would turn a transfer round, past the check of who pays it.
fn amount(text: &str) -> io::Result<i64> {
    match text.parse() {
        Ok(amount) if amount > 0 => Ok(amount),
        _ => Err(refused(format!("{text} is no amount: give a whole number from 1 to {}", i64::MAX))),
    }
}

/// Whether `who` can receive `amount`: a sum that no longer fits could not be replayed.
fn check_room(balances: &Balances, who: &str, amount: i64) -> io::Result<()> {
    let sum = balances.get(who).copied().unwrap_or(0).checked_add(amount);
    sum.map(drop).ok_or_else(|| refused(format!("{who} has too much to receive {amount} more")))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const USAGE: &str = "journal DIR deposit WHO AMOUNT | transfer FROM TO AMOUNT | balances";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (dir, command) = words.split_first().ok_or(USAGE)?;
    let log = Log::open(dir, Options::default())?;
    let balances = replay(&log)?;
    match command {
        ["deposit", who, amount] => {
            let amount = self::amount(amount)?;
            check_room(&balances, who, amount)?;
            log.append_commit(&event(who, amount))?;
        }
        ["transfer", from, to, amount] => {
            let amount = self::amount(amount)?;
            check_room(&balances, to, amount)?;
            if balances.get(*from).copied().unwrap_or(0) < amount {
                return Err("not enough".into());
            }
            let end = log.transaction::<Error>(|tx| {
                tx.append(&event(from, -amount))?;
                tx.append(&event(to, amount))
            })?;
            log.commit(end)?;
        }
        ["balances"] => balances.iter().for_each(|(who, amount)| println!("{who} {amount}")),
        _ => return Err(USAGE.into()),
    }
    log.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Balances, amount, check_room};

    #[test]
    fn only_what_is_above_zero_is_an_amount() {
        assert_eq!(amount("100").ok(), Some(100));
        for text in ["-100", "0", "-9223372036854775808", "9223372036854775808", "1.5", ""] {
            assert!(amount(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_balance_that_would_not_fit_is_refused() {
        let balances = Balances::from([("ann".to_owned(), i64::MAX - 1)]);
        assert!(check_room(&balances, "ann", 1).is_ok());
        assert!(check_room(&balances, "ann", 2).is_err());
        assert!(check_room(&balances, "bob", i64::MAX).is_ok());
    }
}
