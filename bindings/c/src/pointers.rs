//! Turns the pointers of a caller into references and back, each null checked and named.
//!
//! Invariant: everything that a pointer of C could make wrong is in this file; what it cannot see, a pointer that points
//! nowhere, is what the header asks of the caller.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;

use crate::error::{Failure, Result, c_text, call, quiet};

/// What a handle points to.
///
/// # Safety
/// `pointer` is null, or a handle of `T` that was not freed and is not freed as long as the reference lives.
#[inline]
pub(crate) unsafe fn handle<'a, T>(pointer: *const T, null: &'static str) -> Result<&'a T> {
    // SAFETY: as the caller says.
    unsafe { pointer.as_ref() }.ok_or(Failure::Argument(null))
}

/// Bytes that a caller hands in.
///
/// # Safety
/// `data` is null, or points to `bytes` bytes that nobody changes as long as the reference lives.
#[inline]
pub(crate) unsafe fn slice<'a>(data: *const c_void, bytes: u64) -> Result<&'a [u8]> {
    if bytes == 0 {
        return Ok(&[]);
    }
    let length = usize::try_from(bytes).ok().filter(|length| *length <= isize::MAX.unsigned_abs());
    let length = length.ok_or(Failure::Argument("the length is more than memory can hold"))?;
    if data.is_null() {
        return Err(Failure::Argument("data is NULL and its length is not 0"));
    }
    // SAFETY: it is not null, the length fits, and the rest is as the caller says.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) })
}

/// Things that a caller hands in.
///
/// # Safety
/// `items` is null, or points to `count` of them that nobody changes as long as the reference lives.
pub(crate) unsafe fn items<'a, T>(items: *const T, count: u64) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    let fits = |length: &usize| {
        length.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= isize::MAX.unsigned_abs())
    };
    let length = usize::try_from(count).ok().filter(fits);
    let length = length.ok_or(Failure::Argument("the count is more than memory can hold"))?;
    if items.is_null() {
        return Err(Failure::Argument("the array is NULL and its count is not 0"));
    }
    // SAFETY: it is not null, the length fits, and the rest is as the caller says.
    Ok(unsafe { std::slice::from_raw_parts(items, length) })
}

/// A text that a caller hands in.
///
/// # Safety
/// `text` is null, or ends with a zero byte and is not changed as long as the reference lives.
pub(crate) unsafe fn text<'a>(text: *const c_char, null: &'static str) -> Result<&'a CStr> {
    if text.is_null() {
        return Err(Failure::Argument(null));
    }
    // SAFETY: it is not null, and the rest is as the caller says.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// A path that a caller hands in: bytes on Unix, UTF-8 on Windows.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn path(given: *const c_char) -> Result<PathBuf> {
    // SAFETY: as the caller says.
    let given = unsafe { text(given, "the path is NULL") }?;
    if given.is_empty() {
        return Err(Failure::Argument("the path is empty"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        Ok(std::ffi::OsStr::from_bytes(given.to_bytes()).into())
    }
    #[cfg(not(unix))]
    {
        let given = given.to_str().map_err(|_| Failure::Argument("the path is not UTF-8"))?;
        Ok(given.into())
    }
}

/// Writes `value` where a caller wants it.
///
/// # Safety
/// `out` is null, or points to memory for a `T` that nobody else uses.
#[inline]
pub(crate) unsafe fn give<T>(out: *mut T, value: T, null: &'static str) -> Result<()> {
    if out.is_null() {
        return Err(Failure::Argument(null));
    }
    // SAFETY: it is not null, and the rest is as the caller says; what was there is of no worth.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes `value` if the caller wants it.
///
/// # Safety
/// As [`give`].
#[inline]
pub(crate) unsafe fn give_if_wanted<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: it is not null, and the rest is as the caller says.
        unsafe { out.write(value) };
    }
}

/// Writes as much of `value` as the caller's structure of `bytes` bytes holds, and zeros after it: callers built with another
/// header have a shorter or a longer one.
///
/// # Safety
/// `out` is null, or points to `bytes` bytes that nobody else uses; `T` is plain numbers without padding.
pub(crate) unsafe fn give_prefix<T>(out: *mut T, bytes: u64, value: &T) -> Result<()> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if out.is_null() || bytes == 0 || bytes > 1 << 20 {
        return Err(Failure::Argument(
            "the structure is NULL, or its size is not that of the structure: pass sizeof",
        ));
    }
    let known = bytes.min(size_of::<T>());
    let out = out.cast::<u8>();
    // SAFETY: both have this many bytes, and the caller's is its own.
    unsafe { out.copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), known) };
    // SAFETY: within the bytes of the caller's structure.
    let behind = unsafe { out.add(known) };
    // SAFETY: as above.
    unsafe { behind.write_bytes(0, bytes - known) };
    Ok(())
}

/// Hands `value` to the caller as a handle.
pub(crate) fn into_handle<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Runs a call that makes a handle. The caller gets it at `out`, or null there if the call fails.
///
/// # Safety
/// As [`give`].
pub(crate) unsafe fn made<T>(out: *mut *mut T, null: &'static str, make: impl FnOnce() -> Result<T>) -> i32 {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { give(out, std::ptr::null_mut(), null) }?;
        let handle = into_handle(make()?);
        // SAFETY: as the caller says.
        unsafe { give(out, handle, null) }?;
        Ok(0)
    })
}

/// Takes a handle back.
///
/// # Safety
/// `pointer` is null, or came from [`into_handle`] and is not used again.
pub(crate) unsafe fn take<T>(pointer: *mut T) -> Option<Box<T>> {
    // SAFETY: as the caller says.
    (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
}

/// Runs a call that frees a handle; null is fine.
///
/// # Safety
/// As [`take`].
pub(crate) unsafe fn free<T>(pointer: *mut T) {
    // SAFETY: as the caller says.
    quiet((), || drop(unsafe { take(pointer) }));
}

/// Things that a structure points to. They are held by their address alone, because a box that moves may claim to be the only
/// way to what is in it.
pub(crate) struct Kept<T>(*mut [T]);

impl<T> Kept<T> {
    pub(crate) fn new(items: Vec<T>) -> Self {
        Self(Box::into_raw(items.into_boxed_slice()))
    }

    /// Where they lie as long as this lives.
    pub(crate) fn as_ptr(&self) -> *const T {
        self.0.cast_const().cast()
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and nothing uses it after this.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Texts that structures point to, held as [`Kept`] holds things.
#[derive(Default)]
pub(crate) struct Texts(Vec<*mut c_char>);

impl Texts {
    /// Keeps `text`; where it lies as long as this lives.
    pub(crate) fn keep(&mut self, text: CString) -> *const c_char {
        let at = text.into_raw();
        self.0.push(at);
        at.cast_const()
    }

    /// As [`Texts::keep`]; null for none.
    pub(crate) fn keep_some(&mut self, text: Option<&str>) -> *const c_char {
        text.map_or(std::ptr::null(), |text| self.keep(c_text(text)))
    }

    /// The addresses of `texts`, one after the other.
    pub(crate) fn keep_all(&mut self, texts: &[String]) -> Kept<*const c_char> {
        Kept::new(texts.iter().map(|text| self.keep(c_text(text))).collect())
    }
}

impl Drop for Texts {
    fn drop(&mut self) {
        for text in self.0.drain(..) {
            // SAFETY: it came from a text of this library, and nothing uses it after this.
            drop(unsafe { CString::from_raw(text) });
        }
    }
}
