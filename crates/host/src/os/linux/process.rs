//! Linux: reads what this process takes from /proc.

pub(crate) use crate::os::unix::process::{
    is_standard_output_closed, outlive_the_file_size_limit, shield_from_ctrl_c,
};

use crate::process::Usage;

pub(crate) fn usage() -> Option<Usage> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    // The folder itself is open while it is listed.
    let descriptors = (std::fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1);
    Some(Usage { resident_bytes: field("VmRSS:")? << 10, threads: field("Threads:")?, descriptors })
}
