"""Measures durable commits of 1 KiB from Python beside the log without an interpreter and beside what Python users would choose.

    python bench.py DIR --native PROGRAM [--rounds N] [--seconds S] [--json FILE]

Each block is a process of its own with a file or directory of its own; the rounds run all blocks in an order drawn for each, so that
drift of the disk meets all of them. Ratios are of blocks of the same round, with an interval of 95 % over the rounds.

Every row promises the same: a commit that returned outlives a power cut. So SQLite runs with `synchronous=FULL` in WAL mode, and
persist-queue and huey are changed to it where their own default promises less.

A job is put, got and acknowledged, each durably: two commits of the raw log. huey has no acknowledgement: getting a job removes it, and
a worker that dies loses it. persist-queue locks within one process only.
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


class Jobs:
    """One queue. `take` gives a body and what `done` needs, or `None` if nothing came for two seconds."""

    IDLE = 2.0

    put: Callable[[bytes], object]

    def poll(self) -> tuple[bytes, Any] | None:
        raise NotImplementedError

    def take(self) -> tuple[bytes, Any] | None:
        """Polls, where the queue tells no other process."""
        until = time.monotonic() + self.IDLE
        while (found := self.poll()) is None and time.monotonic() < until:
            time.sleep(0.001)
        return found

    def done(self, token: Any) -> object:
        return None

    def close(self) -> None:
        return None


class SeawallJobs(Jobs):
    """The queue."""

    def __init__(self, folder: Path) -> None:
        import seawall

        self.queue = seawall.Queue(folder / "queue")
        self.put = self.queue.put

    def take(self) -> tuple[bytes, Any] | None:
        for message in self.queue.get_many(1, timeout=self.IDLE):
            return message.body, message
        return None

    def done(self, token: Any) -> object:
        return token.ack()

    def close(self) -> None:
        self.queue.close()


class PersistJobs(Jobs):
    """persist-queue's queue with acknowledgements, with synchronous=FULL; what is acknowledged is removed after each thousand."""

    def __init__(self, folder: Path) -> None:
        import persistqueue

        self.empty = persistqueue.Empty
        self.queue = persistqueue.SQLiteAckQueue(str(folder / "pq"), auto_commit=True, multithreading=True)
        for connection in (self.queue._conn, self.queue._putter):
            assert connection is not None
            connection.execute("PRAGMA synchronous=FULL")
        self.put = self.queue.put
        self.acknowledged = 0

    def poll(self) -> tuple[bytes, Any] | None:
        try:
            item = self.queue.get(block=False, raw=True)
        except self.empty:
            return None
        return item["data"], item

    def done(self, token: Any) -> object:
        self.queue.ack(token)
        self.acknowledged += 1
        if self.acknowledged % 1000 == 0:
            self.queue.clear_acked_data(max_delete=1000, keep_latest=0)
        return None


class HueyJobs(Jobs):
    """huey's storage in SQLite with fsync=True."""

    def __init__(self, folder: Path) -> None:
        import huey.storage

        self.storage = huey.storage.SqliteStorage("jobs", filename=str(folder / "huey.db"), fsync=True, timeout=30)
        self.put = self.storage.enqueue

    def poll(self) -> tuple[bytes, Any] | None:
        body = self.storage.dequeue()
        return None if body is None else (body, None)


JOBS: dict[str, Callable[[Path], Jobs]] = {
    "seawall": SeawallJobs,
    "persist-queue, FULL": PersistJobs,
    "huey, SQLite, fsync, no ack": HueyJobs,
}
MILLION = 1_000_000
PYTHON: dict[str, Callable[[Path], Block]] = {
    "seawall": Seawall,
    "seawall queue": SeawallQueue,
    "file + os.fdatasync": Fdatasync,
    "sqlite3, WAL, FULL": Sqlite,
    "persist-queue, FULL": PersistQueue,
}
NATIVE = {"thread": ["thread"], "tasks": ["threads", "tasks"], "jobs": ["thread"], "processes": ["thread"]}
NATIVE_RUNS = {"thread": (1, "power-loss"), "threads": (TASKS, "power-loss"), "tasks": (TASKS, "tasks")}
TITLES = {
    "thread": f"1 thread, {BYTES} B, each committed",
    "tasks": f"{TASKS} tasks of asyncio, {BYTES} B, each committed",
    "jobs": f"1 process puts, gets and acknowledges jobs of {BYTES} B",
    "processes": f"2 processes put, 2 get and acknowledge jobs of {BYTES} B",
}


def run_thread(block: Block, seconds: float) -> dict[str, float]:
    """Commits in one thread for this long."""
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
    """Commits in 64 tasks for this long."""
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


def run_jobs(jobs: Jobs, seconds: float) -> dict[str, float]:
    """Puts, gets and acknowledges one job after the other for this long."""
    clock = time.monotonic
    count, until = -WARM, math.inf
    while clock() < until:
        if count == 0:
            cpu, began = time.thread_time(), clock()
            until = began + seconds
        jobs.put(RECORD)
        found = jobs.take()
        assert found is not None
        jobs.done(found[1])
        count += 1
    return {"commits": count, "elapsed": clock() - began, "cpu": time.thread_time() - cpu}


