//! Removes the scratch folders of runs that were killed, and prints their names on standard error.

use seawall_host::text::printable;
use seawall_sys::scratch;
use std::path::Path;

pub(crate) fn sweep(folder: &Path) {
    for swept in scratch::sweep(folder) {
        let name = swept.display().to_string();
        tell!("removed {}, left behind by a run that was killed", printable(&name));
    }
}
