"""The queue: everything is handed out at least once, and what was acknowledged never again."""

from __future__ import annotations

import asyncio
import shutil
import struct
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from conftest import SMALL, Scratch, child
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seawall import Log, Message, Queue, errors


def open_queue(path: Path, **options: Any) -> Queue:
    return Queue(path / "queue", **SMALL, **options)


def drain(queue: Queue) -> list[bytes]:
    """Everything that is handed out now, acknowledged."""
    bodies = []
    while len(queue) > queue.in_flight:
        with queue.get(timeout=0) as message:
            bodies.append(message.body)
    return bodies


def test_messages_come_in_order_and_go_when_they_are_acknowledged(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        assert [queue.put(b"%d" % i) for i in range(3)] == [0, 1, 2]
        assert queue.put_many([b"3", bytearray(b"4")]) == [3, 4] and queue.put_many([]) == []
        assert (len(queue), queue.in_flight, queue.closed) == (5, 0, False)
        first = queue.get()
        assert (first.seq, first.body, first.attempt, len(queue), queue.in_flight) == (0, b"0", 1, 5, 1)
        first.ack()
        first.ack()
        assert drain(queue) == [b"1", b"2", b"3", b"4"] and len(queue) == 0
        with pytest.raises(errors.TimedOut):
            queue.get(timeout=0.01)
    with open_queue(tmp_path) as queue:
        assert len(queue) == 0 and queue.put(b"5") == 5


def test_what_is_given_back_comes_last_and_a_block_that_raises_gives_back(tmp_path: Path) -> None:
    with open_queue(tmp_path, retry_delay=0) as queue:
        queue.put_many([b"a", b"b", b"c"])
        with pytest.raises(ZeroDivisionError), queue.get():
            raise ZeroDivisionError
        second = queue.get()
        assert (second.body, second.attempt) == (b"b", 1)
        third = queue.get()
        again = queue.get()
        assert (again.body, again.attempt) == (b"a", 2)
        # What is put later comes later.
        again.nack()
        queue.put(b"d")
        again = queue.get()
        assert (again.body, again.attempt) == (b"a", 3)
        second.ack()
        second.nack()
        third.nack()
        third.nack()
        assert (queue.get().body, queue.get().body) == (b"d", b"c")
        with pytest.raises(errors.TimedOut):
            queue.get(timeout=0)
        with pytest.raises(ValueError, match="no message 4"):
            queue.ack(4)
        queue.ack(0, 2, 3, 0)
        assert len(queue) == 0


def test_a_message_that_is_not_acknowledged_in_time_is_handed_out_again(tmp_path: Path) -> None:
    with open_queue(tmp_path, redeliver_after=0.05) as queue:
        queue.put(b"one")
        late = queue.get()
        again = queue.get(timeout=60)
        assert (again.body, again.attempt) == (b"one", 2)
        # An acknowledgement that comes late is one all the same.
        late.ack()
        assert len(queue) == 0
        with pytest.raises(errors.TimedOut):
            queue.get(timeout=0.2)

        async def in_a_task() -> None:
            await queue.put_async(b"two")
            assert (await queue.get_async()).attempt == 1
            assert (await queue.get_async(timeout=60)).attempt == 2

        asyncio.run(in_a_task())
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="redeliver_after"):
            open_queue(tmp_path, redeliver_after=wrong)


def test_a_poison_job_lets_all_others_through_and_becomes_a_dead_letter(tmp_path: Path) -> None:
    done: list[bytes] = []
    tried: list[int] = []
    with open_queue(tmp_path, max_attempts=4, retry_delay=0.001) as queue:
        queue.put(b"poison")
        queue.put_many([b"%d" % i for i in range(10)])
        while len(queue):
            try:
                with queue.get(timeout=60) as message:
                    if message.body == b"poison":
                        tried.append(message.attempt)
                        raise ZeroDivisionError
                    done.append(message.body)
            except ZeroDivisionError:
                # Each of the others comes before it is tried again.
                assert tried == [1] or len(done) == 10
        assert done == [b"%d" % i for i in range(10)] and tried == [1, 2, 3, 4]
        (dead,) = queue.dead_letters()
        assert (dead.number, dead.seq, dead.attempts, dead.body) == (0, 0, 4, b"poison")
        assert queue.retry_dead_letters() == [11] and queue.dead_letters() == []
        assert (queue.get().attempt, queue.in_flight) == (1, 1)