def run_worker(jobs: Jobs, role: str, seconds: float) -> dict[str, Any]:
    """Puts for this long, or gets until nothing comes any more; what it put or got, and when the last of it was."""
    print("ready", flush=True)
    input()
    began = last = time.monotonic()
    bodies: list[str] = []
    if role[0] == "p":
        while last < began + seconds:
            bodies.append(f"{role} {len(bodies)}")
            jobs.put(bodies[-1].encode().ljust(BYTES))
            last = time.monotonic()
    else:
        while found := jobs.take():
            jobs.done(found[1])
            bodies.append(found[0].decode().rstrip())
            last = time.monotonic()
    return {"bodies": bodies, "began": began, "last": last}


def measure_processes(name: str, folder: Path, seconds: float) -> dict[str, float]:
    """Jobs that went through four processes, until the last one was acknowledged."""
    command = [sys.executable, __file__, "--child"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    roles = ["p0", "p1", "c0", "c1"]
    # One after the other: two that make the same database at once fail.
    workers = []
    for role in roles:
        worker = subprocess.Popen([*command, role, name, folder, str(seconds)], **pipes)
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
        workers.append(worker)
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    done = [json.loads(worker.communicate()[0]) for worker in workers]
    put = {body for one in done[:2] for body in one["bodies"]}
    got = [body for one in done[2:] for body in one["bodies"]]
    assert set(got) == put, f"{name}: {len(put - set(got))} jobs were lost"
    elapsed = max(one["last"] for one in done[2:]) - min(one["began"] for one in done)
    return {"commits": len(put), "elapsed": elapsed, "cpu": 0, "twice": len(got) - len(put)}


def million(folder: Path) -> None:
    """A million jobs through one queue, and the memory of the process meanwhile."""
    import seawall

    def resident() -> str:
        return f"{int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE') / 1e6:.1f} MB"

    with seawall.Queue(folder / "queue") as queue:
        began, seen = time.monotonic(), []
        for count in range(1000, MILLION + 1, 1000):
            queue.put_many([RECORD] * 1000)
            queue.ack(*queue.get_many(1000))
            if count in (MILLION // 10, MILLION):
                seen.append(f"{resident()} after {count:,}")
        assert len(queue) == 0
        rate = MILLION / (time.monotonic() - began)
    print(f"{MILLION:,} jobs by put_many, get_many and ack of 1,000: {rate:,.0f} jobs/s; resident memory {', '.join(seen)}")


def child(kind: str, name: str, folder: Path, seconds: float) -> None:
    """One block, in a process of its own."""
    if kind == "million":
        million(folder)
        return
    if kind in ("jobs", "p0", "p1", "c0", "c1"):
        jobs = JOBS[name](folder)
        print(json.dumps(run_jobs(jobs, seconds) if kind == "jobs" else run_worker(jobs, kind, seconds)), flush=True)
        jobs.close()
        return
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
            writers, how = NATIVE_RUNS[name.split()[1]]
            command = [options.native, folder / "log", str(writers), str(BYTES), str(options.seconds), how]
            words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            return {"commits": int(words[0]), "elapsed": float(words[1]), "cpu": float(words[2])}
        if kind == "processes":
            return measure_processes(name, folder, options.seconds)
        command = [sys.executable, __file__, "--child", kind, name, folder, str(options.seconds)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        if kind == "million":
            print("\n" + done.stdout, end="")
            return {}
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
    base = "native threads" if kind == "tasks" else "native thread"
    if kind in ("jobs", "processes"):
        lines = [f"| {TITLES[kind]} | jobs/s | of half the commits of {base} | handed out twice |", "| --- | --- | --- | --- |"]
        for name, found in runs.items():
            ratios = [own / other * (1 if name == base else 2) for own, other in zip(rates[name], rates[base], strict=True)]
            twice = sum(run.get("twice", 0) for run in found)
            rate = statistics.median(rates[name]) / (2 if name == base else 1)
            lines.append(f"| {name} | {rate:,.0f} | {interval(ratios)} | {twice or ''} |")
        return "\n".join(lines)
    lines = [f"| {TITLES[kind]} | commits/s | of {base} | CPU of the thread a commit | share of its time |", "| --- | --- | --- | --- | --- |"]
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
    parser.add_argument("--native", required=True, help="the program built from crates/log/examples/commits.rs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each block")
    parser.add_argument("--only", choices=[*NATIVE, "million"])
    parser.add_argument("--rows", help="only rows whose names contain one of these words, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="where to write each block's figures")
    options = parser.parse_args()
    kinds = [kind for kind in NATIVE if options.only in (None, kind)]
    rows: dict[str, list[str]] = {kind: list(PYTHON if kind in ("thread", "tasks") else JOBS) for kind in kinds}
    blocks = [(kind, name) for kind in kinds for name in [*(f"native {one}" for one in NATIVE[kind]), *rows[kind]]]
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
    if options.only in (None, "million"):
        measure("million", "seawall", options)


if __name__ == "__main__":
    main()
