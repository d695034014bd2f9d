"""Measures durable commits of 1 KiB from Python beside the log without an interpreter and beside what Python users would choose.

    python bench.py DIR --native PROGRAM [--rounds N] [--seconds S] [--json FILE]

Each block is a process of its own with a file or directory of its own; the rounds run all blocks in an order drawn for each, so that
drift of the disk meets all of them. Ratios are of blocks of the same round, with an interval of 95 % over the rounds.

Every row promises the same: a commit that returned outlives a power cut. So SQLite runs with `synchronous=FULL` in WAL mode, and
persist-queue is changed to it where its own default promises less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TASKS = 64
BYTES = 1024
RECORD = b"\x5a" * BYTES
WARM = 200


class Block:
    """One way to commit: `commit` in a thread; `commit_async`, if it has one of its own, in a task."""

    def commit(self) -> None:
        raise NotImplementedError

    async def commit_async(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self.pool, self.commit)

    pool: ThreadPoolExecutor | None = None

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()


class Seawall(Block):
    """The log."""

    def __init__(self, folder: Path) -> None:
        import seawall

        self.log = seawall.Log(folder / "log")
        self.append_commit = self.log.append_commit
        self.append_commit_async = self.log.append_commit_async

    def commit(self) -> None:
        self.append_commit(RECORD)

    async def commit_async(self) -> None:
        await self.append_commit_async(RECORD)

    def close(self) -> None:
        self.log.close()


class SeawallQueue(Block):
    """The queue: puts."""

    def __init__(self, folder: Path) -> None:
        import seawall

        self.queue = seawall.Queue(folder / "queue")

    def commit(self) -> None:
        self.queue.put(RECORD)

    async def commit_async(self) -> None:
        await self.queue.put_async(RECORD)

    def close(self) -> None:
        self.queue.close()


class Fdatasync(Block):
    """A file: append, then os.fdatasync. Tasks use threads, each of which syncs for itself."""

    def __init__(self, folder: Path) -> None:
        self.file = os.open(folder / "file", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self.pool = ThreadPoolExecutor(TASKS)

    def commit(self) -> None:
        os.write(self.file, RECORD)
        os.fdatasync(self.file)


class Sqlite(Block):
    """sqlite3, one transaction a record. Its connection is one thread's, so tasks share that."""

    def __init__(self, folder: Path) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.connection = sqlite3.connect(folder / "db", isolation_level=None, check_same_thread=False)
        (mode,) = self.connection.execute("PRAGMA journal_mode=WAL").fetchone()
        self.connection.execute("PRAGMA synchronous=FULL")
        (level,) = self.connection.execute("PRAGMA synchronous").fetchone()
        assert (mode, level) == ("wal", 2)
        self.connection.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def commit(self) -> None:
        self.connection.execute("INSERT INTO records (body) VALUES (?)", (RECORD,))


class PersistQueue(Block):
    """persist-queue's SQLite queue, with each put committed, and with synchronous=FULL."""

    def __init__(self, folder: Path) -> None:
        import persistqueue

        self.pool = ThreadPoolExecutor(1)
        self.queue = persistqueue.SQLiteQueue(str(folder / "pq"), auto_commit=True, multithreading=True)
        for connection in (self.queue._conn, self.queue._putter):
            assert connection is not None
            connection.execute("PRAGMA synchronous=FULL")
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)

    def commit(self) -> None:
        self.queue.put(RECORD)


PYTHON: dict[str, Callable[[Path], Block]] = {
    "seawall": Seawall,
    "seawall queue": SeawallQueue,
    "file + os.fdatasync": Fdatasync,
    "sqlite3, WAL, FULL": Sqlite,
    "persist-queue, FULL": PersistQueue,
}
NATIVE = {"thread": ["thread"], "tasks": ["threads", "tasks"]}


def run_thread(block: Block, seconds: float) -> dict[str, float]:
    """Commits in one thread for so long."""
    for _ in range(WARM):
        block.commit()
    commit, clock = block.commit, time.monotonic
    cpu, began = time.thread_time(), time.monotonic()
    commits, until = 0, began + seconds
    while clock() < until:
        commit()
        commits += 1
    return {"commits": commits, "elapsed": clock() - began, "cpu": time.thread_time() - cpu}


async def run_tasks(block: Block, seconds: float) -> dict[str, float]:
    """Commits in 64 tasks for so long."""
    for _ in range(WARM):
        await block.commit_async()
    # What a user would await, without a coroutine of this program around it where there is none.
    commit: Callable[..., Awaitable[Any]] = block.commit_async
    arguments: tuple[bytes, ...] = ()
    if isinstance(block, Seawall):
        commit, arguments = block.append_commit_async, (RECORD,)
    clock = time.monotonic
    cpu, began = time.thread_time(), clock()
    until = began + seconds

    async def write() -> int:
        commits = 0
        while clock() < until:
            await commit(*arguments)
            commits += 1
        return commits

    done = await asyncio.gather(*(write() for _ in range(TASKS)))
    return {"commits": sum(done), "elapsed": clock() - began, "cpu": time.thread_time() - cpu}


