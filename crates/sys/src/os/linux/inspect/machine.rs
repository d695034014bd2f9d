//! Parses `/proc` for the CPU, memory, load pressure and container of the machine.
//!
//! Invariant: its only side effect is reading below [`Roots`]; a missing fact is `None`.

use super::mounts::Mount;
use super::roots::{Roots, names};
use crate::inspect::Pressure;
use std::path::Path;

pub(super) fn system(roots: &Roots) -> String {
    let name = roots.proc_text("sys/kernel/ostype").unwrap_or_else(|| "Linux".to_owned());
    let arch = std::env::consts::ARCH;
    match roots.proc_text("sys/kernel/osrelease") {
        Some(release) => format!("{name} {release} {arch}"),
        None => format!("{name} {arch}"),
    }
}

/// The CPU's name; each architecture's kernel labels it differently.
pub(super) fn cpu_model(cpuinfo: &str) -> Option<String> {
    let labels = ["model name", "cpu model", "cpu", "Hardware", "uarch"];
    let model = labels.iter().find_map(|label| labelled(cpuinfo, label).find(|value| !value.is_empty()))?;
    Some(model.to_owned())
}

pub(super) fn has_hypervisor_flag(cpuinfo: &str) -> bool {
    labelled(cpuinfo, "flags").any(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn labelled<'a>(text: &'a str, label: &'a str) -> impl Iterator<Item = &'a str> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.filter(move |(name, _)| name.trim() == label).map(|(_, value)| value.trim())
}

pub(super) fn memory_bytes(meminfo: &str) -> Option<u64> {
    let total = labelled(meminfo, "MemTotal").next()?;
    total.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

pub(super) fn pressure(roots: &Roots) -> Pressure {
    Pressure {
        load_1m: roots.proc_text("loadavg").and_then(|text| text.split_whitespace().next()?.parse().ok()),
        waiting_percent_10s: roots.proc_text("pressure/cpu").as_deref().and_then(waiting_percent_10s),
        stolen_percent: roots.proc_text("stat").as_deref().and_then(stolen_percent),
    }
}

fn waiting_percent_10s(pressure: &str) -> Option<f64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

/// Steal is the eighth number; guest time after it is already in user time.
fn stolen_percent(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
    let all = ticks.iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
    let stolen = *ticks.get(7)?;
    (all > 0).then(|| stolen as f64 / all as f64 * 100.0)
}

/// The settings of `/proc/sys/vm` whose names begin with `dirty`.
pub(super) fn writeback(roots: &Roots) -> Vec<(String, String)> {
    let all = names(&roots.proc.join("sys/vm")).into_iter().filter(|name| name.starts_with("dirty"));
    all.filter_map(|name| roots.proc_text(&format!("sys/vm/{name}")).map(|value| (name, value))).collect()
}

/// What a text shows about the container runtime that wrote it: a part of it, and the name.
const CGROUP_MARKS: [(&str, &str); 8] = [
    ("kubepods", "kubernetes"),
    ("/docker/", "docker"),
    ("/docker-", "docker"),
    ("libpod-", "podman"),
    ("/lxc/", "lxc"),
    ("/lxc.payload", "lxc"),
    ("cri-containerd", "containerd"),
    ("/garden/", "garden"),
];

/// Where runtimes keep the layers that a container's root is made of.
const LAYER_MARKS: [(&str, &str); 3] =
    [("/docker/", "docker"), ("/containers/storage/", "podman"), ("containerd", "containerd")];

/// The container runtime, if one shows: `said` is the `container` variable of this process or of the first.
pub(super) fn container(roots: &Roots, mounts: &[Mount], said: Option<&str>) -> Option<String> {
    let read = |path: &str| super::roots::text(&roots.below_root(Path::new(path)));
    let marked = |text: &str, marks: &[(&str, &str)]| {
        marks.iter().find(|(mark, _)| text.contains(mark)).map(|(_, name)| (*name).to_owned())
    };
    let exists = |path: &str| roots.below_root(Path::new(path)).exists();
    let root = mounts.iter().rfind(|mount| mount.point == Path::new("/"));
    let said = said.map(str::to_owned).or_else(|| read("/run/systemd/container"));
    let of_cgroup = || marked(&roots.proc_text("self/cgroup")?, &CGROUP_MARKS);
    let of_root = || marked(&root?.super_options.join(","), &LAYER_MARKS);
    let of_mark = || {
        // The mark stays behind when an image becomes the disk of a virtual machine; in a container the root
        // is a stack of layers or a folder of the host's file system, not a whole device.
        let is_whole_device = root.is_some_and(|root| root.device.0 != 0 && root.root == Path::new("/"));
        (exists("/.dockerenv") && !is_whole_device).then(|| "docker".to_owned())
    };
    let of_podman = || exists("/run/.containerenv").then(|| "podman".to_owned());
    said.filter(|name| !name.is_empty())
        .or_else(of_cgroup)
        .or_else(of_podman)
        .or_else(of_root)
        .or_else(of_mark)
}

/// The `container` variable in an environment block of zero-terminated strings.
pub(super) fn container_variable(environ: &[u8]) -> Option<String> {
    let value = environ.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(b"container="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_and_nonsense_is_none() {
        assert_eq!(memory_bytes("MemFree: 1 kB\nMemTotal:       49364832 kB\n"), Some(49_364_832 * 1024));
        assert_eq!(memory_bytes("MemTotal: 99999999999999999999 kB"), None);
        assert_eq!(memory_bytes(""), None);
        assert_eq!(waiting_percent_10s("some avg10=0.26 avg60=0.21 total=1\nfull avg10=0.00"), Some(0.26));
        assert_eq!(waiting_percent_10s("full avg10=0.00"), None);
        assert_eq!(stolen_percent("cpu  10 0 10 60 10 0 0 10 50 50\ncpu0 1"), Some(10.0));
        assert_eq!(stolen_percent("cpu  10 0 10 60"), None, "a kernel without steal");
        assert_eq!(stolen_percent("cpu  0 0 0 0 0 0 0 0"), None);
        assert_eq!(stolen_percent("cpux"), None);
    }

    #[test]
    fn the_cpu_is_named_whatever_the_label() {
        let x86 = "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Xeon\nflags\t\t: fpu hypervisor avx\n";
        assert_eq!(cpu_model(x86).as_deref(), Some("Xeon"));
        assert!(has_hypervisor_flag(x86));
        assert_eq!(
            cpu_model("processor: 0\ncpu\t\t: POWER9, altivec supported\n").as_deref(),
            Some("POWER9, altivec supported")
        );
        assert_eq!(cpu_model("CPU implementer : 0x41"), None);
        assert!(!has_hypervisor_flag("flags : fpu nohypervisor"));
    }

    #[test]
    fn the_first_process_shows_its_container() {
        assert_eq!(container_variable(b"PATH=/bin\0container=lxc\0X=1").as_deref(), Some("lxc"));
        assert_eq!(container_variable(b"PATH=/bin\0mycontainer=lxc"), None);
    }
}
