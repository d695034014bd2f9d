//! Where event loops wait for no descriptors of pipes.

use std::io;

#[derive(Debug)]
pub(crate) enum Signal {}

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        let reason = "Windows has no descriptor that event loops wait for: wait in a thread";
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }

    pub(crate) fn raise(&self) {
        match *self {}
    }

    pub(crate) fn lower(&self) -> bool {
        match *self {}
    }

    pub(crate) fn descriptor(&self) -> i32 {
        match *self {}
    }
}
