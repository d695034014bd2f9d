//! Windows: describes the disks under a volume by control codes to their drivers.
//!
//! A program without privileges may send all of these codes, on a handle opened without access rights.
//!
//! Invariants: an answer is read only as far as the driver filled it; a code that a driver refuses leaves its
//! fields `None` or `Unknown`; nothing is written.

use super::call::check;
use crate::durability::DeviceCache;
use crate::inspect::Device;
use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use windows_sys::Win32::Storage::FileSystem as fs;
use windows_sys::Win32::System::IO::DeviceIoControl;
use windows_sys::Win32::System::Ioctl::{
    DEVICE_SEEK_PENALTY_DESCRIPTOR, DISK_EXTENT, DISK_GEOMETRY_EX, IOCTL_DISK_GET_DRIVE_GEOMETRY_EX,
    IOCTL_STORAGE_QUERY_PROPERTY, PropertyStandardQuery, STORAGE_ACCESS_ALIGNMENT_DESCRIPTOR,
    STORAGE_DEVICE_DESCRIPTOR, STORAGE_PROPERTY_ID, STORAGE_WRITE_CACHE_PROPERTY,
    StorageAccessAlignmentProperty, StorageDeviceProperty, StorageDeviceSeekPenaltyProperty,
    StorageDeviceWriteCacheProperty, VOLUME_DISK_EXTENTS, WriteCacheDisabled, WriteCacheEnabled,
    WriteCacheTypeNone, WriteCacheTypeWriteBack, WriteCacheTypeWriteThrough, WriteThroughNotSupported,
    WriteThroughSupported,
};

/// `CTL_CODE(IOCTL_VOLUME_BASE, 0, METHOD_BUFFERED, FILE_ANY_ACCESS)` of winioctl.h.
const IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS: u32 = 0x0056_0000;

pub(super) struct Disk {
    pub(super) device: Device,
    /// "Turn off Windows write-cache buffer flushing on the device" is ticked in its properties.
    pub(super) flushes_turned_off: bool,
}

/// The disks that hold the volume of this name (`\\?\Volume{…}` or `\\.\C:`, without a backslash at the end);
/// empty where it is no volume of this machine's disks.
pub(super) fn disks(volume: &str) -> Vec<Disk> {
    let Some(volume) = open(volume) else { return Vec::new() };
    let Some(extents) = ask(&volume, IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, &[]) else { return Vec::new() };
    let mut numbers: Vec<u32> = numbers(&extents).unwrap_or_default();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(disk).collect()
}

/// The disk numbers in a `VOLUME_DISK_EXTENTS`.
fn numbers(extents: &[u8]) -> Option<Vec<u32>> {
    let count = word(extents, offset_of!(VOLUME_DISK_EXTENTS, NumberOfDiskExtents))? as usize;
    let first = offset_of!(VOLUME_DISK_EXTENTS, Extents);
    (0..count).map(|i| word(extents, first + i * size_of::<DISK_EXTENT>())).collect()
}