def child(kind: str, name: str, folder: Path, seconds: float) -> None:
    """One block, in a process of its own."""
    block = PYTHON[name](folder)
    run = run_thread(block, seconds) if kind == "thread" else asyncio.run(run_tasks(block, seconds))
    block.close()
    print(json.dumps(run))


def measure(kind: str, name: str, options: argparse.Namespace) -> dict[str, float]:
    """Runs one block in a new folder."""
    folder = Path(options.dir) / "block"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        if name.startswith("native"):
            command = [options.native, folder / "log", name.split()[1], str(BYTES), str(options.seconds)]
            words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            return {"commits": int(words[0]), "elapsed": int(words[1]) / 1e9, "cpu": int(words[2]) / 1e9}
        command = [sys.executable, __file__, "--child", kind, name, folder, str(options.seconds)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        result: dict[str, float] = json.loads(done.stdout)
        return result
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def interval(ratios: list[float]) -> str:
    """The geometric mean of ratios, with its interval of 95 %."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 3:
        return f"{math.exp(mean):.2f}"
    # Two-sided quantiles of Student's t distribution for 2 to 12 rounds more than one.
    t = [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179][min(len(logs) - 1, 12) - 2]
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.2f} ({math.exp(mean - half):.2f} – {math.exp(mean + half):.2f})"


def table(kind: str, runs: dict[str, list[dict[str, float]]]) -> str:
    """The rows of one kind."""
    rates = {name: [run["commits"] / run["elapsed"] for run in found] for name, found in runs.items()}
    base = "native thread" if kind == "thread" else "native threads"
    title = "1 thread" if kind == "thread" else f"{TASKS} tasks of asyncio"
    lines = [f"| {title}, {BYTES} B, each committed | commits/s | of {base} | CPU of the thread a commit | share of its time |", "| --- | --- | --- | --- | --- |"]
    for name, found in runs.items():
        ratios = [own / other for own, other in zip(rates[name], rates[base], strict=True)]
        cpu = statistics.median(run["cpu"] / run["commits"] for run in found)
        share = statistics.median(run["cpu"] / run["elapsed"] for run in found)
        many = name == "native threads"
        told = ("", "") if many else (f"{cpu * 1e6:.1f} µs", f"{share * 100:.0f} %")
        lines.append(f"| {name} | {statistics.median(rates[name]):,.0f} | {interval(ratios)} | {told[0]} | {told[1]} |")
    peers = [name for name in runs if name not in ("seawall", "seawall queue") and not name.startswith("native")]
    best = max(peers, key=lambda name: statistics.median(rates[name]))
    ratios = [own / other for own, other in zip(rates["seawall"], rates[best], strict=True)]
    lines.append(f"\nseawall against the best peer, {best}: {interval(ratios)}")
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        kind, name, folder, seconds = sys.argv[2:]
        child(kind, name, Path(folder), float(seconds))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", help="a folder on the disk to be measured")
    parser.add_argument("--native", required=True, help="the program built from bench/native.rs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each block")
    parser.add_argument("--only", choices=["thread", "tasks"])
    parser.add_argument("--rows", help="only rows whose names contain one of these words, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="where to write each block's figures")
    options = parser.parse_args()
    kinds = [options.only] if options.only else ["thread", "tasks"]
    blocks = [(kind, name) for kind in kinds for name in [*(f"native {one}" for one in NATIVE[kind]), *PYTHON]]
    if options.rows:
        wanted = options.rows.split(",")
        blocks = [(kind, name) for kind, name in blocks if name.startswith("native") or any(word in name for word in wanted)]
    runs: dict[str, dict[str, list[dict[str, float]]]] = {kind: {name: [] for of, name in blocks if of == kind} for kind in kinds}
    order = random.Random(options.seed)
    for _ in range(options.rounds):
        order.shuffle(blocks)
        for kind, name in blocks:
            runs[kind][name].append(measure(kind, name, options))
    if options.json:
        Path(options.json).write_text(json.dumps(runs, indent=1), encoding="utf-8")
    print(f"{options.rounds} rounds of {options.seconds} s a block, in an order drawn for each; Python {sys.version.split()[0]}\n")
    print("\n\n".join(table(kind, runs[kind]) for kind in kinds))


if __name__ == "__main__":
    main()
