"""A durable queue in one log: at least once, acknowledged by the consumer, safe across crashes.

::

    stream 0   m0 m1 m2 m3 m4 m5 …        messages, by sequence number
    stream 1   [1] [0] [4] [3] …          acknowledgements: numbers of messages
                                          low = 2: everything before it is acknowledged, and trimmed
    stream 2   (m2, 1, -) (m2, 2, 5 s) …  attempts of messages and for how long they are held back; the newest counts
    stream 3   (m3, 4, body) …            dead letters: messages that were tried too often
    on opening      waiting = messages from the first that is left, without those of stream 1

Why it holds: the log makes a prefix of what was appended durable. A message is handed out only when it is durable, and an
acknowledgement is durable when ``ack`` returns, so none is handed out after that by any process. Messages are trimmed only below
``low``, and the trim of the acknowledgements is appended behind that of the messages: wherever a crash cuts the log, every
message that is left is either in stream 1 or handed out again. A dead letter is appended before the acknowledgement of its message,
under one lock: the newest is the only one whose message may be left, and opening acknowledges that.

An attempt outlives the process when the message is handed out, so that a message which ends the process is counted too. It outlives
a power cut with the next commit.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from . import errors
from ._seawall import Log, StreamAppend
from ._tasks import with_room

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._options import QueueLogOptions

__all__ = ["Body", "DeadLetter", "Message", "Queue"]

Body: TypeAlias = bytes | bytearray | memoryview
"""What is put."""

_MESSAGES, _ACKS, _STATES, _DEAD = range(4)
_TRIM_EVERY = 64
"""Acknowledged messages at the front before they are trimmed: a trim is a record."""
_STATES_MIN = 1024
"""States of messages before they are written anew, with those alone that count."""
_STATE = struct.Struct("<QQQQ")
"""Of a message: its number, its attempts, for how long it is held back, and since when, in microseconds."""
_DEAD_HEAD = struct.Struct("<QQ")
"""In front of the body of a dead letter: the number of the message and its attempts."""
_CRASH_MEMORY_BYTES = 1 << 20
"""Memory for attempts that are not written yet."""
_RETRY_MAX = 60.0
"""The longest that a message whose block raised is held back, in seconds."""

_REFUSED = {
    "disk_bytes_max": "acknowledgements need room of the same bound, so that a full queue could not be emptied",
    "on_full": "it belongs to disk_bytes_max, which a queue does not take",
    "retain_bytes": "messages go when they are acknowledged",
    "retain_seconds": "messages go when they are acknowledged",
}


@dataclass(frozen=True)
class DeadLetter:
    """A message that was tried ``max_attempts`` times in vain."""

    number: int
    """Its number among the dead letters."""
    seq: int
    """The number that it had in the queue."""
    attempts: int
    """How often it was handed out."""
    body: bytes
    """What was put."""


class Message:
    """A message that was handed out: acknowledge it with ``ack``, give it back with ``nack``.

    As a context manager it is acknowledged when the block ends. When the block raises it is given back, and held back for a moment
    that doubles with each attempt: ``retry_delay`` of the queue.
    """

    __slots__ = ("_queue", "attempt", "body", "delivery", "seq")

    def __init__(self, queue: Queue, seq: int, body: bytes, attempt: int, delivery: int) -> None:
        """Made by ``Queue.get``."""
        self._queue = queue
        self.seq = seq
        """Its number in the queue."""
        self.body = body
        """What was put."""
        self.attempt = attempt
        """How often it was handed out, this time included, by any process."""
        self.delivery = delivery
        """The number of this hand-out among all since the queue was opened."""

    def ack(self) -> None:
        """Returns when it is durable that the message was processed: it is never handed out again. Also after another consumer got it,
        because the time for it was over."""
        self._queue.ack(self.seq)

    async def ack_async(self) -> None:
        """As ``ack``, without blocking the event loop."""
        await self._queue.ack_async(self.seq)

    def nack(self, *, delay: float = 0.0) -> None:
        """Gives it back: it is handed out again behind the messages that are there now, and not before ``delay`` seconds are over.
        Does nothing if it was acknowledged, given back, or handed to another consumer meanwhile."""
        self._queue.nack(self.seq, delivery=self.delivery, delay=delay)

    def __enter__(self) -> Message:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.ack()
        else:
            self._failed(kind)

    async def __aenter__(self) -> Message:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.ack_async()
        else:
            self._failed(kind)

    def _failed(self, kind: type[BaseException]) -> None:
        # A task that is cancelled or a program that is ended has not failed at the message.
        tried = issubclass(kind, Exception)
        self.nack(delay=min(_RETRY_MAX, self._queue._retry_delay * 2.0 ** min(self.attempt - 1, 32)) if tried else 0.0)

    def __repr__(self) -> str:
        return f"Message(seq={self.seq}, attempt={self.attempt}, {len(self.body)} bytes)"


class Queue:
    """A durable queue in one directory, for any number of producers and consumers of one process: threads and tasks of asyncio.

    A message is there after any crash once ``put`` has returned, and handed out at least once: again when its consumer gives it
    back, when it was not acknowledged for ``redeliver_after`` seconds, and after a crash. Messages are handed out in the order in
    which they were put; one that comes back goes to the back of the line.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        redeliver_after: float | None = None,
        max_attempts: int | None = None,
        retry_delay: float = 0.1,
        **log_options: Unpack[QueueLogOptions],
    ) -> None:
        """Opens or makes the queue in ``path``.

        ``redeliver_after``: after how many seconds without an acknowledgement a message is handed out again; ``None``: only when it
        is given back, and when the queue is opened again. ``max_attempts``: a message that was handed out so often and not acknowledged
        becomes a dead letter (``dead_letters``); ``None``: it is tried for ever. ``retry_delay``: for how many seconds a message is held
        back whose block raised, doubled with each further attempt up to a minute. Other keywords are options of the log, as those of
        ``Log``.
        """
        if redeliver_after is not None and not redeliver_after > 0:
            raise ValueError(f"redeliver_after must be a time above 0 seconds, or None, not {redeliver_after}")
        if max_attempts is not None and max_attempts < 1:
            raise ValueError(f"max_attempts must be 1 or more, or None, not {max_attempts}")
        options: dict[str, Any] = dict(log_options)
        for option, reason in _REFUSED.items():
            if options.get(option) is not None:
                refused = errors.InvalidOption(f"option {option}: a queue does not take it: {reason}")
                refused.option = option
                raise refused
        if options.get("crash_memory_bytes") is None:
            options["crash_memory_bytes"] = _CRASH_MEMORY_BYTES
        self._redeliver_after = redeliver_after
        self._max_attempts = max_attempts
        self._retry_delay = _micros("retry_delay", retry_delay) / 1e6
        self._log = Log(path, **options)
        try:
            self._recover()
        except BaseException:
            self._log.close()
            raise

    def _recover(self) -> None:
        streams = set(self._log.streams())
        # A queue has records of streams only.
        if streams - {_MESSAGES, _ACKS, _STATES, _DEAD} or (not streams and next(iter(self._log), None) is not None):
            raise _no_queue(self._log)
        self._messages, self._acks, self._states, self._dead = map(self._log.stream, range(4))
        # Also held while a record is appended whose effect must be known before that of others.
        self._lock = threading.Lock()
        self._waiting: OrderedDict[object, Callable[[], bool]] = OrderedDict()
        self._keeper: object = None
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
        if (newest := self._dead.next_seq) > self._dead.first_seq:
            seq, _ = _head(self._dead.get(newest - 1).payload, self._log)
            if not self._is_acked(seq):
                self._acknowledge_now(seq)
        self._fresh = self._low
        # Messages that came back: each behind those that were there then.
        self._again: list[tuple[int, int, int]] = []
        self._out: dict[int, int] = {}
        self._held: dict[int, int] = {}
        # When a message that is out or held back is due: its number, and the number of the hand-out or of the delay.
        self._timers: list[tuple[float, int, int]] = []
        self._attempts: dict[int, int] = {}
        # Messages that become dead letters.
        self._spent: list[int] = []
        self._deliveries = 0
        self._recover_states()
        self._advance()

    def _recover_states(self) -> None:
        until: dict[int, float] = {}
        now = time.time()
        for record in self._states:
            if not record.payload or len(record.payload) % _STATE.size:
                raise _no_queue(self._log)
            for seq, attempts, delay, since in _STATE.iter_unpack(record.payload):
                if self._is_acked(seq):
                    continue
                # Threads that hand out at once may append in another order.
                if attempts:
                    self._attempts[seq] = max(attempts, self._attempts.get(seq, 0))
                # A clock that was set back holds nothing back for longer than was wanted.
                until[seq] = min(delay, max(0, since + delay - now * 1e6)) / 1e6
        for seq, left in until.items():
            if left > 0:
                self._hold(seq, left)

    # Putting.

    def put(self, body: Body, *, delay: float = 0.0) -> int:
        """Puts a message; returns its number when it is durable. Threads that put at once share a write. It is not handed out before
        ``delay`` seconds are over, also by another process."""
        if delay:
            return self.put_many([body], delay=delay)[0]
        appended = self._messages.append(body)
        self._log.commit(appended.end)
        self._stored(appended.seq)
        return appended.seq

    def put_many(self, bodies: Iterable[Body], *, delay: float = 0.0) -> list[int]:
        """Puts messages by one write; returns their numbers when all are durable. A crash or an error before that may leave the
        first of them in the queue. ``delay`` as that of ``put``."""
        if delay:
            later = [self._append_held(body, delay, self._messages.append) for body in bodies]
            if later:
                self._log.commit(later[-1][1])
                self._stored(later[-1][0])
            return [seq for seq, _ in later]
        appended = [self._messages.append(body) for body in bodies]
        if appended:
            self._log.commit(appended[-1].end)
            self._stored(appended[-1].seq)
        return [one.seq for one in appended]

    async def put_async(self, body: Body, *, delay: float = 0.0) -> int:
        """As ``put``, without blocking the event loop."""
        if delay:
            seq, end = await with_room(self._log, lambda: self._append_held(body, delay, self._messages._append_no_wait))
            await self._log.commit_async(end)
            self._stored(seq)
            return seq
        stored = self._messages.append_commit_async(body)
        future = asyncio.ensure_future(stored)
        # Consumers learn of it even if this task is cancelled.
        future.add_done_callback(self._stored_async)
        return (await asyncio.shield(future)).seq

    def _append_held(self, body: Body, delay: float, append: Callable[[Body], StreamAppend]) -> tuple[int, int]:
        """Appends a message that is held back; its number, and the LSN to commit."""
        micros = _micros("delay", delay)
        with self._lock:
            # Under the lock: a consumer that is told of a later message finds this one held back.
            seq = append(body).seq
            end = self._states.append(_STATE.pack(seq, 0, micros, _now_micros())).end
            self._hold(seq, delay)
        return seq, end

    def _stored_async(self, future: asyncio.Future[Any]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._stored(future.result().seq)

    def _stored(self, seq: int) -> None:
        with self._lock:
            # What was appended before it is durable as well.
            new = seq + 1 - self._durable
            self._durable += max(0, new)
            self._wake(new)

    # Getting.

    def get(self, timeout: float | None = None) -> Message:
        """The next message; waits for one, for at most ``timeout`` seconds if that is given, and raises ``TimedOut`` then."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            self._bury()
            called = threading.Lock()
            called.acquire()
            taken, pause = self._take_or_wait(called, lambda: _release(called), until, timeout)
            if taken is None:
                try:
                    called.acquire(timeout=-1 if pause is None else min(pause, threading.TIMEOUT_MAX))
                except BaseException:
                    self._left(called, True)
                    raise
                self._left(called, False)
                continue
            message = self._read(*taken)
            if message is not None:
                self._log.commit(self._tried(message), durability="process-crash")
                return message

    async def get_async(self, timeout: float | None = None) -> Message:
        """As ``get``, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            self._bury()
            called: asyncio.Future[None] = loop.create_future()
            taken, pause = self._take_or_wait(called, lambda called=called: _call(loop, called), until, timeout)  # type: ignore[misc]
            if taken is None:
                late = None if pause is None else loop.call_later(pause, _set, called)
                try:
                    await called
                except BaseException:
                    self._left(called, True)
                    raise
                finally:
                    if late is not None:
                        late.cancel()
                self._left(called, False)
                continue
            message = self._read(*taken)
            if message is not None:
                try:
                    await self._log.commit_async(self._tried(message), durability="process-crash")
                except BaseException:
                    message.nack()
                    raise
                return message

    def _tried(self, message: Message) -> int:
        """Notes that a message was handed out; the LSN to commit."""
        return self._states.append(_STATE.pack(message.seq, message.attempt, 0, 0)).end

    def _take_or_wait(
        self, waiter: object, wake: Callable[[], bool], until: float | None, timeout: float | None
    ) -> tuple[tuple[int, int, int] | None, float | None]:
        """The next message to hand out, or, with ``None``, the caller's place in the line: for how long it waits at most."""
        with self._lock:
            taken = self._take()
            now = time.monotonic()
            late = until is not None and now >= until
            if taken is not None or self._spent or late:
                if self._timers and self._keeper is None:
                    # Another one looks when the next message is due.
                    self._wake(1)
                if late and taken is None and not self._spent:
                    raise _late(timeout)
                return taken, 0.0
            self._waiting[waiter] = wake
            ends = [] if until is None else [until]
            # One of all that wait looks when the next message is due.
            if self._timers and self._keeper is None:
                self._keeper = waiter
                ends.append(self._timers[0][0])
            return None, max(0.0, min(ends) - now) if ends else None

    def _left(self, waiter: object, gone: bool) -> None:
        """A consumer waits no longer; one that is gone takes nothing, so that the message it was called for goes to another."""
        with self._lock:
            was_called = self._waiting.pop(waiter, None) is None
            if self._keeper is waiter:
                self._keeper = None
            if gone and (was_called or self._timers):
                self._wake(1)

    def _wake(self, messages: int) -> None:
        """Calls one consumer for each message, if so many wait: that which keeps the time comes last. With the lock held."""
        while messages > 0 and self._waiting:
            first = next((waiter for waiter in self._waiting if waiter is not self._keeper), self._keeper)
            wake = self._waiting.pop(first)
            if first is self._keeper:
                self._keeper = None
            # An event loop that was closed has no task that waits.
            messages -= wake()

    def _due(self, when: float, seq: int, number: int) -> None:
        """Notes when a message is due. With the lock held."""
        heapq.heappush(self._timers, (when, seq, number))
        if self._timers[0][0] == when and self._waiting:
            # The keeper looks again, or there is none.
            keeper = self._waiting.pop(self._keeper, None) if self._keeper is not None else None
            self._keeper = None
            if keeper is not None:
                keeper()
            else:
                self._wake(1)

    def _take(self) -> tuple[int, int, int] | None:
        """The next message to hand out, its delivery and its attempt. With the lock held."""
        if self._closed:
            raise errors.Closed("the queue was closed")
        now = time.monotonic()
        due = 0
        while self._timers and self._timers[0][0] <= now:
            _, seq, number = heapq.heappop(self._timers)
            for kept in (self._out, self._held):
                if kept.get(seq) == number:
                    del kept[seq]
                    due += 1
                    # Others come in their order, when they are durable.
                    if seq < self._fresh:
                        self._line_up(seq)
        self._wake(due - 1)
        while True:
            if self._again and self._again[0][0] <= self._fresh:
                seq = heapq.heappop(self._again)[2]
            elif self._fresh < self._durable:
                seq = self._fresh
                self._fresh += 1
                if seq in self._held:
                    continue
            else:
                return None
            if self._is_acked(seq):
                continue
            attempt = self._attempts.get(seq, 0) + 1
            if self._max_attempts is None or attempt <= self._max_attempts:
                break
            self._spent.append(seq)
        self._deliveries += 1
        self._out[seq] = self._deliveries
        self._attempts[seq] = attempt
        if self._redeliver_after is not None:
            self._due(now + self._redeliver_after, seq, self._deliveries)
        return seq, self._deliveries, attempt

    def _line_up(self, seq: int) -> None:
        """Puts a message behind those that are there. With the lock held."""
        self._deliveries += 1
        heapq.heappush(self._again, (self._durable, self._deliveries, seq))

    def _hold(self, seq: int, delay: float) -> None:
        """Holds a message back. With the lock held."""
        self._deliveries += 1
        self._held[seq] = self._deliveries
        self._due(time.monotonic() + delay, seq, self._deliveries)

    def _read(self, seq: int, delivery: int, attempt: int) -> Message | None:
        """Reads a message that was taken; ``None`` if a consumer that had it before acknowledged it meanwhile."""
        try:
            return Message(self, seq, self._messages.get(seq).payload, attempt, delivery)
        except errors.StreamTrimmed:
            return None
        except BaseException:
            self.nack(seq, delivery=delivery)
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

    def nack(self, seq: int, *, delivery: int | None = None, delay: float = 0.0) -> None:
        """Gives a message back that was handed out: it is handed out again behind the messages that are there now, and not before
        ``delay`` seconds are over, also by another process. Does nothing if it is not out, or, with ``delivery``, if that hand-out is
        not the newest."""
        micros = _micros("delay", delay)
        with self._lock:
            if seq not in self._out or delivery not in (None, self._out[seq]):
                return
            del self._out[seq]
            if self._is_acked(seq):
                return
            if self._max_attempts is not None and self._attempts.get(seq, 0) >= self._max_attempts:
                self._spent.append(seq)
            elif delay:
                self._hold(seq, delay)
                if not self._closed:
                    self._states.append(_STATE.pack(seq, self._attempts.get(seq, 0), micros, _now_micros()))
            else:
                self._line_up(seq)
                self._wake(1)
        self._bury()

    def _acknowledge_now(self, seq: int) -> None:
        appended = self._acks.append(_pack([seq]))
        self._ack_records[appended.seq] = seq
        self._acked.add(seq)

    # Dead letters.

    def _bury(self) -> None:
        """Moves messages that were tried too often to the dead letters."""
        while self._spent:
            with self._lock:
                if self._closed or not self._spent:
                    return
                seq = self._spent[-1]
                if not self._is_acked(seq):
                    self._dead.append(_DEAD_HEAD.pack(seq, self._attempts.get(seq, 0)) + self._messages.get(seq).payload)
                    self._acknowledge_now(seq)
                    self._settle([seq])
                self._spent.pop()

    def dead_letters(self) -> list[DeadLetter]:
        """The messages that were tried ``max_attempts`` times in vain, in the order in which that happened. They stay until they are put
        back or dropped."""
        self._bury()
        self._log.commit()
        found = []
        for record in self._dead:
            seq, attempts = _head(record.payload, self._log)
            found.append(DeadLetter(record.seq or 0, seq, attempts, record.payload[_DEAD_HEAD.size :]))
        return found

    def retry_dead_letters(self) -> list[int]:
        """Puts all dead letters into the queue again, as new messages; returns their numbers. A crash meanwhile may leave them in both."""
        dead = self.dead_letters()
        put = self.put_many([letter.body for letter in dead])
        self._drop(dead)
        return put

    def drop_dead_letters(self) -> int:
        """Removes all dead letters; returns how many that were."""
        dead = self.dead_letters()
        self._drop(dead)
        return len(dead)

    def _drop(self, dead: list[DeadLetter]) -> None:
        if dead:
            self._log.commit(self._dead.trim(dead[-1].number + 1))

    def _is_acked(self, seq: int) -> bool:
        return seq < self._low or seq in self._acked

    def _unacknowledged(self, seqs: Iterable[int]) -> list[int]:
        with self._lock:
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
        with self._lock:
            self._ack_records[record] = max(seqs)
            self._acked.update(seq for seq in seqs if seq >= self._low)
            self._settle(seqs)

    def _settle(self, seqs: list[int]) -> None:
        """Forgets messages that are acknowledged, and trims. With the lock held."""
        for seq in seqs:
            self._out.pop(seq, None)
            self._held.pop(seq, None)
            self._attempts.pop(seq, None)
        self._advance()
        if self._closed:
            return
        if self._low - self._trimmed >= _TRIM_EVERY:
            self._trim()
        if self._states.next_seq - self._states.first_seq > max(_STATES_MIN, 4 * len(self._attempts)):
            self._rewrite_states()

    def _rewrite_states(self) -> None:
        """Writes the states that count anew, and trims all before them."""
        due = {seq: when - time.monotonic() for when, seq, number in self._timers if self._held.get(seq) == number}
        seqs = list({**self._attempts, **due})
        first = self._states.next_seq
        if first == self._states.first_seq:
            return
        for at in range(0, len(seqs), _STATES_MIN):
            self._states.append(
                b"".join(
                    _STATE.pack(seq, self._attempts.get(seq, 0), int(max(0.0, due.get(seq, 0.0)) * 1e6), _now_micros())
                    for seq in seqs[at : at + _STATES_MIN]
                )
            )
        self._states.trim(first)

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

    def __len__(self) -> int:
        """Messages that are not acknowledged, those that are handed out included."""
        with self._lock:
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
        with self._lock:
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
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._wake(len(self._waiting))
            try:
                self._trim()
                self._rewrite_states()
            finally:
                self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def __repr__(self) -> str:
        return f"Queue('{self._log.path}', {'closed' if self._closed else f'{len(self)} messages'})"


def _set(called: asyncio.Future[None]) -> None:
    if not called.done():
        called.set_result(None)


def _call(loop: asyncio.AbstractEventLoop, called: asyncio.Future[None]) -> bool:
    """Calls a task; whether it may be there."""
    if called.done():
        return False
    if asyncio._get_running_loop() is loop:
        called.set_result(None)
        return True
    try:
        loop.call_soon_threadsafe(_set, called)
    except RuntimeError:
        return False
    return True


def _release(called: threading.Lock) -> bool:
    called.release()
    return True


def _micros(name: str, seconds: float) -> int:
    """A time as states hold it."""
    if not 0 <= seconds < 2**63 / 1e6:
        raise ValueError(f"{name} must be a time in seconds from 0 on, not {seconds}")
    return int(seconds * 1e6)


def _now_micros() -> int:
    return int(time.time() * 1e6)


def _head(payload: bytes, log: Log) -> tuple[int, int]:
    if len(payload) < _DEAD_HEAD.size:
        raise _no_queue(log)
    seq, attempts = _DEAD_HEAD.unpack_from(payload)
    return seq, attempts


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