@pytest.mark.parametrize("how", ["closed", "dropped", "killed"])
def test_attempts_outlive_the_process(tmp_path: Path, how: str) -> None:
    """A job that ends its worker is counted like one that raises: it does not come back for ever."""
    program = f"""
import os, signal, sys, seawall
queue = seawall.Queue(sys.argv[1], max_attempts=3, **{SMALL!r})
message = queue.get(timeout=60)
print(message.attempt, flush=True)
if sys.argv[2] == "closed":
    queue.close()
elif sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
os._exit(0)
"""
    with open_queue(tmp_path, max_attempts=3) as queue:
        queue.put(b"poison")
    for attempt in (1, 2, 3):
        with child(program, tmp_path / "queue", how) as worker:
            assert worker.stdout is not None and worker.stdout.read() == f"{attempt}\n"
    with open_queue(tmp_path, max_attempts=3) as queue:
        with pytest.raises(errors.TimedOut):
            queue.get(timeout=0)
        assert [(dead.seq, dead.attempts, dead.body) for dead in queue.dead_letters()] == [(0, 3, b"poison")]
        assert len(queue) == 0
    # A bound that is lifted lets nothing come back from the dead letters by itself.
    with open_queue(tmp_path) as queue:
        assert (len(queue), len(queue.dead_letters()), queue.drop_dead_letters(), queue.dead_letters()) == (0, 1, 1, [])


