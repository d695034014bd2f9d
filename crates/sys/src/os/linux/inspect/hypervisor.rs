//! Detects a virtual machine and its hypervisor from firmware tables, CPUID and the kernel.
//!
//! Two names may be known: the product (Firecracker, QEMU, a cloud) and the engine under it, which CPUID reports
//! (KVM). The product is the one that emulates the disk, so it comes first: `Firecracker (KVM)`.
//!
//! Invariants: [`name`] is pure; without a name, a bare sign gives `unknown hypervisor`; a machine without any sign
//! counts as physical.

use super::machine::has_hypervisor_flag;
use super::roots::{Roots, names};
use crate::os::fallback::cpuid;
use std::fs;

#[derive(Debug, Default, Clone)]
pub(super) struct Signs {
    /// Vendor, product, board and firmware names from DMI.
    pub(super) dmi: Vec<String>,
    /// Who made the ACPI tables; only root may read it.
    pub(super) acpi_maker: Option<String>,
    /// The hardware ids of the ACPI devices.
    pub(super) acpi_devices: Vec<String>,
    /// The name that CPUID reports, on x86.
    pub(super) cpuid: Option<String>,
    /// Whether the kernel lists the CPU flag.
    pub(super) flag: bool,
    /// `/sys/hypervisor/type`, which Xen fills.
    pub(super) kernel_says: Option<String>,
    /// Whether this is Xen's first domain, which has the real disks.
    pub(super) is_first_domain: bool,
    /// The kernel's release and its command line.
    pub(super) kernel: String,
    /// The device tree's `hypervisor/compatible` and `compatible`, or s390's control program.
    pub(super) tree: String,
    /// How the leaf disks are attached.
    pub(super) transports: Vec<String>,
}

/// A part of a DMI name, and whose it is; the first row that fits wins.
const DMI: [(&str, &str); 21] = [
    ("Firecracker", "Firecracker"),
    ("Cloud Hypervisor", "Cloud Hypervisor"),
    ("crosvm", "crosvm"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("Virtual Machine", "Hyper-V"),
    ("Parallels", "Parallels"),
    ("BHYVE", "bhyve"),
    ("Apple Virtualization", "Apple Virtualization"),
    ("Amazon EC2", "Amazon Nitro"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("Alibaba Cloud", "Alibaba Cloud"),
    ("DigitalOcean", "DigitalOcean"),
    ("vServer", "Hetzner Cloud"),
    ("OpenStack", "OpenStack"),
    ("HVM domU", "Xen"),
    ("Xen", "Xen"),
    ("QEMU", "QEMU"),
    ("KVM", "KVM"),
    ("Bochs", "QEMU"),
];

const ACPI_MAKERS: [(&str, &str); 6] = [
    ("FIRECK", "Firecracker"),
    ("CLOUDH", "Cloud Hypervisor"),
    ("CROSVM", "crosvm"),
    ("VBOX", "VirtualBox"),
    ("VRTUAL", "Hyper-V"),
    ("BOCHS", "QEMU"),
];

/// Hardware ids that one product alone uses where there is no DMI.
const ACPI_DEVICES: [(&str, &str); 4] =
    [("QEMU", "QEMU"), ("FCVM", "Firecracker"), ("AMZNC10C", "Firecracker"), ("MSFT1000", "Hyper-V")];

const KERNEL: [(&str, &str); 3] = [
    ("firecracker", "Firecracker"),
    ("microsoft", "Hyper-V (WSL 2)"),
    ("User Mode Linux", "User Mode Linux"),
];

const TREE: [(&str, &str); 5] = [
    ("linux,kvm", "KVM"),
    ("linux,dummy-virt", "QEMU"),
    ("xen", "Xen"),
    ("KVM/Linux", "KVM"),
    ("z/VM", "z/VM"),
];

/// Reads the signs; `transports` are those of the leaf disks.
pub(super) fn signs(roots: &Roots, cpuinfo: &str, transports: Vec<String>) -> Signs {
    let dmi = ["sys_vendor", "product_name", "board_vendor", "board_name", "bios_vendor", "chassis_vendor"];
    let kernel = ["sys/kernel/osrelease", "cmdline"].map(|path| roots.proc_text(path).unwrap_or_default());
    let tree = ["device-tree/hypervisor/compatible", "device-tree/compatible", "sysinfo"];
    Signs {
        dmi: dmi.iter().filter_map(|name| roots.sys_text(&format!("class/dmi/id/{name}"))).collect(),
        acpi_maker: acpi_maker(roots),
        acpi_devices: names(&roots.sys.join("bus/acpi/devices")),
        cpuid: cpuid::signature().filter(|signature| !signature.is_empty()),
        flag: has_hypervisor_flag(cpuinfo),
        kernel_says: roots.sys_text("hypervisor/type"),
        is_first_domain: roots.proc_text("xen/capabilities").is_some_and(|text| text.contains("control_d")),
        kernel: kernel.join(" "),
        tree: tree.map(|path| roots.proc_text(path).unwrap_or_default()).join("\n"),
        transports,
    }
}

/// The six bytes at offset 10 of the table's header.
fn acpi_maker(roots: &Roots) -> Option<String> {
    let table = fs::read(roots.sys.join("firmware/acpi/tables/DSDT")).ok()?;
    table.get(10..16).map(|maker| String::from_utf8_lossy(maker).into_owned())
}

/// The hypervisor's name, if the signs show that there is one.
pub(super) fn name(signs: &Signs) -> Option<String> {
    let is_metal = signs.dmi.iter().any(|name| name.contains(".metal"));
    if signs.is_first_domain || is_metal {
        return None;
    }
    let maker = || row(&ACPI_MAKERS, signs.acpi_maker.as_ref()?);
    let acpi = || {
        let devices = || signs.acpi_devices.iter();
        devices()
            .find_map(|id| ACPI_DEVICES.iter().find(|(start, _)| id.starts_with(start)))
            .map(|(_, name)| *name)
    };
    let product = row(&KERNEL, &signs.kernel)
        .or_else(|| in_order(&DMI, &signs.dmi))
        .or_else(maker)
        .or_else(|| if signs.dmi.is_empty() { acpi() } else { None });
    let engine = signs.cpuid.as_deref().map(|signature| cpuid::name(signature).to_owned());
    let engine = engine.or_else(|| signs.kernel_says.as_ref().map(|text| capitalised(text)));
    let engine = engine.or_else(|| row(&TREE, &signs.tree).map(str::to_owned));
    match (product, engine) {
        (Some(product), Some(engine)) if !product.contains(&engine) => Some(format!("{product} ({engine})")),
        (Some(product), _) => Some(product.to_owned()),
        (None, Some(engine)) => Some(engine),
        (None, None) => signs_without_a_name(signs),
    }
}

/// A CPU flag, or disks that only a hypervisor plays.
fn signs_without_a_name(signs: &Signs) -> Option<String> {
    let all_are = |played: &str| !signs.transports.is_empty() && signs.transports.iter().all(|t| t == played);
    let name = match () {
        () if all_are("xen") => "Xen",
        () if all_are("vmbus") => "Hyper-V",
        () if signs.flag || all_are("virtio") => "unknown hypervisor",
        () => return None,
    };
    Some(name.to_owned())
}

fn row<'a>(rows: &[(&str, &'a str)], text: &str) -> Option<&'a str> {
    rows.iter().find(|(part, _)| text.contains(part)).map(|(_, name)| *name)
}

