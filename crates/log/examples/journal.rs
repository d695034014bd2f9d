//! How does one build an event-sourced account on the log?
//!
//! A transfer is two events in one transaction: after any crash both are there or none. The balances are computed from
//! the events, every time.
//!
//! `journal DIR deposit WHO AMOUNT | transfer FROM TO AMOUNT | balances`

use std::collections::BTreeMap;

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
            *balances.entry(String::from_utf8_lossy(who).into_owned()).or_default() += i64::from_le_bytes(*amount);
        }
    }
    Ok(balances)
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
            log.append_commit(&event(who, amount.parse()?))?;
        }
        ["transfer", from, to, amount] => {
            let amount: i64 = amount.parse()?;
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
