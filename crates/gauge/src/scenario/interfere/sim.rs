//! Computes a block of the `interfere` scenario.
//!
//! ```text
//!   a load: buffered adds 1 ms to every flush, random 200 µs, reads 20 µs
//! ```

use super::{BlockRequest, Load};
use crate::scenario::group::sim::commits;
use crate::testbed::sim::SimTestbed;
use crate::testbed::{Block, BlockError, Until};

pub(super) fn run(
    sim: &mut SimTestbed,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Block, BlockError> {
    let (load_ns, load_bytes_per_s) = match request.load {
        Load::None => (0, 0),
        Load::Buffered => (1_000_000, 400 << 20),
        Load::RandomDirect => (200_000, 40 << 20),
        Load::Reads => (20_000, 80 << 20),
    };
    let block = commits(&mut sim.state(), request.id, (1, false), (32, load_ns), until)?;
    Ok(Block { load_bytes: block.elapsed_ns / 1_000 * load_bytes_per_s / 1_000_000, ..block })
}
