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


def test_a_queue_that_is_killed_hands_out_all_that_was_not_acknowledged(tmp_path: Path) -> None:
    program = f"""
import sys, seawall
queue = seawall.Queue(sys.argv[1], **{SMALL!r})
for i in range(1_000_000):
    queue.put(b"%d" % i)
    print("put", i, flush=True)
    if i % 3:
        message = queue.get()
        message.ack()
        print("ack", message.id, flush=True)
"""
    put: set[int] = set()
    acked: set[int] = set()
    for lines in (1, 100, 400):
        with child(program, tmp_path / "queue") as working:
            assert working.stdout is not None
            printed = [working.stdout.readline() for _ in range(lines)]
            working.send_signal(signal.SIGKILL)
            printed += working.stdout.read().split("\n")[:-1]
        base = max(put, default=-1)
        seqs: dict[int, int] = {}
        for line in printed:
            verb, number = line.split()
            if verb == "ack":
                acked.add(int(number))
            else:
                seqs[int(number)] = 1
        with seawall.Queue(tmp_path / "queue", **SMALL) as queue:
            messages = queue.get_many(1 << 20, timeout=0)
            left = [message.id for message in messages]
            assert left == sorted(set(left))
            assert not acked & set(left)
            # Every message that was put is acknowledged or here: numbers are given in order, without a gap.
            last = max([*left, *acked, base])
            assert last - base >= len(seqs)
            # The last acknowledgement may have become durable without having been printed.
            assert len(set(range(last + 1)) - acked - set(left)) <= 3
            put |= set(range(last + 1))
