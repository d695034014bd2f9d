//! Systems on which processes share no words to sleep on: refuses with the reason.

use crate::directory::Directory;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

fn refusal() -> io::Error {
    let why = "processes share words to sleep on where there is futex(2) and /dev/shm, on Linux";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

pub(crate) fn folder() -> io::Result<Directory> {
    Err(refusal())
}

pub(crate) fn identity(_: &File) -> io::Result<[u64; 2]> {
    Err(refusal())
}

pub(crate) fn have_one_owner(_: &File, _: &File) -> io::Result<bool> {
    Err(refusal())
}

pub(crate) fn fill(_: &File, _: usize) -> io::Result<()> {
    Err(refusal())
}

pub(crate) fn set_readers(_: &File, _: &File) -> io::Result<bool> {
    Err(refusal())
}

pub(crate) fn read(_: &File, _: u64, _: &mut [u8]) -> io::Result<()> {
    Err(refusal())
}

pub(crate) fn write(_: &File, _: u64, _: &[u8]) -> io::Result<()> {
    Err(refusal())
}

#[derive(Debug)]
pub(crate) enum Mapping {}

impl Mapping {
    pub(crate) fn new(_: &File, _: usize, _: bool) -> io::Result<Self> {
        Err(refusal())
    }

    pub(crate) fn word(&self, _: usize) -> &AtomicU32 {
        match *self {}
    }

    pub(crate) fn number(&self, _: usize) -> &AtomicU64 {
        match *self {}
    }

    pub(crate) fn wait(&self, _: usize, _: u32, _: Duration) {
        match *self {}
    }

    pub(crate) fn wake(&self, _: usize) {
        match *self {}
    }
}
