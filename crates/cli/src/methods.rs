//! What does `seawall methods` tell? The method table of this system, with the class of each row in a folder.

use crate::args::Methods;
use crate::exit::Failure;
use seawall_sys::durability::{FileState, classify};
use seawall_sys::{inspect, methods};
use std::process::ExitCode;

pub(crate) fn run(options: &Methods) -> Result<ExitCode, Failure> {
    let environment =
        inspect::environment(&options.folder).map_err(|error| Failure::Told(error.to_string()))?;
    let around = environment.surroundings(FileState::ZeroFilled);
    anstream::println!("{:26} {:14} calls", "method", "outlives");
    for method in methods::here() {
        let durability = classify(method, &around);
        anstream::println!("{:26} {:14} {}", method.id, durability.class.name(), method.calls);
    }
    Ok(ExitCode::SUCCESS)
}
