//! Times one way of writing for the `path` scenario: only the write call lies between two clock readings.
//!
//! Invariant: files are opened before; between the two readings of the clock lies one write, with its sync if the way
//! has one, and nothing else.

use super::{BlockRequest, FILE_BYTES, NativeWrite, Trace};
use crate::latency::Latency;
use crate::measure::Attribution;
use crate::testbed::real::{Content, RealTestbed};
use crate::testbed::writers::apart;
use crate::testbed::{BlockError, Until};
use seawall_host::thread::{Accounts, pin};
use seawall_sys::buffer::Aligned;
use seawall_sys::method::Sync;
use seawall_sys::write_call::WriteCall;
use seawall_sys::{CommitHandle, Error, Target, clock};
use std::sync::atomic::Ordering;

pub(super) fn run(
    testbed: &mut RealTestbed,
    request: &BlockRequest<'_, NativeWrite>,
    until: Until<'_>,
) -> Result<Trace, BlockError> {
    let settings = request.settings;
    let bytes = settings.bytes as u64;
    let file_bytes = FILE_BYTES.max(bytes);
    let filled = Content::Filled { bytes: file_bytes, fill_bytes: settings.journal.fill_bytes };
    let path = match request.way {
        // It grows, so each block has a new one.
        NativeWrite::Call(WriteCall::Append) => testbed.fresh_file("append", Content::Growing, until)?,
        // A direct write drops the pages of what it writes; no other way is to pay for that.
        NativeWrite::Commit(method) if method.needs_alignment() => {
            testbed.file(0, "direct", filled, until)?
        }
        _ => testbed.file(0, "path", filled, until)?,
    };
    let target = Target { path, journal_bytes: file_bytes, write_bytes: settings.bytes };
    let mut writer = match request.way {
        NativeWrite::Call(call) => call.open(&target)?,
        NativeWrite::Commit(method) => seawall_sys::open(method, &target, None)?,
    };
    writer.warm(0..file_bytes)?;
    // What was written is brought to rest, so that no other row's sync writes it.
    let quiesce = settings.jvms.is_some();
    let before = quiesce.then(|| testbed.counts_of(0)).flatten();
    let mut trace = apart(|| time(&mut *writer, request, file_bytes / bytes, until))?;
    if quiesce {
        trace.counts = before.zip(testbed.counts_of(0)).map(|(before, after)| after.since(&before));
        RealTestbed::rest(&target.path)?;
    }
    Ok(trace)
}

fn time(
    writer: &mut dyn CommitHandle,
    request: &BlockRequest<'_, NativeWrite>,
    places: u64,
    until: Until<'_>,
) -> Result<Trace, Error> {
    if let Some(cpu) = request.settings.pin_to.first() {
        pin(*cpu)?;
    }
    let bytes = request.settings.bytes;
    let block = Aligned::incompressible(bytes, 1);
    let accounts = Accounts::open();
    let times = accounts.times();
    let mut attribution = Attribution::new(None, accounts.wait_ns());
    let synced = matches!(request.way, NativeWrite::Commit(method) if method.sync != Sync::None);
    let scheduled = request.pace.scheduled;
    let mut trace = Trace { response: scheduled.then(Latency::new), ..Trace::default() };
    let start_ns = clock::monotonic_ns();
    let end_ns = start_ns + until.block_ns;
    let mut due_ns = start_ns;
    let mut done_ns = start_ns;
    let mut done = 0;
    while due_ns < end_ns && done_ns < end_ns && !until.stop.load(Ordering::Relaxed) {
        clock::sleep_until(due_ns);
        let offset = done % places * bytes as u64;
        let t0 = clock::monotonic_ns();
        writer.write(offset, block.as_slice())?;
        if synced {
            writer.sync()?;
        }
        done_ns = clock::monotonic_ns();
        done += 1;
        trace.service.record(done_ns - t0);
        if let Some(response) = &mut trace.response {
            response.record(done_ns - due_ns);
        }
        attribution.after(done_ns - t0, done, &trace.service, || accounts.wait_ns());
        due_ns = if scheduled { due_ns } else { done_ns } + request.interval_ns;
    }
    trace.elapsed_ns = done_ns - start_ns;
    trace.times = accounts.times().since(&times);
    trace.tail = attribution.tail();
    Ok(trace)
}
