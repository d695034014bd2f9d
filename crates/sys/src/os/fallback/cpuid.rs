//! Reads the CPU's brand and the hypervisor's name by CPUID on x86, for Linux too; other CPUs have no such instruction.
//!
//! Leaves used: 1 (ECX bit 31: a hypervisor is present), `0x4000_0000` (the hypervisor's name in EBX, ECX, EDX),
//! `0x4000_0003` (Hyper-V only, EBX bit 0: this partition may create others), `0x8000_0002` to `0x8000_0004`
//! (the brand, 48 bytes). Intel SDM volume 2A; Microsoft's Hypervisor Top Level Functional Specification.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__cpuid, CpuidResult};

#[cfg(target_arch = "x86_64")]
pub(crate) fn brand() -> Option<String> {
    if __cpuid(0x8000_0000).eax < 0x8000_0004 {
        return None;
    }
    let registers =
        (0x8000_0002..=0x8000_0004).map(__cpuid).flat_map(|leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx]);
    printable(registers)
}

/// The hypervisor's signature, if one shows; empty where it has none.
#[cfg(target_arch = "x86_64")]
pub(crate) fn signature() -> Option<String> {
    if __cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let CpuidResult { ebx, ecx, edx, .. } = __cpuid(0x4000_0000);
    Some(printable([ebx, ecx, edx].into_iter()).unwrap_or_default())
}

/// The hypervisor's name, if one shows.
///
/// Where Windows runs Hyper-V for itself, the system at the top is a partition too and the bit is set; but that
/// partition may create others and owns the devices, so it is no virtual machine.
#[cfg(target_arch = "x86_64")]
pub(crate) fn hypervisor() -> Option<String> {
    let signature = signature()?;
    let may_create = || __cpuid(0x4000_0000).eax >= 0x4000_0003 && __cpuid(0x4000_0003).ebx & 1 == 1;
    match signature.as_str() {
        "" => Some("unnamed".to_owned()),
        "Microsoft Hv" if may_create() => None,
        known => Some(name(known).to_owned()),
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn brand() -> Option<String> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn signature() -> Option<String> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn hypervisor() -> Option<String> {
    None
}

/// The usual name for a CPUID signature; the signature itself if it is not a known one.
pub(crate) fn name(signature: &str) -> &str {
    const NAMES: [(&str, &str); 10] = [
        ("KVMKVMKVM", "KVM"),
        ("Linux KVM Hv", "KVM"),
        ("Microsoft Hv", "Hyper-V"),
        ("VMwareVMware", "VMware"),
        ("XenVMMXenVMM", "Xen"),
        ("TCGTCGTCGTCG", "QEMU"),
        ("VBoxVBoxVBox", "VirtualBox"),
        ("bhyve bhyve", "bhyve"),
        ("prl hyperv", "Parallels"),
        ("ACRNACRNACRN", "ACRN"),
    ];
    NAMES.iter().find(|(known, _)| *known == signature).map_or(signature, |(_, name)| name)
}

#[cfg(target_arch = "x86_64")]
fn printable(registers: impl Iterator<Item = u32>) -> Option<String> {
    let bytes: Vec<u8> = registers.flat_map(u32::to_le_bytes).collect();
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn signatures_become_names_and_unknown_ones_stay() {
        assert_eq!(printable([0x4b4d_564b, 0x564b_4d56, 0x4d].into_iter()).as_deref(), Some("KVMKVMKVM"));
        assert_eq!(name("KVMKVMKVM"), "KVM");
        assert_eq!(name("SomethingNew"), "SomethingNew");
        assert_eq!(printable([0, 0].into_iter()), None);
    }
}
