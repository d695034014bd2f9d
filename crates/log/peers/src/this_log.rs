//! Row Seawall: `append_commit` per commit, and `trim` between slices, as in its own benchmark.

use std::path::Path;
use std::sync::Arc;

use seawall::{Log, MethodChoice, Options};

use crate::floor::METHOD;
use crate::measure::Fault;
use crate::subjects::{SEGMENT_BYTES, Writer, Writers};

struct ThisLog(Arc<Log>);

pub(crate) fn open(dir: &Path, threads: usize, _: usize) -> Result<Writers, Fault> {
    let options = Options::default().segment_bytes(SEGMENT_BYTES.into());
    let log = Arc::new(Log::open(dir, options.method(MethodChoice::Named(METHOD.to_owned())))?);
    Ok((0..threads).map(|_| -> Box<dyn Writer> { Box::new(ThisLog(Arc::clone(&log))) }).collect())
}

impl Writer for ThisLog {
    fn commit(&mut self, record: &[u8]) -> Result<(), Fault> {
        self.0.append_commit(record)?;
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), Fault> {
        self.0.trim(self.0.durable_lsn())?;
        Ok(())
    }
}
