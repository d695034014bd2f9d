"""A child is killed while it writes: everything that it acknowledged is there afterwards, in order."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from conftest import SMALL, child

import seawall

WRITERS = {
    "a thread": """
for i in range(1_000_000):
    log.append_commit(b"%d" % i)
    print(i, flush=True)
""",
    "threads": """
import threading
def write(first):
    for i in range(first, 1_000_000, 4):
        log.append_commit(b"%d" % i)
        sys.stdout.write(f"{i}\\n")
        sys.stdout.flush()
for first in range(4):
    threading.Thread(target=write, args=(first,)).start()
""",
    "tasks": """
import asyncio
async def write(first):
    for i in range(first, 1_000_000, 16):
        await log.append_commit_async(b"%d" % i)
        print(i, flush=True)
async def main():
    await asyncio.gather(*(write(first) for first in range(16)))
asyncio.run(main())
""",
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("lines", [1, 500])
def test_every_acknowledged_record_outlives_kill_9(tmp_path: Path, writer: str, lines: int) -> None:
    program = f"import sys, seawall\nlog = seawall.Log(sys.argv[1], **{SMALL!r})\n{WRITERS[writer]}"
    with child(program, tmp_path / "log") as writing:
        assert writing.stdout is not None
        acknowledged = [int(writing.stdout.readline()) for _ in range(lines)]
        writing.send_signal(signal.SIGKILL)
        # What it printed before it was killed, whole lines only.
        rest = writing.stdout.read().split("\n")[:-1]
        acknowledged += [int(line) for line in rest]
    with seawall.Log(tmp_path / "log", **SMALL) as log:
        assert log.opened.tail == "torn"
        found = [int(record.payload) for record in log]
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found)
    if writer == "a thread":
        assert found == list(range(len(found))) and len(found) - len(acknowledged) <= 1