fn disk(number: u32) -> Disk {
    let name = format!("PhysicalDrive{number}");
    let mut device = Device::unknown(name.as_str(), "disk");
    let Some(handle) = open(&format!(r"\\.\{name}")) else {
        return Disk { device, flushes_turned_off: false };
    };
    if let Some(answer) = property(&handle, StorageDeviceProperty) {
        device.model = model(&answer);
        device.transport = word(&answer, offset_of!(STORAGE_DEVICE_DESCRIPTOR, BusType)).and_then(transport);
    }
    if let Some(answer) = property(&handle, StorageAccessAlignmentProperty) {
        let field = |offset| word(&answer, offset).map(u64::from).filter(|bytes| *bytes > 0);
        device.logical_block_bytes =
            field(offset_of!(STORAGE_ACCESS_ALIGNMENT_DESCRIPTOR, BytesPerLogicalSector));
        device.physical_block_bytes =
            field(offset_of!(STORAGE_ACCESS_ALIGNMENT_DESCRIPTOR, BytesPerPhysicalSector));
    }
    device.rotational = property(&handle, StorageDeviceSeekPenaltyProperty)
        .and_then(|answer| flag(&answer, offset_of!(DEVICE_SEEK_PENALTY_DESCRIPTOR, IncursSeekPenalty)));
    device.bytes = ask(&handle, IOCTL_DISK_GET_DRIVE_GEOMETRY_EX, &[])
        .and_then(|answer| long(&answer, offset_of!(DISK_GEOMETRY_EX, DiskSize)));
    let cache = property(&handle, StorageDeviceWriteCacheProperty).unwrap_or_default();
    device.write_cache = write_cache(&cache);
    device.fua = write_through(&cache);
    let turned_off = flag(&cache, offset_of!(STORAGE_WRITE_CACHE_PROPERTY, UserDefinedPowerProtection));
    Disk { device, flushes_turned_off: turned_off.unwrap_or(false) }
}

fn write_cache(answer: &[u8]) -> DeviceCache {
    let field = |offset| word(answer, offset).map(u32::cast_signed);
    let kind = field(offset_of!(STORAGE_WRITE_CACHE_PROPERTY, WriteCacheType));
    let enabled = field(offset_of!(STORAGE_WRITE_CACHE_PROPERTY, WriteCacheEnabled));
    match (kind, enabled) {
        (Some(kind), _) if kind == WriteCacheTypeNone || kind == WriteCacheTypeWriteThrough => {
            DeviceCache::WriteThrough
        }
        (_, Some(enabled)) if enabled == WriteCacheDisabled => DeviceCache::WriteThrough,
        (Some(kind), _) if kind == WriteCacheTypeWriteBack => DeviceCache::WriteBack,
        (_, Some(enabled)) if enabled == WriteCacheEnabled => DeviceCache::WriteBack,
        _ => DeviceCache::Unknown,
    }
}

fn write_through(answer: &[u8]) -> Option<bool> {
    let offset = offset_of!(STORAGE_WRITE_CACHE_PROPERTY, WriteThroughSupported);
    match word(answer, offset)?.cast_signed() {
        supported if supported == WriteThroughSupported => Some(true),
        supported if supported == WriteThroughNotSupported => Some(false),
        _ => None,
    }
}

/// Vendor and product; the descriptor gives their places in itself, 0 for none.
fn model(answer: &[u8]) -> Option<String> {
    let text = |offset| {
        let start = word(answer, offset).filter(|start| *start > 0)? as usize;
        let bytes = answer.get(start..)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(bytes).trim().to_owned())
    };
    let vendor = text(offset_of!(STORAGE_DEVICE_DESCRIPTOR, VendorIdOffset)).unwrap_or_default();
    let product = text(offset_of!(STORAGE_DEVICE_DESCRIPTOR, ProductIdOffset)).unwrap_or_default();
    let model = format!("{vendor} {product}").trim().to_owned();
    (!model.is_empty()).then_some(model)
}

fn transport(bus: u32) -> Option<String> {
    let name = match bus.cast_signed() {
        fs::BusTypeScsi => "scsi",
        fs::BusTypeAta | fs::BusTypeAtapi => "ata",
        fs::BusTypeSata => "sata",
        fs::BusTypeUsb => "usb",
        fs::BusTypeRAID => "raid",
        fs::BusTypeiScsi => "iscsi",
        fs::BusTypeSas => "sas",
        fs::BusTypeSd | fs::BusTypeMmc => "mmc",
        fs::BusTypeVirtual | fs::BusTypeFileBackedVirtual => "virtual",
        fs::BusTypeSpaces => "storage-spaces",
        fs::BusTypeNvme => "nvme",
        fs::BusTypeSCM => "persistent-memory",
        fs::BusTypeUfs => "ufs",
        _ => return None,
    };
    Some(name.to_owned())
}

