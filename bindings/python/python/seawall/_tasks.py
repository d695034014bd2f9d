"""Coroutines behind the asynchronous methods: what waits for more than one thing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from . import errors
from ._seawall import Append, Follower, Log, Message, Queue, Record, Stream, StreamAppend

T = TypeVar("T")

_FIRST_PAUSE = 0.001
"""How long an append that found no room pauses at first, in seconds. Each further pause is twice as long."""
_LONGEST_PAUSE = 0.05
"""How long at most."""
_LOOK = 0.2
"""How long a thread waits for a record of another process's log before it looks whether the task still wants it, in seconds."""


_VIEWS = ThreadPoolExecutor(10_000, "seawall-view")
"""Threads that wait for records of other processes' logs, one for each follower that is waited for: the event loop's own are few, and
its programs need them."""


class Pending(asyncio.Future[T], Coroutine[Any, Any, T]):
    """A future that is a coroutine as well, for what takes coroutines alone: ``asyncio.create_task``, ``TaskGroup.create_task``."""

    _steps: Generator[Any, Any, T] | None = None

    def _started(self) -> Generator[Any, Any, T]:
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps

    def send(self, value: Any) -> Any:
        """As of a coroutine that awaits this future."""
        return self._started().send(value)

    def throw(self, kind: Any, value: Any = None, trace: Any = None) -> Any:
        """As of a coroutine that awaits this future."""
        return self._started().throw(kind if value is None else value)

    def close(self) -> None:
        """As of a coroutine: what was begun goes on."""


def _pending(coroutine: Coroutine[Any, Any, T]) -> Pending[T]:
    """What a task of this coroutine comes to; cancelling it cancels the task."""
    task = asyncio.ensure_future(coroutine)
    pending: Pending[T] = Pending(loop=task.get_loop())

    def done(_: object) -> None:
        if pending.done():
            return
        if task.cancelled():
            pending.cancel()
        elif (error := task.exception()) is not None:
            pending.set_exception(error)
        else:
            pending.set_result(task.result())

    task.add_done_callback(done)
    pending.add_done_callback(lambda _: task.cancel() if pending.cancelled() else None)
    return pending


async def itself(one: T) -> T:
    """What ``async with one`` gives."""
    return one


async def close(log: Log | Queue) -> None:
    """Closes a log or a queue in a thread of its own."""
    await asyncio.get_running_loop().run_in_executor(None, log.close)


async def get(queue: Queue, timeout: float | None) -> Message:
    """``Queue.get_async``: nothing but this coroutine holds the message, so that one which is cancelled lets go of it."""
    if messages := await queue._taken(1, timeout):
        return messages[0]
    late = errors.TimedOut(f"no message came within {timeout} s")
    late.timeout = timeout or 0.0
    raise late


async def get_many(queue: Queue, messages_max: int, timeout: float | None) -> list[Message]:
    """``Queue.get_many_async``."""
    return await queue._taken(messages_max, timeout)


async def give_back(message: Message, delay: float) -> None:
    """Gives a message back whose block raised, which says more than why this could not be done: it comes again in any case, when the queue
    is closed."""
    with contextlib.suppress(errors.Error):
        await message.nack_async(delay=delay)


async def with_room(log: Log, append: Callable[[], T]) -> T:
    """Appends when there is room: when what was appended is written, or after a pause."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return append()
        except errors.WouldBlock:
            await log.commit_async()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


async def append(log: Log, to: Log | Stream, record: bytes) -> Append | StreamAppend:
    """``Log.append_async``, to the log or to a stream of it."""
    return await with_room(log, lambda: to._append_no_wait(record))


async def _append_commit(log: Log, to: Log | Stream, record: bytes) -> Append | StreamAppend:
    appended = await append(log, to, record)
    await log.commit_async(appended.end)
    return appended


def append_commit(log: Log, to: Log | Stream, record: bytes) -> Pending[Append | StreamAppend]:
    """``append_commit_async`` of the log or of a stream, where there is no room now."""
    return _pending(_append_commit(log, to, record))


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
    """The next record of a follower of another process's log, which a thread waits for where none was fetched."""
    while True:
        record = follower._take()
        if record is not None:
            return record
        await asyncio.get_running_loop().run_in_executor(_VIEWS, follower._wait, _LOOK)
