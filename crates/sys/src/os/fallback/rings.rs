//! Systems without `io_uring`: refuses to make rings, with the reason.

use crate::commit::{CommitHandle, NumberedBuffer, OpenError, Target, Unavailable};
use crate::method::Method;

const REASON: &str = "io_uring is Linux'";

/// Why there are no rings.
pub(crate) fn probe() -> Result<(), Unavailable> {
    Err(Unavailable(REASON.to_owned()))
}

pub(crate) enum Rings {}

impl Rings {
    pub(crate) fn start(
        _: &'static Method,
        _: usize,
        _: usize,
        _: &[NumberedBuffer<'_>],
    ) -> Result<Self, OpenError> {
        Err(OpenError::unavailable(REASON))
    }

    pub(crate) fn forget(&self, _: u16) -> bool {
        match *self {}
    }

    pub(crate) fn open(
        &self,
        _: usize,
        _: &Target,
        _: Option<&crate::Directory>,
    ) -> Result<Box<dyn CommitHandle>, OpenError> {
        match *self {}
    }
}
