//! The program of the crash harness; the library says what it does.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    seawall_crash::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("SKIPPED: crash testing of the real programs needs Linux");
    std::process::ExitCode::from(u8::from(seawall_sys::skip::in_ci()))
}
