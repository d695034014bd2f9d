//! What does `ntdll.dll` offer beyond Win32? `NtFlushBuffersFileEx`, the true version, and Wine's own exports.
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
    FARPROC, HANDLE, NTSTATUS, RtlNtStatusToDosError, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER,
    STATUS_NOT_IMPLEMENTED, STATUS_NOT_SUPPORTED,
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
        if flags != 0
            && let Some(version) = wine_version()
        {
            return Err(OpenError::unavailable(format!(
                "Wine {version} ignores the flags of NtFlushBuffersFileEx: it would be nt-flush under another name"
            )));
        }
        let Some(found) = export(c"NtFlushBuffersFileEx") else {
            return Err(OpenError::unavailable("this ntdll has no NtFlushBuffersFileEx: it needs Windows 8"));
        };
        // SAFETY: the export of this name has this signature (Windows Driver Kit, ntifs.h).
        let call = unsafe { std::mem::transmute::<unsafe extern "system" fn() -> isize, NtFlushBuffersFileEx>(found) };
        let flush = Self { call, flags };
        match flush.status(file) {
            STATUS_NOT_SUPPORTED | STATUS_NOT_IMPLEMENTED | STATUS_INVALID_PARAMETER | STATUS_INVALID_DEVICE_REQUEST => {
                Err(OpenError::unavailable(format!(
                    "NtFlushBuffersFileEx with flags {flags:#x} is refused by this Windows or file system"
                )))
            }
            // Any other failure is the caller's to meet when it syncs.
            _ => Ok(flush),
        }
    }

    /// Flushes `file`.
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
    let call = unsafe { std::mem::transmute::<unsafe extern "system" fn() -> isize, WineGetHostVersion>(found) };
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