/// A handle with no access at all: enough for questions, and open to everybody.
fn open(name: &str) -> Option<File> {
    let share = fs::FILE_SHARE_READ | fs::FILE_SHARE_WRITE | fs::FILE_SHARE_DELETE;
    OpenOptions::new().access_mode(0).share_mode(share).open(name).ok()
}

fn property(device: &File, property: STORAGE_PROPERTY_ID) -> Option<Vec<u8>> {
    // STORAGE_PROPERTY_QUERY: the property, the kind of question, and additional parameters, of which none.
    let mut query = [0; 12];
    query[0..4].copy_from_slice(&property.to_le_bytes());
    query[4..8].copy_from_slice(&PropertyStandardQuery.to_le_bytes());
    ask(device, IOCTL_STORAGE_QUERY_PROPERTY, &query)
}

/// The bytes that the driver answers; `None` if it refuses or has more to say than fits.
pub(super) fn ask(device: &File, code: u32, question: &[u8]) -> Option<Vec<u8>> {
    let mut answer = vec![0; 4096];
    let mut filled = 0;
    let room = u32::try_from(answer.len()).ok()?;
    let asked = u32::try_from(question.len()).ok()?;
    // SAFETY: both buffers are live and their lengths are passed with them; the handle is synchronous.
    let answered = check(unsafe {
        DeviceIoControl(
            device.as_raw_handle(),
            code,
            question.as_ptr().cast(),
            asked,
            answer.as_mut_ptr().cast(),
            room,
            &raw mut filled,
            std::ptr::null_mut(),
        )
    });
    answered.ok()?;
    answer.truncate(filled as usize);
    Some(answer)
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

fn long(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

fn flag(bytes: &[u8], offset: usize) -> Option<bool> {
    bytes.get(offset).map(|byte| *byte != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn the_write_cache_is_what_the_driver_says_and_unknown_if_it_says_nothing() {
        let cases = [
            // version, size, type, enabled, changeable, write-through
            (words(&[28, 28, 2, 2, 2, 2]), DeviceCache::WriteBack, Some(true)),
            (words(&[28, 28, 2, 1, 2, 1]), DeviceCache::WriteThrough, Some(false)),
            (words(&[28, 28, 1, 0, 0, 0]), DeviceCache::WriteThrough, None),
            (words(&[28, 28, 3, 2, 0, 0]), DeviceCache::WriteThrough, None),
            (words(&[28, 28, 0, 2, 0, 0]), DeviceCache::WriteBack, None),
            (words(&[28, 28, 0, 0, 0, 0]), DeviceCache::Unknown, None),
            (Vec::new(), DeviceCache::Unknown, None),
        ];
        for (answer, cache, fua) in cases {
            assert_eq!((write_cache(&answer), write_through(&answer)), (cache, fua), "{answer:?}");
        }
    }

    #[test]
    fn a_model_is_read_from_where_the_descriptor_points_and_never_past_its_end() {
        let mut answer = words(&[40, 60, 0, 36, 45, 0, 0, 17, 0]);
        answer.extend_from_slice(b"ACME    \0Disk 9000\0");
        assert_eq!(model(&answer).as_deref(), Some("ACME Disk 9000"));
        assert_eq!(transport(word(&answer, 28).expect("a bus")).as_deref(), Some("nvme"));
        assert_eq!(model(&words(&[40, 60, 0, 4000, 0, 0, 0, 0])), None);
        assert_eq!(model(&[]), None);
    }

    #[test]
    fn a_volume_on_two_disks_names_both() {
        let mut extents = words(&[2, 0]);
        for disk in [3, 1] {
            extents.extend_from_slice(&words(&[disk, 0, 0, 0, 0, 0]));
        }
        assert_eq!(numbers(&extents), Some(vec![3, 1]));
        assert_eq!(numbers(&extents[..32]), None, "an answer that was cut off is no answer");
    }
}
