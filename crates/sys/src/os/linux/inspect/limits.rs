//! Reads the limits that control groups put on this process: CPU time, and I/O on the devices below a folder.
//!
//! ```text
//!   version 2   cpu.max   "20000 100000"            io.max   "253:0 rbps=max wbps=1048576 riops=max wiops=300"
//!   version 1   cpu.cfs_quota_us, cpu.cfs_period_us          blkio.throttle.write_{iops,bps}_device   "253:0 300"
//! ```
//!
//! A process is bound by its group's limits and by those of every group above it.
//!
//! Invariants: what cannot be read is no limit; nothing here decides what a limit means for a figure.

use super::mounts::Mount;
use super::roots::{Roots, text};
use crate::inspect::{Device, Limit, LimitKind};
use std::path::PathBuf;

/// All limits in force, of the group itself first.
pub(super) fn limits(roots: &Roots, mounts: &[Mount], devices: &[Device]) -> Vec<Limit> {
    let groups = roots.proc_text("self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let has = |controller: &str| controllers.split(',').any(|one| one == controller);
        let is_2 = controllers.is_empty();
        for folder in folders(roots, mounts, controllers, path) {
            let read = |file: &str| text(&folder.join(file));
            if is_2 {
                found.extend(read("cpu.max").and_then(|max| cpu_max(&max)));
                found.extend(io_max(roots, devices, &read("io.max").unwrap_or_default()));
            }
            if has("cpu") {
                found.extend(read("cpu.cfs_quota_us").zip(read("cpu.cfs_period_us")).and_then(cpu_quota));
            }
            if has("blkio") {
                for (file, kind) in THROTTLES {
                    found.extend(throttled(roots, devices, file, kind, &read(file).unwrap_or_default()));
                }
            }
        }
    }
    found
}

const THROTTLES: [(&str, LimitKind); 2] = [
    ("blkio.throttle.write_iops_device", LimitKind::Requests),
    ("blkio.throttle.write_bps_device", LimitKind::Bytes),
];

/// The folders of a group and of those above it, as far as they are visible here.
fn folders(roots: &Roots, mounts: &[Mount], controllers: &str, path: &str) -> Vec<PathBuf> {
    let is_its = |mount: &&Mount| {
        let of = |controller: &str| mount.super_options.iter().any(|option| option == controller);
        match controllers {
            "" => mount.kind == "cgroup2",
            _ => mount.kind == "cgroup" && controllers.split(',').all(of),
        }
    };
    let Some(mount) = mounts.iter().find(is_its) else { return Vec::new() };
    let top = roots.below_root(&mount.point);
    let path = PathBuf::from(path);
    // In a container the mount may begin at the container's own group.
    let below = path.strip_prefix(&mount.root).or_else(|_| path.strip_prefix("/")).unwrap_or(&path);
    let own = top.join(below);
    own.ancestors().take_while(|folder| folder.starts_with(&top)).map(PathBuf::from).collect()
}

fn cpu_max(max: &str) -> Option<Limit> {
    let (quota, period) = max.split_once(' ')?;
    let most = quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?;
    Some(Limit { kind: LimitKind::Cpu, most, source: format!("cpu.max {max}") })
}

fn cpu_quota((quota, period): (String, String)) -> Option<Limit> {
    let most = quota.parse::<f64>().ok().filter(|quota| *quota > 0.0)? / period.parse::<f64>().ok()?;
    Some(Limit { kind: LimitKind::Cpu, most, source: format!("cpu.cfs_quota_us {quota} of {period}") })
}

/// The device of `number`, if it is one of `devices`.
fn named<'a>(roots: &Roots, devices: &'a [Device], number: &str) -> Option<&'a str> {
    let is = |name: &str| roots.sys_text(&format!("class/block/{name}/dev")).as_deref() == Some(number);
    devices.iter().map(|device| device.name.as_str()).find(|name| is(name))
}

fn io_max(roots: &Roots, devices: &[Device], max: &str) -> Vec<Limit> {
    let of_device = |line: &str| {
        let (number, fields) = line.split_once(' ')?;
        let name = named(roots, devices, number)?.to_owned();
        let limit = |field: &str| {
            let (key, value) = field.split_once('=')?;
            let kind = match key {
                "wiops" => LimitKind::Requests,
                "wbps" => LimitKind::Bytes,
                _ => return None,
            };
            let most = value.parse().ok()?;
            Some(Limit { kind, most, source: format!("io.max {field} of {name}") })
        };
        Some(fields.split_whitespace().filter_map(limit).collect::<Vec<_>>())
    };
    max.lines().filter_map(of_device).flatten().collect()
}

fn throttled(roots: &Roots, devices: &[Device], file: &str, kind: LimitKind, text: &str) -> Vec<Limit> {
    let of_device = |line: &str| {
        let (number, most) = line.split_once(' ')?;
        let name = named(roots, devices, number)?;
        Some(Limit { kind, most: most.parse().ok()?, source: format!("{file} {most} of {name}") })
    };
    text.lines().filter_map(of_device).collect()
}
