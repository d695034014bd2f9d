//! Stands in for an operating system that has no folder here: it does not compile.

compile_error!(
    "Seawall knows Linux, Windows, macOS and illumos; add a folder under os/ with the items of the table in os.rs, a \
     path for it there, and a table in methods.rs"
);
