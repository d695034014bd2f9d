//! Linux: reads block counters from `/sys/block/<dev>/stat`, opened once and read again at offset 0.

use crate::counters::{Counts, busy_ms};
use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

pub(crate) struct Reader {
    files: Vec<(PathBuf, File)>,
}

impl Reader {
    pub(crate) fn open(leaves: &[&str]) -> Option<Self> {
        let open = |name: &&str| {
            let path = PathBuf::from(format!("/sys/class/block/{name}/stat"));
            File::open(&path).ok().map(|file| (path, file))
        };
        let reader = Self { files: leaves.iter().map(open).collect::<Option<_>>()? };
        reader.read().is_ok().then_some(reader)
    }

    /// All disks of this machine: what no device of the kernel's own, such as a loop device, stands for.
    pub(crate) fn disks() -> Option<Self> {
        let names = std::fs::read_dir("/sys/block").ok()?.flatten();
        let disks = names.filter(|entry| entry.path().join("device").exists());
        let disks: Vec<String> =
            disks.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        let names: Vec<&str> = disks.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| Self::open(&names))?
    }

    pub(crate) fn read(&self) -> Result<Counts> {
        self.sum(Counts::parse, Counts::plus)
    }

    pub(crate) fn busy_ms(&self) -> Result<u64> {
        self.sum(busy_ms, |one, other| one + other)
    }

    fn sum<T: Default>(&self, parse: fn(&str) -> Option<T>, plus: fn(&T, &T) -> T) -> Result<T> {
        let mut sum = T::default();
        for (path, file) in &self.files {
            let mut text = [0; 512];
            let read = file.read_at(&mut text, 0).map_err(|error| Error::new("read", path, error))?;
            let found = std::str::from_utf8(&text[..read]).ok().and_then(parse);
            let found = found.ok_or_else(|| Error::new("read", path, io::ErrorKind::InvalidData.into()))?;
            sum = plus(&sum, &found);
        }
        Ok(sum)
    }
}
