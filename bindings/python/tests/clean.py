"""Uses the package where nothing else is installed: one log, one queue, one task, one probe."""

import asyncio
import importlib.metadata
import sys
import tempfile
from pathlib import Path

import seawall

folder = Path(tempfile.mkdtemp(dir=sys.argv[1]))
names = sorted(one.metadata["Name"] for one in importlib.metadata.distributions())
assert names == ["seawall"], names
assert importlib.metadata.requires("seawall") is None
assert Path(seawall.__file__).is_relative_to(sys.argv[1]), seawall.__file__
assert (Path(seawall.__file__).parent / "py.typed").exists()


async def commit() -> int:
    """Commits from a task."""
    async with seawall.Log(folder / "log") as log:
        return (await log.append_commit_async(b"record")).end


assert asyncio.run(commit()) == 10
assert [record.payload for record in seawall.View(folder / "log")] == [b"record"]
with seawall.Queue(folder / "queue") as queue:
    queue.put(b"message")
    with queue.get() as message:
        assert message.body == b"message"
assert seawall.probe(folder).problem is None
assert "commit" in seawall.scenarios()
