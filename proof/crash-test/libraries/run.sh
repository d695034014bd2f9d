#!/bin/sh
# Crash-tests each library: run.sh DIR [--errors] makes the drivers, runs them in DIR, and prints each verdict. Of the logs it
# also prints what a flipped byte does, and with --errors what they answered to a call that failed. Needs go, python3, cargo.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && cd "$1"
shift
more="$*"
# nodedb-wal asks for Rust 1.96, and builds with 1.95.
cargo build --release --ignore-rust-version --manifest-path "$here/Cargo.toml" --target-dir target
(cd "$here/go" && go build -o "$OLDPWD/tidwall" .)
python3 -m venv python && python/bin/pip install -q persist-queue==1.1.0
try() {
    name=$1 driver=$2
    rm -rf data said && mkdir data && echo "== $name"
    # A log may wait for ever after a failed call.
    seawall crash-test data --run "timeout 20 $driver write data 2>> $PWD/said" --check "$driver check" $more || true
    cat said
}
log() {
    try "$1" "$2"
    echo "flipped       $(python3 "$here/flip.py" "$2")"
}
for name in okaywal raft_engine fjall redb wal_db nodedb_wal seawall; do log $name target/release/$name; done
WAL_DB_STRICT=1 log "wal_db, strict" target/release/wal_db
log tidwall ./tidwall
try object_store target/release/object_store
OBJECT_STORE_FSYNC=1 try "object_store with fsync" target/release/object_store
try persist-queue "python/bin/python $here/python/driver.py"
