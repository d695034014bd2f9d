//! Refuses memory that outlives its process: only Linux says which boot of the system a file was mapped in.

use crate::commit::{OpenError, Unavailable};
use crate::directory::{Directory, Permissions};
use std::io;

const REASON: &str = "memory that outlives its process is used on Linux only";

#[derive(Debug)]
pub(crate) enum Mapping {}

impl Mapping {
    pub(crate) fn make(_: &Directory, _: &str, _: Permissions, _: usize) -> Result<Self, OpenError> {
        Err(OpenError::unavailable(REASON))
    }

    pub(crate) fn open(_: &Directory, _: &str) -> io::Result<Option<Self>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, REASON))
    }

    pub(crate) fn bytes(&self) -> usize {
        match *self {}
    }

    pub(crate) fn store(&mut self, _: usize, _: &[u8]) {
        match *self {}
    }

    pub(crate) fn publish(&mut self, _: usize, _: u64) {
        match *self {}
    }

    pub(crate) fn about_to_store(&self, _: usize, _: usize) {
        match *self {}
    }

    pub(crate) fn load(&self, _: usize, _: &mut [u8]) {
        match *self {}
    }
}

pub(crate) fn boot_id() -> Result<[u8; 16], Unavailable> {
    Err(Unavailable(REASON.to_owned()))
}
