"""A durable queue in one log: at least once, acknowledged by the consumer, safe across crashes.

::

    stream 0   m0 m1 m2 m3 m4 m5 …        messages, by sequence number
    stream 1   [1] [0] [4] [3] …          acknowledgements: numbers of messages
                                          low = 2: everything before it is acknowledged, and trimmed
    on opening      waiting = messages from the first that is left, without those of stream 1

Why it holds: the log makes a prefix of what was appended durable. A message is handed out only when it is durable, and an
acknowledgement is durable when ``ack`` returns, so none is handed out after that by any process. Messages are trimmed only below
``low``, and the trim of the acknowledgements is appended behind that of the messages: wherever a crash cuts the log, every
message that is left is either in stream 1 or handed out again.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import os
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

from . import errors
from ._seawall import Log

__all__ = ["Body", "Message", "Queue"]

Body: TypeAlias = bytes | bytearray | memoryview
"""What is put."""

_MESSAGES = 0
_ACKS = 1
_TRIM_EVERY = 64
"""Acknowledged messages at the front before they are trimmed: a trim is a record."""

_REFUSED = {
    "disk_bytes_max": "acknowledgements need room of the same bound, so that a full queue could not be emptied",
    "on_full": "it belongs to disk_bytes_max, which a queue does not take",
    "retain_bytes": "messages go when they are acknowledged",
    "retain_seconds": "messages go when they are acknowledged",
}


class Message:
    """A message that was handed out: acknowledge it with ``ack``, give it back with ``nack``.

    As a context manager it is acknowledged when the block ends, and given back when the block raises.
    """

    __slots__ = ("_queue", "attempt", "body", "seq")

    def __init__(self, queue: Queue, seq: int, body: bytes, attempt: int) -> None:
        """Made by ``Queue.get``."""
        self._queue = queue
        self.seq = seq
        """Its number in the queue."""
        self.body = body
        """What was put."""
        self.attempt = attempt
        """How often it was handed out since the queue was opened, this time included."""

    def ack(self) -> None:
        """Returns when it is durable that the message was processed: it is never handed out again."""
        self._queue.ack(self.seq)

    async def ack_async(self) -> None:
        """As ``ack``, without blocking the event loop."""
        await self._queue.ack_async(self.seq)

    def nack(self) -> None:
        """Gives it back: it is handed out again at once."""
        self._queue.nack(self.seq)

    def __enter__(self) -> Message:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.ack()
        else:
            self.nack()

    async def __aenter__(self) -> Message:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.ack_async()
        else:
            self.nack()

    def __repr__(self) -> str:
        return f"Message(seq={self.seq}, attempt={self.attempt}, {len(self.body)} bytes)"


class Queue:
    """A durable queue in one directory, for any number of producers and consumers of one process: threads and tasks of asyncio.

    A message is there after any crash once ``put`` has returned, and handed out at least once: again when its consumer gives it
    back, when it was not acknowledged for ``redeliver_after`` seconds, and after a crash. Messages are handed out in the order in
    which they were put, those that were given back first.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, redeliver_after: float | None = None, **log_options: Any
    ) -> None:
        """Opens or makes the queue in ``path``.

        ``redeliver_after``: after how many seconds without an acknowledgement a message is handed out again; ``None``: only when it
        is given back, and when the queue is opened again. Other keywords are options of the log, as those of ``Log``.
        """
        if redeliver_after is not None and not redeliver_after > 0:
            raise ValueError(f"redeliver_after must be a time above 0 seconds, or None, not {redeliver_after}")
        for option, reason in _REFUSED.items():
            if log_options.get(option) is not None:
                refused = errors.InvalidOption(f"option {option}: a queue does not take it: {reason}")
                refused.option = option
                raise refused
        self._redeliver_after = redeliver_after
        self._log = Log(path, **log_options)
        try:
            self._recover()
        except BaseException:
            self._log.close()
            raise

    def _recover(self) -> None:
        streams = set(self._log.streams())
        # A queue has records of streams only.
        if streams - {_MESSAGES, _ACKS} or (not streams and next(iter(self._log), None) is not None):
            raise _no_queue(self._log)
        self._messages = self._log.stream(_MESSAGES)
        self._acks = self._log.stream(_ACKS)
        self._changed = threading.Condition(threading.Lock())
        self._waiting_tasks: set[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = set()
        self._closed = False
        # Everything that an opening serves is durable.
        self._durable = self._messages.next_seq
        self._low = self._messages.first_seq
        self._trimmed = self._low
        self._acked: set[int] = set()
        self._ack_records: dict[int, int] = {}
        self._first_ack = self._acks.first_seq
        for record in self._acks:
            seqs = _unpack(record.payload, self._log)
            self._ack_records[record.seq if record.seq is not None else 0] = max(seqs)
            self._acked.update(seq for seq in seqs if seq >= self._low)
        self._fresh = self._low
        self._again: list[int] = []
        self._out: dict[int, int] = {}
        self._deadlines: list[tuple[float, int, int]] = []
        self._attempts: dict[int, int] = {}
        self._deliveries = 0
        self._advance()

    # Putting.

    def put(self, body: Body) -> int:
        """Puts a message; returns its number when it is durable. Threads that put at once share a write."""
        appended = self._messages.append(body)
        self._log.commit(appended.end)
        self._stored(appended.seq)
        return appended.seq

    def put_many(self, bodies: Iterable[Body]) -> list[int]:
        """Puts messages by one write; returns their numbers when all are durable. A crash or an error before that may leave the
        first of them in the queue."""
        appended = [self._messages.append(body) for body in bodies]
        if appended:
            self._log.commit(appended[-1].end)
            self._stored(appended[-1].seq)
        return [one.seq for one in appended]

    async def put_async(self, body: Body) -> int:
        """As ``put``, without blocking the event loop."""
        stored = self._messages.append_commit_async(body)
        future = asyncio.ensure_future(stored)
        # Consumers learn of it even if this task is cancelled.
        future.add_done_callback(self._stored_async)
        return (await asyncio.shield(future)).seq

    def _stored_async(self, future: asyncio.Future[Any]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._stored(future.result().seq)

    def _stored(self, seq: int) -> None:
        with self._changed:
            # What was appended before it is durable as well.
            self._durable = max(self._durable, seq + 1)
            self._wake()

    # Getting.

    def get(self, timeout: float | None = None) -> Message:
        """The next message; waits for one, for at most ``timeout`` seconds if that is given, and raises ``TimedOut`` then."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._changed:
                while (taken := self._take()) is None:
                    now = time.monotonic()
                    if until is not None and now >= until:
                        raise _late(timeout)
                    self._changed.wait(self._pause(now, until))
            message = self._read(*taken)
            if message is not None:
                return message

    async def get_async(self, timeout: float | None = None) -> Message:
        """As ``get``, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._changed:
                taken = self._take()
                if taken is None:
                    waiter: asyncio.Future[None] = loop.create_future()
                    waiting = (loop, waiter)
                    self._waiting_tasks.add(waiting)
            if taken is not None:
                message = self._read(*taken)
                if message is not None:
                    return message
                continue
            now = time.monotonic()
            try:
                if until is not None and now >= until:
                    raise _late(timeout)
                await asyncio.wait([waiter], timeout=self._pause(now, until))
            finally:
                with self._changed:
                    self._waiting_tasks.discard(waiting)

    def _pause(self, now: float, until: float | None) -> float | None:
        """How long to wait at most: until a message is to be handed out again, or the caller's time is over."""
        ends = [] if until is None else [until]
        if self._deadlines:
            ends.append(self._deadlines[0][0])
        return max(0.0, min(ends) - now) if ends else None

    def _take(self) -> tuple[int, int, int] | None:
        """The next message to hand out, its delivery and its attempt. With the lock held."""
        if self._closed:
            raise errors.Closed("the queue was closed")
        now = time.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, seq, delivery = heapq.heappop(self._deadlines)
            if self._out.get(seq) == delivery:
                del self._out[seq]
                heapq.heappush(self._again, seq)
        while True:
            if self._again:
                seq = heapq.heappop(self._again)
            elif self._fresh < self._durable:
                seq = self._fresh
                self._fresh += 1
            else:
                return None
            if not self._is_acked(seq):
                break
        self._deliveries += 1
        self._out[seq] = self._deliveries
        attempt = self._attempts.get(seq, 0) + 1
        self._attempts[seq] = attempt
        if self._redeliver_after is not None:
            heapq.heappush(self._deadlines, (now + self._redeliver_after, seq, self._deliveries))
        return seq, self._deliveries, attempt

    def _read(self, seq: int, delivery: int, attempt: int) -> Message | None:
        """Reads a message that was taken; ``None`` if a consumer that had it before acknowledged it meanwhile."""
        try:
            return Message(self, seq, self._messages.get(seq).payload, attempt)
        except errors.StreamTrimmed:
            return None
        except BaseException:
            with self._changed:
                if self._out.get(seq) == delivery:
                    self._give_back(seq)
            raise

    # Acknowledging.

    def ack(self, *seqs: int) -> None:
        """Returns when it is durable that the messages of these numbers were processed, by one write."""
        new = self._unacknowledged(seqs)
        if new:
            appended = self._acks.append_commit(_pack(new))
            self._acknowledged(appended.seq, new)

    async def ack_async(self, *seqs: int) -> None:
        """As ``ack``, without blocking the event loop."""
        new = self._unacknowledged(seqs)
        if new:
            future = asyncio.ensure_future(self._acks.append_commit_async(_pack(new)))
            future.add_done_callback(lambda done: self._acknowledged_async(done, new))
            await asyncio.shield(future)

    def nack(self, seq: int) -> None:
        """Gives a message back that was handed out: it is handed out again at once. Does nothing if it is not out."""
        with self._changed:
            if seq in self._out:
                self._give_back(seq)

    def _give_back(self, seq: int) -> None:
        del self._out[seq]
        if not self._is_acked(seq):
            heapq.heappush(self._again, seq)
            self._wake()

    def _is_acked(self, seq: int) -> bool:
        return seq < self._low or seq in self._acked

    def _unacknowledged(self, seqs: Iterable[int]) -> list[int]:
        with self._changed:
            if self._closed:
                raise errors.Closed("the queue was closed")
            for seq in seqs:
                if not 0 <= seq < self._durable:
                    raise ValueError(f"the queue has no message {seq}: it goes on with {self._durable}")
            return [seq for seq in dict.fromkeys(seqs) if not self._is_acked(seq)]

    def _acknowledged_async(self, future: asyncio.Future[Any], seqs: list[int]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._acknowledged(future.result().seq, seqs)

    def _acknowledged(self, record: int, seqs: list[int]) -> None:
        with self._changed:
            self._ack_records[record] = max(seqs)
            for seq in seqs:
                self._out.pop(seq, None)
                self._attempts.pop(seq, None)
                if seq >= self._low:
                    self._acked.add(seq)
            self._advance()
            if self._low - self._trimmed >= _TRIM_EVERY and not self._closed:
                self._trim()

    def _advance(self) -> None:
        while self._low in self._acked:
            self._acked.remove(self._low)
            self._low += 1

    def _trim(self) -> None:
        """Trims what is acknowledged, and then the acknowledgements that are about nothing that is left."""
        while self._ack_records.get(self._first_ack, self._low) < self._low:
            del self._ack_records[self._first_ack]
            self._first_ack += 1
        self._messages.trim(self._low)
        self._acks.trim(self._first_ack)
        self._trimmed = self._low

    # The rest.

    def _wake(self) -> None:
        self._changed.notify_all()
        for loop, waiter in self._waiting_tasks:
            # A loop that was closed has no task that waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_set, waiter)
        self._waiting_tasks.clear()

    def __len__(self) -> int:
        """Messages that are not acknowledged, those that are handed out included."""
        with self._changed:
            return self._durable - self._low - len(self._acked)

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come, until the queue is closed."""
        while True:
            try:
                yield self.get()
            except errors.Closed:
                return

    @property
    def in_flight(self) -> int:
        """Messages that are handed out and not acknowledged."""
        with self._changed:
            return len(self._out)

    @property
    def path(self) -> Path:
        """The absolute path of the queue's directory."""
        return self._log.path

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def close(self) -> None:
        """Trims what is acknowledged and closes the log; consumers that wait get ``Closed``. Does nothing the second time."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._wake()
            try:
                self._trim()
            finally:
                self._log.close()

    def __enter__(self) -> Queue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Queue:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def __repr__(self) -> str:
        return f"Queue('{self._log.path}', {'closed' if self._closed else f'{len(self)} messages'})"


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _no_queue(log: Log) -> errors.Error:
    error = errors.NotALog(f"{log.path} holds a log that is no queue: name another folder")
    error.path = str(log.path)
    return error


def _late(timeout: float | None) -> errors.TimedOut:
    late = errors.TimedOut(f"no message came within {timeout} seconds")
    late.timeout = timeout or 0.0
    return late


def _pack(seqs: list[int]) -> bytes:
    return struct.pack(f"<{len(seqs)}Q", *seqs)


def _unpack(payload: bytes, log: Log) -> tuple[int, ...]:
    if not payload or len(payload) % 8:
        raise _no_queue(log)
    return struct.unpack(f"<{len(payload) // 8}Q", payload)
