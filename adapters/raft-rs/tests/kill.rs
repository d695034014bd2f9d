//! Tests that what Raft groups acknowledged outlives kill -9, over many lives of their log.

#[path = "../examples/groups.rs"]
mod example;
#[path = "../../slatedb/tests/kills/mod.rs"]
mod kills;

fn main() {
    kills::main(example::main);
}
