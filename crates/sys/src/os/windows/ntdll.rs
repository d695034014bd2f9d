//! Windows: calls `ntdll.dll` for `NtFlushBuffersFileEx`, the true version and Wine's own exports.
//!
//! Invariant: exports that not every Windows has are looked up at run time, so that their absence is a reason
//! and not a program that does not start.

use crate::OpenError;
use crate::method::NtFlush;
use std::ffi::{CStr, c_char, c_void};
use std::fs::File;
use std::io;
use std::os::windows::io::AsRawHandle;
use windows_sys::Wdk::System::SystemServices::RtlGetVersion;
use windows_sys::Win32::Foundation::{
    FARPROC, HANDLE, NTSTATUS, RtlNtStatusToDosError, STATUS_INVALID_DEVICE_REQUEST,
    STATUS_INVALID_PARAMETER, STATUS_NOT_IMPLEMENTED, STATUS_NOT_SUPPORTED,
};
use windows_sys::Win32::System::IO::IO_STATUS_BLOCK;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::Win32::System::SystemInformation::OSVERSIONINFOW;

type NtFlushBuffersFileEx =
    unsafe extern "system" fn(HANDLE, u32, *const c_void, u32, *mut IO_STATUS_BLOCK) -> NTSTATUS;
type WineGetVersion = unsafe extern "C" fn() -> *const c_char;
type WineGetHostVersion = unsafe extern "C" fn(*mut *const c_char, *mut *const c_char);

fn export(name: &CStr) -> FARPROC {
    let ntdll: Vec<u16> = "ntdll.dll\0".encode_utf16().collect();
    // SAFETY: the name is live and zero-terminated; ntdll is part of every process and never unloaded.
    let module = unsafe { GetModuleHandleW(ntdll.as_ptr()) };
    // SAFETY: the name is live and zero-terminated; a null module is an error, not undefined behaviour.
    unsafe { GetProcAddress(module, name.as_ptr().cast()) }
}

/// `NtFlushBuffersFileEx` with the flags of one row.
#[derive(Clone, Copy)]
pub(super) struct Flush {
    call: NtFlushBuffersFileEx,
    flags: u32,
}

impl Flush {
    /// The call for `kind`, proven by one flush of `file`, into which nothing has been written yet.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] if this Windows, or the file's file system, lacks the call or the flag.
    pub(super) fn find(kind: NtFlush, file: &File) -> Result<Self, OpenError> {
        let flags = flags(kind);
        let wine = wine_version();
        let Some(found) = export(c"NtFlushBuffersFileEx") else {
            return Err(OpenError::unavailable(match wine {
                Some(version) => format!("the ntdll of Wine {version} has no NtFlushBuffersFileEx"),
                None => "this ntdll has no NtFlushBuffersFileEx: it needs Windows 8".to_owned(),
            }));
        };
        // Later versions of Wine have it, and make an fsync of all four.
        if let Some(version) = wine
            && flags != 0
        {
            return Err(OpenError::unavailable(format!(
                "Wine {version} ignores the flags of NtFlushBuffersFileEx: this would be nt-flush under another name"
            )));
        }
        // SAFETY: the export of this name has this signature (Windows Driver Kit, ntifs.h).
        let call = unsafe {
            std::mem::transmute::<unsafe extern "system" fn() -> isize, NtFlushBuffersFileEx>(found)
        };
        Self { call, flags }.proven(file)
    }

    /// Itself, if a flush of `file` is not called unknown.
    fn proven(self, file: &File) -> Result<Self, OpenError> {
        match self.status(file) {
            STATUS_NOT_SUPPORTED
            | STATUS_NOT_IMPLEMENTED
            | STATUS_INVALID_PARAMETER
            | STATUS_INVALID_DEVICE_REQUEST => Err(OpenError::unavailable(format!(
                "NtFlushBuffersFileEx with flags {:#x} is refused by this Windows or file system",
                self.flags
            ))),
            // Any other failure is the caller's to meet when it syncs.
            _ => Ok(self),
        }
    }

    pub(super) fn run(self, file: &File) -> io::Result<()> {
        let status = self.status(file);
        if status >= 0 {
            return Ok(());
        }
        // SAFETY: takes any integer.
        let code = unsafe { RtlNtStatusToDosError(status) };
        Err(io::Error::from_raw_os_error(code.cast_signed()))
    }

