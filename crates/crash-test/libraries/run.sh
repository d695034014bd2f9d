#!/bin/sh
# Crash-tests each library: run.sh DIR makes the drivers, runs them in DIR, and prints each verdict. Needs go, python3, cargo.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && cd "$1"
cargo build --release --manifest-path "$here/Cargo.toml" --target-dir target
(cd "$here/go" && go build -o "$OLDPWD/tidwall" .)
python3 -m venv python && python/bin/pip install -q persist-queue==1.1.0
try() {
    name=$1 driver=$2
    shift 2
    rm -rf data && mkdir data && echo "== $name"
    seawall crash-test data --run "$driver write data" --check "$driver check" "$@" || true
}
for name in okaywal raft_engine fjall redb seawall object_store; do try $name target/release/$name; done
OBJECT_STORE_FSYNC=1 try "object_store with fsync" target/release/object_store
try tidwall ./tidwall
try persist-queue "python/bin/python $here/python/driver.py"
