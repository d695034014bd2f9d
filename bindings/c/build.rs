//! Names the shared library as programs that are linked with it look for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    // Equal to SEAWALL_ABI_VERSION: a program finds only libraries of the interface that it was built for.
    let abi = 0;
    match system.as_str() {
        "linux" | "illumos" | "android" | "freebsd" => {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libseawall.so.{abi}");
            // Its threads, and what ends with a thread of the caller's, need the code for as long as the process lives.
            println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        }
        "macos" => println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libseawall.{abi}.dylib"),
        _ => {}
    }
}
