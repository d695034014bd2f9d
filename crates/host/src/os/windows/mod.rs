//! Windows: reads the thread's accounts, and shields programs from Ctrl-C.

pub(crate) mod journal;
/// Only what it starts is told anything about signals.
pub(crate) mod process {
    pub(crate) use crate::os::fallback::process::*;
    use std::os::windows::process::CommandExt as _;
    use windows_sys::Win32::System::Threading::CREATE_NEW_PROCESS_GROUP;

    /// The child leads a group of its own.
    pub(crate) fn shield_from_ctrl_c(command: &mut std::process::Command) {
        command.creation_flags(CREATE_NEW_PROCESS_GROUP);
    }
}
pub(crate) mod thread;

pub(crate) use super::fallback::is_same;
