//! Runs the cases of `tests/behaviour/cases.txt` through the crate `seawall`: what logs it writes, interpreters in other languages read.
//!
//! `cargo run -p seawall --example behaviour -- CASES ROOT write|check`; the head of that file says what each does.

mod interpreter;

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let this = std::env::current_exe();
    let child = |arguments: &[String]| {
        let mut child = Command::new(this.as_ref().map_err(std::string::ToString::to_string)?);
        child.args(arguments);
        Ok(child)
    };
    match interpreter::run(&arguments, &child) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