    fn status(self, file: &File) -> NTSTATUS {
        let mut answer = IO_STATUS_BLOCK::default();
        // SAFETY: the handle is open for as long as `file` is borrowed, no parameters are passed, and the
        // handle is synchronous, so that the status block is not used after the call.
        unsafe { (self.call)(file.as_raw_handle(), self.flags, std::ptr::null(), 0, &raw mut answer) }
    }
}

/// The `FLUSH_FLAGS_*` of ntifs.h.
fn flags(kind: NtFlush) -> u32 {
    match kind {
        NtFlush::Normal => 0,
        NtFlush::DataOnly => 1,
        NtFlush::NoSync => 2,
        NtFlush::DataSyncOnly => 4,
    }
}

/// Wine's version, such as `8.0`, if this is Wine: only its ntdll exports `wine_get_version`.
pub(super) fn wine_version() -> Option<String> {
    let found = export(c"wine_get_version")?;
    // SAFETY: Wine documents this export as `const char *wine_get_version(void)`.
    let call = unsafe { std::mem::transmute::<unsafe extern "system" fn() -> isize, WineGetVersion>(found) };
    // SAFETY: takes nothing.
    let version = unsafe { call() };
    text(version)
}

/// The name and release of the system under Wine, such as `Linux 6.1.0`.
pub(super) fn wine_host() -> Option<String> {
    let found = export(c"wine_get_host_version")?;
    // SAFETY: Wine documents this export as `void wine_get_host_version(const char **, const char **)`.
    let call =
        unsafe { std::mem::transmute::<unsafe extern "system" fn() -> isize, WineGetHostVersion>(found) };
    let (mut name, mut release) = (std::ptr::null(), std::ptr::null());
    // SAFETY: both pointers are to live locals.
    unsafe { call(&raw mut name, &raw mut release) };
    Some(format!("{} {}", text(name)?, text(release)?))
}

/// A copy of a text that lives as long as ntdll, that is, as the process.
fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: not null, and Wine's exports give zero-terminated texts that are never freed.
    let text = unsafe { CStr::from_ptr(pointer) };
    Some(text.to_string_lossy().into_owned())
}

/// Version and build, such as `10.0.19045`; `GetVersionEx` would give what the program's manifest asks for.
pub(super) fn windows_version() -> Option<String> {
    let size = u32::try_from(size_of::<OSVERSIONINFOW>()).ok()?;
    let mut info = OSVERSIONINFOW { dwOSVersionInfoSize: size, ..OSVERSIONINFOW::default() };
    // SAFETY: the pointer is to a live structure that says its own size.
    let status = unsafe { RtlGetVersion(&raw mut info) };
    (status >= 0).then(|| format!("{}.{}.{}", info.dwMajorVersion, info.dwMinorVersion, info.dwBuildNumber))
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::Foundation::{ERROR_DISK_FULL, STATUS_DISK_FULL};

    /// Answers by the flags, as a file system might.
    unsafe extern "system" fn pretended(
        _: HANDLE,
        flags: u32,
        parameters: *const c_void,
        bytes: u32,
        answer: *mut IO_STATUS_BLOCK,
    ) -> NTSTATUS {
        assert!(parameters.is_null() && bytes == 0 && !answer.is_null());
        match flags {
            0 => 0,
            1 => STATUS_DISK_FULL,
            _ => STATUS_NOT_SUPPORTED,
        }
    }

    #[test]
    fn a_flag_that_is_refused_is_unavailable_and_a_failed_flush_is_an_error() {
        let file = tempfile::tempfile().expect("a file");
        let flush = |kind| Flush { call: pretended, flags: flags(kind) }.proven(&file);
        flush(NtFlush::Normal).expect("proven").run(&file).expect("flushed");
        assert!(matches!(flush(NtFlush::NoSync), Err(OpenError::Unavailable(_))));
        assert!(matches!(flush(NtFlush::DataSyncOnly), Err(OpenError::Unavailable(_))));
        let error = flush(NtFlush::DataOnly).expect("not unknown").run(&file).expect_err("failed");
        assert_eq!(error.raw_os_error(), Some(ERROR_DISK_FULL.cast_signed()));
    }

    #[test]
    fn every_row_that_names_the_call_says_why_it_is_not_here() {
        let file = tempfile::tempfile().expect("a file");
        for kind in [NtFlush::Normal, NtFlush::DataOnly, NtFlush::NoSync, NtFlush::DataSyncOnly] {
            match Flush::find(kind, &file) {
                Ok(flush) => flush.run(&file).expect("flushed"),
                Err(refused) => assert!(refused.to_string().contains("NtFlushBuffersFileEx"), "{refused}"),
            }
        }
    }
}
