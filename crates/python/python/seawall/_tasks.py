"""Coroutines behind the asynchronous methods: what waits for more than one thing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from . import errors
from ._seawall import Follower, Log, Record, Stream, StreamAppend

T = TypeVar("T")

_FIRST_PAUSE = 0.001
"""How long an append that found no room pauses at first, in seconds. Each further pause is twice as long."""
_LONGEST_PAUSE = 0.05
"""How long at most."""
_LOOK = 0.2
"""How long a thread waits for a record of another process's log before it looks whether the task still wants it, in seconds."""


async def itself(log: Log) -> Log:
    """What ``async with log`` gives."""
    return log


async def close(log: Log) -> None:
    """Closes a log in a thread of its own."""
    await asyncio.get_running_loop().run_in_executor(None, log.close)


async def _with_room(log: Log, append: Callable[[], T]) -> T:
    """Appends when there is room: when what was appended is written, or after a pause."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return append()
        except errors.WouldBlock:
            await log.commit_async()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


async def append(log: Log, record: bytes) -> int:
    """``Log.append_async``."""
    return await _with_room(log, lambda: log._try_append(record))


async def _append_commit(log: Log, record: bytes) -> int:
    return await log.commit_async(await append(log, record))


def append_commit(log: Log, record: bytes) -> Awaitable[int]:
    """``Log.append_commit_async`` where there is no room now."""
    return asyncio.ensure_future(_append_commit(log, record))


async def _append_commit_to_stream(log: Log, stream: Stream, record: bytes) -> StreamAppend:
    appended = await _with_room(log, lambda: stream._try_append(record))
    await log.commit_async(appended.end)
    return appended


def append_commit_to_stream(log: Log, stream: Stream, record: bytes) -> Awaitable[StreamAppend]:
    """``Stream.append_commit_async`` where there is no room now."""
    return asyncio.ensure_future(_append_commit_to_stream(log, stream, record))


async def next_of_log(follower: Follower) -> Record:
    """The next record of a follower of a log of this process.

    The future carries no record: a task that is cancelled loses none.
    """
    while True:
        record = follower._take()
        if record is not None:
            return record
        await follower._readable()


async def next_of_view(follower: Follower) -> Record:
    """The next record of a follower of another process's log, which a thread waits for."""
    loop = asyncio.get_running_loop()
    while True:
        ready = loop.run_in_executor(None, follower._wait, _LOOK)
        await ready
        record = follower._take()
        if record is not None:
            return record
