//! The `seawall` program.

fn main() -> std::process::ExitCode {
    seawall_cli::run(&[])
}
