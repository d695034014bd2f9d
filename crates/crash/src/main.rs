//! Crash harness: runs the real program on recorded file systems and failing disks, and cuts the power.
//!
//! Runs the victim in child processes on file systems of its own making, cuts the power at every moment that the
//! record allows, and has the log's oracle judge each recovery. Linux, root and `/dev/fuse` are needed; parts that
//! cannot run are counted as skipped and printed.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod apart;
#[cfg(target_os = "linux")]
mod blocks;
#[cfg(target_os = "linux")]
mod bytes;
#[cfg(target_os = "linux")]
mod campaign_file;
#[cfg(target_os = "linux")]
mod codec;
#[cfg(target_os = "linux")]
mod directory_disk;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod faults;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod interrupt;
#[cfg(target_os = "linux")]
mod kill;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod memory_disk;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod rules;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod scene;
#[cfg(target_os = "linux")]
mod second;
#[cfg(target_os = "linux")]
mod soak;
#[cfg(target_os = "linux")]
mod victim;
#[cfg(target_os = "linux")]
mod workload;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("SKIPPED: crash testing of the real programs needs Linux");
    std::process::ExitCode::from(u8::from(seawall_sys::skip::in_ci()))
}
