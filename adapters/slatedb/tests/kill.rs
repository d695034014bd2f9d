//! Tests that what a database acknowledged outlives kill -9, over many lives of it.

#[path = "../examples/puts.rs"]
mod example;
mod kills;

fn main() {
    kills::main(example::main);
}