/// The first row that fits any of the texts: a cloud's name in one field outranks `QEMU` in another.
fn in_order<'a>(rows: &[(&str, &'a str)], texts: &[String]) -> Option<&'a str> {
    rows.iter().find(|(part, _)| texts.iter().any(|text| text.contains(part))).map(|(_, name)| *name)
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_give_a_name_and_a_real_machine_has_none() {
        let dmi = |names: &[&str]| Signs {
            dmi: names.iter().map(|n| (*n).to_owned()).collect(),
            ..Signs::default()
        };
        let kvm = || Some("KVMKVMKVM".to_owned());
        let rows: [(Signs, Option<&str>); 18] = [
            (Signs::default(), None),
            (dmi(&["Dell Inc.", "PowerEdge R640"]), None),
            (dmi(&["Microsoft Corporation", "Surface Laptop 5"]), None),
            (dmi(&["Microsoft Corporation", "Virtual Machine"]), Some("Hyper-V")),
            (dmi(&["Amazon EC2", "i3.metal"]), None),
            (Signs { cpuid: kvm(), ..dmi(&["Amazon EC2", "m5.large"]) }, Some("Amazon Nitro (KVM)")),
            (
                Signs { cpuid: kvm(), ..dmi(&["QEMU", "Standard PC", "OpenStack Foundation"]) },
                Some("OpenStack (KVM)"),
            ),
            (
                Signs { cpuid: kvm(), acpi_maker: Some("FIRECK".into()), ..Signs::default() },
                Some("Firecracker (KVM)"),
            ),
            (
                Signs { cpuid: kvm(), acpi_devices: vec!["AMZNC10C:00".into()], ..Signs::default() },
                Some("Firecracker (KVM)"),
            ),
            (Signs { acpi_devices: vec!["AMZNC10C:00".into()], ..dmi(&["Dell Inc."]) }, None),
            (Signs { cpuid: kvm(), ..Signs::default() }, Some("KVM")),
            (Signs { cpuid: Some("VMwareVMware".into()), ..dmi(&["VMware, Inc."]) }, Some("VMware")),
            (Signs { cpuid: Some("NewHvNewHv".into()), ..Signs::default() }, Some("NewHvNewHv")),
            (Signs { flag: true, ..Signs::default() }, Some("unknown hypervisor")),
            (Signs { kernel_says: Some("xen".into()), ..Signs::default() }, Some("Xen")),
            (Signs { kernel_says: Some("xen".into()), is_first_domain: true, ..Signs::default() }, None),
            (Signs { tree: "linux,kvm".into(), ..Signs::default() }, Some("KVM")),
            (Signs { transports: vec!["virtio".into()], ..Signs::default() }, Some("unknown hypervisor")),
        ];
        for (signs, expected) in rows {
            assert_eq!(name(&signs).as_deref(), expected, "{signs:?}");
        }
        let mixed = Signs { transports: vec!["virtio".into(), "nvme".into()], ..Signs::default() };
        assert_eq!(name(&mixed), None);
    }
}
