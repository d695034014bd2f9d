//! What runs in the child process that is recorded, cut off or killed?
//!
//! The log's core in a directory, writing the workload by one commit method and saying so over the control file.
//!
//! Invariant: "acked" is said after the commit returned (but for the sabotage that says it before), by one write(2)
//! that has returned before anything else is done.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use seawall::Lsn;
use seawall::sim::outside::{Layout, Writer};
use seawall::sim::rng::{Rng, mix};

use crate::directory_disk::{DirectoryDisk, Sabotage};
use crate::workload::transaction;

/// The shape of the victim's log: small segments, so that a short run rotates and recycles often.
pub(crate) const LAYOUT: Layout = Layout { block_bytes: 4096, segment_bytes: 64 * 1024 };

/// What the victim is to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Orders {
    /// The log's directory.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// The control file; standard output if absent.
    #[arg(long)]
    pub(crate) marks: Option<PathBuf>,
    /// Where the records come from.
    #[arg(long)]
    pub(crate) seed: u64,
    /// Which life this is.
    #[arg(long, default_value_t = 1)]
    pub(crate) life: u64,
    /// Transactions to commit.
    #[arg(long, default_value_t = 40)]
    pub(crate) transactions: u64,
    /// The commit method.
    #[arg(long, default_value = "direct+fdatasync")]
    pub(crate) method: String,
    /// What to leave out.
    #[arg(long, value_enum, default_value_t = Sabotage::None)]
    pub(crate) sabotage: Sabotage,
}

impl Orders {
    /// The arguments that give these orders to a child process.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let sabotage = clap::ValueEnum::to_possible_value(&self.sabotage).map_or(String::new(), |v| v.get_name().into());
        let mut arguments = vec!["victim".to_owned()];
        let mut pair = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        pair("dir", self.dir.to_string_lossy().into_owned());
        pair("seed", self.seed.to_string());
        pair("life", self.life.to_string());
        pair("transactions", self.transactions.to_string());
        pair("method", self.method.clone());
        pair("sabotage", sabotage);
        if let Some(marks) = &self.marks {
            pair("marks", marks.to_string_lossy().into_owned());
        }
        arguments
    }
}

struct Marks(Option<File>);

impl Marks {
    fn say(&mut self, text: &str) -> io::Result<()> {
        let line = format!("{text}\n");
        match &mut self.0 {
            Some(file) => file.write_all(line.as_bytes()),
            None => {
                let mut out = io::stdout().lock();
                out.write_all(line.as_bytes()).and_then(|()| out.flush())
            }
        }
    }
}

/// Follows the orders.
///
/// # Errors
/// The first failure; nothing was acknowledged after it.
pub(crate) fn run(orders: &Orders) -> Result<(), Box<dyn std::error::Error>> {
    let method = seawall_sys::methods::find(&orders.method).ok_or("no such commit method")?;
    let marks = orders.marks.as_ref().map(|path| File::options().write(true).open(path)).transpose()?;
    let mut marks = Marks(marks);
    let disk = DirectoryDisk::new(&orders.dir, method, orders.sabotage);
    let mut log = Writer::open(disk, &LAYOUT)?;
    let mut start = log.durable();
    marks.say(&format!("opened {} {start}", orders.life))?;
    let mut rng = Rng::new(mix(orders.seed ^ orders.life));
    let mut ends: Vec<Lsn> = vec![start];
    for _ in 0..orders.transactions {
        let end = log.append(&transaction(orders.seed, orders.life, start))?;
        if orders.sabotage == Sabotage::EarlyAck {
            marks.say(&format!("acked {end}"))?;
        }
        // Some batches carry several transactions.
        if !rng.one_in(4) {
            let durable = log.commit()?;
            ends.push(durable);
            marks.say(&format!("acked {durable}"))?;
        }
        if rng.one_in(12) {
            let trim = ends[rng.index(ends.len())];
            marks.say(&format!("trim {trim}"))?;
            log.trim(trim);
        }
        if rng.one_in(3) {
            log.keep()?;
        }
        start = end;
    }
    if rng.coin() {
        log.close()?;
    }
    Ok(())
}