def test_a_dead_letter_whose_message_was_left_by_a_crash_is_not_handed_out(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        queue.put_many([b"a", b"b"])
        # As by a crash between the two records.
        queue._log.commit(queue._dead.append(struct.pack("<QQ", 0, 5) + b"a").end)
    for _ in range(2):
        with open_queue(tmp_path) as queue:
            assert (len(queue), queue.get().body, [dead.body for dead in queue.dead_letters()]) == (1, b"b", [b"a"])


def test_a_late_consumer_gives_back_nothing_that_another_one_has(tmp_path: Path) -> None:
    with open_queue(tmp_path, redeliver_after=0.05) as queue:
        queue.put(b"job")
        slow = queue.get()
        second = queue.get(timeout=60)
        assert second.delivery > slow.delivery and second.seq == slow.seq
        slow.nack()
        assert queue.in_flight == 1
        queue.nack(slow.seq, delivery=slow.delivery, delay=5)
        assert queue.in_flight == 1
        second.nack(delay=3600)
        assert (queue.in_flight, len(queue)) == (0, 1)
        with pytest.raises(errors.TimedOut):
            queue.get(timeout=0.1)


def test_messages_are_held_back_also_by_the_next_process(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        assert queue.put(b"held", delay=3600) == 0
        assert queue.put_many([b"soon", b"now"], delay=0.02) == [1, 2]
        assert queue.put(b"first") == 3
        assert queue.get(timeout=0).body == b"first"
        assert {queue.get(timeout=60).body for _ in range(2)} == {b"soon", b"now"}
        queue.nack(3, delay=3600)
        queue.ack(1, 2)

        async def in_a_task() -> None:
            assert await queue.put_async(b"task", delay=0.02) == 4
            assert (await queue.get_async(timeout=60)).body == b"task"
            await queue.ack_async(4)

        asyncio.run(in_a_task())
    with open_queue(tmp_path) as queue:
        assert len(queue) == 2
        with pytest.raises(errors.TimedOut):
            queue.get(timeout=0.05)
        queue.ack(0)
        for wrong in (-1.0, float("nan"), float("inf"), 1e300):
            with pytest.raises(ValueError, match="delay"):
                queue.put(b"x", delay=wrong)
            with pytest.raises(ValueError, match="delay"):
                queue.nack(3, delay=wrong)
            with pytest.raises(ValueError, match="retry_delay"):
                open_queue(tmp_path / "other", retry_delay=wrong)
    with pytest.raises(ValueError, match="max_attempts"):
        open_queue(tmp_path / "other", max_attempts=0)


def test_states_of_messages_are_written_anew_and_take_no_more_of_the_disk(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        queue.put(b"a")
        for attempt in range(1, 3_000):
            message = queue.get(timeout=0)
            assert message.attempt == attempt
            message.nack()
            if attempt % 100 == 0:
                queue.ack(queue.put(b"filler"))
        assert queue._states.next_seq - queue._states.first_seq < 1_200
    with open_queue(tmp_path) as queue:
        assert queue._states.next_seq - queue._states.first_seq == 1
        assert queue.get(timeout=0).attempt == 3_000


def test_each_message_wakes_one_consumer(tmp_path: Path) -> None:
    """Counts how often a consumer looks for a message: not once for each that waits."""

    class Counting(Queue):
        looked = 0

        def _take(self) -> tuple[int, int, int] | None:
            self.looked += 1
            return super()._take()

    async def main(redeliver_after: float | None) -> None:
        async with Counting(tmp_path / str(redeliver_after), redeliver_after=redeliver_after, **SMALL) as queue:
            seen: list[int] = []

            async def consume() -> None:
                while True:
                    message = await queue.get_async()
                    seen.append(message.seq)
                    await message.ack_async()

            consumers = [asyncio.ensure_future(consume()) for _ in range(100)]
            await asyncio.sleep(0)
            while len(queue._waiting) < 100:
                await asyncio.sleep(0)
            queue.looked = 0
            for _ in range(50):
                await queue.put_async(b"x")
            while len(seen) < 50:
                await asyncio.sleep(0)
            # One look finds the message, another finds none; a third keeps the time.
            assert queue.looked <= 50 * 4, queue.looked
            # One that was called and is cancelled hands its call on.
            waiting = [asyncio.ensure_future(queue.get_async()) for _ in range(2)]
            for consumer in consumers:
                consumer.cancel()
            await asyncio.gather(*consumers, return_exceptions=True)
            await queue.put_async(b"last")
            done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            assert len(done) == len(left) == 1
            for one in left:
                one.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    for redeliver_after in (None, 3600.0):
        asyncio.run(main(redeliver_after))

    with Counting(tmp_path / "threads", **SMALL) as queue:
        threads = [threading.Thread(target=lambda: queue.get().ack()) for _ in range(20)]
        for thread in threads:
            thread.start()
        while len(queue._waiting) < 20:
            time.sleep(0.001)
        queue.looked = 0
        for _ in range(20):
            queue.put(b"x")
        for thread in threads:
            thread.join(60)
        assert len(queue) == 0 and queue.looked <= 40


def test_an_acknowledgement_that_ends_behind_the_close_is_kept(tmp_path: Path) -> None:
    async def main() -> None:
        queue = open_queue(tmp_path)
        queue.put_many([b"a", b"b"])
        message = await queue.get_async()
        acknowledged = asyncio.ensure_future(message.ack_async())
        await asyncio.sleep(0)
        queue.close()
        await acknowledged

    raised: list[object] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
        await main()

    asyncio.run(watched())
    assert raised == []
    with open_queue(tmp_path) as queue:
        assert queue.get().body == b"b"


def test_one_of_the_waiting_consumers_keeps_the_time_and_hands_it_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_queue(tmp_path, redeliver_after=0.2) as queue:
            waiting = [asyncio.ensure_future(queue.get_async()) for _ in range(5)]
            await asyncio.sleep(0)
            await queue.put_async(b"a", delay=1)
            # The task that keeps the time goes, again and again.
            for one in waiting[:3]:
                await asyncio.sleep(0.02)
                one.cancel()
            done, _ = await asyncio.wait(waiting[3:], timeout=60, return_when=asyncio.FIRST_COMPLETED)
            assert [one.result().attempt for one in done] == [1]
            # Not acknowledged: the other one gets it.
            last = await asyncio.wait_for(next(one for one in waiting[3:] if one not in done), 60)
            assert last.attempt == 2
            await last.ack_async()
            with pytest.raises(errors.TimedOut):
                await queue.get_async(timeout=0.3)

    asyncio.run(main())


def test_messages_that_were_out_come_again_when_the_queue_is_opened_again(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        queue.put_many([b"%d" % i for i in range(10)])
        taken = [queue.get() for _ in range(6)]
        queue.ack(taken[1].seq, taken[4].seq)
    with open_queue(tmp_path) as queue:
        assert drain(queue) == [b"0", b"2", b"3", b"5", b"6", b"7", b"8", b"9"]


def test_threads_put_and_consume_every_message_once(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        seen: Counter[bytes] = Counter()
        lock = threading.Lock()

        def produce(producer: int) -> None:
            for i in range(100):
                queue.put(b"%d %d" % (producer, i))

        def consume() -> None:
            for message in queue:
                with lock:
                    seen[message.body] += 1
                message.ack()

        consumers = [threading.Thread(target=consume) for _ in range(4)]
        producers = [threading.Thread(target=produce, args=(producer,)) for producer in range(4)]
        for thread in consumers + producers:
            thread.start()
        for thread in producers:
            thread.join()
        while len(queue):
            time.sleep(0.001)
        queue.close()
        for thread in consumers:
            thread.join(60)
        assert len(seen) == 400 and set(seen.values()) == {1}


def test_tasks_put_and_consume_every_message_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_queue(tmp_path) as queue:
            seen: list[bytes] = []

            async def produce(producer: int) -> None:
                for i in range(50):
                    await queue.put_async(b"%d %d" % (producer, i))

            async def consume() -> None:
                while True:
                    async with await queue.get_async() as message:
                        seen.append(message.body)

            consumers = [asyncio.ensure_future(consume()) for _ in range(8)]
            await asyncio.gather(*(produce(producer) for producer in range(8)))
            while len(queue):
                await asyncio.sleep(0)
            for consumer in consumers:
                consumer.cancel()
            await asyncio.gather(*consumers, return_exceptions=True)
            assert len(seen) == len(set(seen)) == 400
            with pytest.raises(errors.TimedOut):
                await queue.get_async(timeout=0.01)
            with pytest.raises(errors.TimedOut):
                await queue.get_async(timeout=0)

    asyncio.run(main())


def test_a_thread_hands_messages_to_a_task(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:

        async def main() -> list[bytes]:
            thread = threading.Thread(target=lambda: [queue.put(b"%d" % i) for i in range(20)])
            waiting = asyncio.ensure_future(queue.get_async())
            await asyncio.sleep(0)
            thread.start()
            bodies = [(await waiting).body]
            while len(bodies) < 20:
                bodies.append((await queue.get_async()).body)
            thread.join()
            return bodies

        assert asyncio.run(main()) == [b"%d" % i for i in range(20)]


def test_what_is_acknowledged_is_trimmed_from_the_disk(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        most = 0
        for _ in range(100):
            queue.put_many([bytes(1000)] * 64)
            queue.ack(*(queue.get().seq for _ in range(64)))
            most = max(most, queue._log.stats().disk_bytes)
        written = queue._log.stats().bytes_written
        assert written > 6 << 20 and most < 2 << 20, (written, most)
        assert queue._log.stats().stream_memory_bytes < 64 << 10


def test_consumers_that_wait_are_told_when_the_queue_is_closed(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            queue.get()
        except errors.Closed as closed:
            raised.append(closed)

    thread = threading.Thread(target=wait)
    thread.start()

    async def in_a_task() -> None:
        waiting = asyncio.ensure_future(queue.get_async())
        await asyncio.sleep(0)
        queue.close()
        with pytest.raises(errors.Closed):
            await waiting

    asyncio.run(in_a_task())
    thread.join(60)
    assert len(raised) == 1
    queue.close()
    uses: list[Callable[[], object]] = [lambda: queue.put(b"x"), lambda: queue.put_many([b"x"]), lambda: queue.get(), lambda: queue.ack(0), lambda: queue.get(timeout=0)]
    for use in uses:
        with pytest.raises(errors.Closed):
            use()
    assert list(queue) == [] and "closed" in repr(queue)


def test_a_directory_with_another_log_is_no_queue(tmp_path: Path) -> None:
    with Log(tmp_path / "queue", **SMALL) as log:
        log.append_commit(b"record")
    with pytest.raises(errors.NotALog, match="no queue"):
        open_queue(tmp_path)
    with Log(tmp_path / "other" / "queue", **SMALL) as log:
        log.stream(1).append_commit(b"no number")
    with pytest.raises(errors.NotALog, match="no queue"):
        open_queue(tmp_path / "other")
    # It was closed again, and nothing in it was changed.
    with Log(tmp_path / "other" / "queue", **SMALL) as log:
        assert log.opened.tail == "clean" and [record.payload for record in log] == [b"no number"]
    for option in ("disk_bytes_max", "on_full", "retain_bytes", "retain_seconds"):
        refused_option: dict[str, Any] = {option: 1}
        with pytest.raises(errors.InvalidOption, match="a queue does not take it") as refused:
            Queue(tmp_path / "new", **refused_option)
        assert refused.value.option == option
    assert not (tmp_path / "new").exists()


class QueueMachine(RuleBasedStateMachine):
    """Messages that were put and not acknowledged, over crashes: all are handed out again, and no other."""

    @initialize()
    def make(self) -> None:
        self.folder = Scratch.new()
        self.waiting: dict[int, bytes] = {}
        self.out: dict[int, Message] = {}
        self.acked: set[int] = set()
        self.open()

    def open(self) -> None:
        self.queue = open_queue(self.folder, idle_mark=3600)

    @rule(bodies=st.lists(st.binary(max_size=20) | st.integers(0, 20_000).map(bytes), min_size=1, max_size=5))
    def put(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self.waiting[self.queue.put(bodies[0])] = bodies[0]
        else:
            self.waiting.update(zip(self.queue.put_many(bodies), bodies, strict=True))

    @precondition(lambda self: len(self.waiting) > len(self.out))
    @rule(number=st.integers(1, 5))
    def get(self, number: int) -> None:
        for _ in range(min(number, len(self.waiting) - len(self.out))):
            message = self.queue.get(timeout=0)
            assert message.seq not in self.acked and message.seq not in self.out
            assert self.waiting[message.seq] == message.body
            self.out[message.seq] = message

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def ack(self, data: Any) -> None:
        seqs = data.draw(st.lists(st.sampled_from(sorted(self.out)), min_size=1, max_size=4))
        self.queue.ack(*seqs)
        for seq in set(seqs):
            del self.waiting[seq], self.out[seq]
            self.acked.add(seq)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def nack(self, data: Any) -> None:
        seq = data.draw(st.sampled_from(sorted(self.out)))
        self.out.pop(seq).nack()

    @rule()
    def ack_many_more(self) -> None:
        """Enough for a trim."""
        bodies = [b"filler"] * 130
        seqs = self.queue.put_many(bodies)
        self.waiting.update(zip(seqs, bodies, strict=True))
        self.queue.ack(*seqs)
        for seq in seqs:
            del self.waiting[seq]
            self.acked.add(seq)

    @rule()
    def close_and_open(self) -> None:
        self.queue.close()
        self.out.clear()
        self.open()

    @rule()
    def crash_and_open(self) -> None:
        """Nothing more is committed, as by a crash of the process."""
        self.out.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            del self.queue
        self.open()
        assert self.queue._log.opened.tail == "torn"

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "queue"):
            assert (len(self.queue), self.queue.in_flight) == (len(self.waiting), len(self.out))

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.close_and_open()
            left = {}
            while len(self.queue):
                message = self.queue.get(timeout=0)
                left[message.seq] = message.body
                message.ack()
            assert left == self.waiting
            self.queue.close()
            shutil.rmtree(self.folder)


TestQueue = QueueMachine.TestCase
