"""The queue: everything is handed out at least once, and what was acknowledged never again."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from conftest import SMALL, Scratch, child
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seawall import Log, Message, Queue, errors, verify


def open_queue(path: Path, **options: Any) -> Queue:
    return Queue(path / "queue", **SMALL, **options)


def drain(queue: Queue) -> list[bytes]:
    """Everything that is handed out now, acknowledged."""
    messages: list[Message] = []
    while some := queue.get_many(100, timeout=0):
        messages += some
    queue.ack(*messages)
    return [message.body for message in messages]


def test_messages_come_in_order_and_go_when_they_are_acknowledged(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        assert [queue.put(b"%d" % i) for i in range(3)] == [0, 1, 2]
        assert queue.put_many([b"3", bytearray(b"4")]) == [3, 4] and queue.put_many([]) == []
        assert (len(queue), queue.in_flight, queue.closed, queue.is_owner) == (5, 0, False, True)
        first = queue.get()
        assert (first.id, first.body, first.attempt, len(queue), queue.in_flight) == (0, b"0", 1, 5, 1)
        assert [(one.id, one.attempts, one.body) for one in queue.peek(2)] == [(1, 0, b"1"), (2, 0, b"2")]
        first.ack()
        first.ack()
        assert drain(queue) == [b"1", b"2", b"3", b"4"] and len(queue) == 0
        with pytest.raises(errors.TimedOut) as late:
            queue.get(timeout=0.01)
        assert late.value.timeout == 0.01 and queue.get_many(5, timeout=0) == []
        with pytest.raises(ValueError, match="messages_max"):
            queue.get_many(0)
        for wrong in (5, "text", None):
            with pytest.raises(TypeError):
                queue.put(wrong)  # type: ignore[arg-type]
    with open_queue(tmp_path) as queue:
        assert len(queue) == 0 and queue.put(b"5") == 5 and queue.put(b"later", delay=3600) == 6
        stats = queue.stats()
        assert (stats.waiting, stats.in_flight, stats.delayed, stats.dead, stats.handles) == (1, 0, 1, 0, 1)
        assert (queue.purge(), len(queue)) == (2, 0)


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
        last = [queue.get(), queue.get()]
        assert [message.body for message in last] == [b"d", b"c"]
        with pytest.raises(errors.TimedOut):
            queue.get(timeout=0)
        queue.ack(again, *last, again)
        assert len(queue) == 0
        # A message that its block gave back is not acknowledged at the end of it.
        queue.put(b"e")
        with queue.get() as message:
            message.nack()
        # One that is let go of is given back.
        assert queue.get(timeout=0).attempt == 2
        gc.collect()
        message = queue.get(timeout=60)
        assert message.attempt == 3
        with open_queue(tmp_path) as other, pytest.raises(ValueError, match="another queue"):
            other.ack(message)


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
            first = await queue.get_async()
            assert first.attempt == 1
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
        assert (dead.id, dead.attempts, dead.body) == (0, 4, b"poison")
        assert queue.retry_dead_letters() == 1 and queue.dead_letters() == []
        again = queue.get()
        assert (again.id, again.attempt, queue.in_flight) == (11, 1, 1)


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
        assert [(dead.id, dead.attempts, dead.body) for dead in queue.dead_letters()] == [(0, 3, b"poison")]
        assert len(queue) == 0
    # A bound that is lifted lets nothing come back from the dead letters by itself.
    with open_queue(tmp_path) as queue:
        assert (len(queue), len(queue.dead_letters()), queue.drop_dead_letters(), queue.dead_letters()) == (0, 1, 1, [])


def test_messages_are_held_back_also_by_the_next_process(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        assert queue.put(b"held", delay=3600) == 0
        assert queue.put_many([b"soon", b"now"], delay=0.02) == [1, 2]
        assert queue.put(b"first") == 3
        first = queue.get(timeout=0)
        assert first.body == b"first"
        others = [queue.get(timeout=60) for _ in range(2)]
        assert {message.body for message in others} == {b"soon", b"now"}
        first.nack(delay=3600)
        queue.ack(*others)

        async def in_a_task() -> None:
            assert await queue.put_async(b"task", delay=0.02) == 4
            message = await queue.get_async(timeout=60)
            assert message.body == b"task"
            await queue.ack_async(message)

        asyncio.run(in_a_task())
    with open_queue(tmp_path) as queue:
        assert len(queue) == 2
        with pytest.raises(errors.TimedOut):
            queue.get(timeout=0.05)
        queue.put(b"last")
        last = queue.get()
        for wrong in (-1.0, float("nan"), float("inf"), 1e300):
            with pytest.raises(ValueError, match="delay"):
                queue.put(b"x", delay=wrong)
            with pytest.raises(ValueError, match="delay"):
                last.nack(delay=wrong)
            with pytest.raises(ValueError, match="timeout"):
                queue.get(timeout=wrong)
            with pytest.raises(ValueError, match="retry_delay"):
                open_queue(tmp_path / "other", retry_delay=wrong)
    for attempts in (0, -1):
        with pytest.raises(ValueError, match="max_attempts"):
            open_queue(tmp_path / "other", max_attempts=attempts)


def test_a_consumer_that_is_cancelled_takes_no_message_and_no_attempt(tmp_path: Path) -> None:
    """With an owner in this process and by its socket; before the message is there, and after."""

    async def main(queue: Queue) -> None:
        waiting = [asyncio.ensure_future(queue.get_async()) for _ in range(5)]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(queue.get_async(), 0.01)
        await asyncio.sleep(0)
        for one in waiting[1:]:
            one.cancel()
        await asyncio.gather(*waiting[1:], return_exceptions=True)
        await queue.put_many_async([b"a", b"b"])
        first = await asyncio.wait_for(waiting[0], 60)
        second = await queue.get_async(timeout=60)
        assert {(one.body, one.attempt) for one in (first, second)} == {(b"a", 1), (b"b", 1)}
        await queue.ack_async(first, second)
        # One that has its message, which its task never sees.
        await queue.put_async(b"c")
        task = asyncio.create_task(queue.get_async())
        while queue.in_flight == 0:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        del task
        gc.collect()
        async with await queue.get_async(timeout=60) as message:
            assert (message.body, message.attempt) == (b"c", 2)

    with open_queue(tmp_path) as owner, open_queue(tmp_path) as other:
        for queue in (owner, other):
            asyncio.run(main(queue))
            assert len(owner) == 0


def test_a_thousand_tasks_that_put_share_flushes(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_queue(tmp_path) as queue:
            before = verify(queue.path).batches
            ids = await asyncio.gather(*(queue.put_async(b"x") for _ in range(1_000)))
            assert sorted(ids) == list(range(1_000))
            assert verify(queue.path).batches - before < 300

    asyncio.run(main())


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


def test_messages_that_were_out_come_again_when_the_queue_is_opened_again(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        queue.put_many([b"%d" % i for i in range(10)])
        taken = [queue.get() for _ in range(6)]
        queue.ack(taken[1], taken[4])
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
            messages = [await waiting]
            while len(messages) < 20:
                messages.append(await queue.get_async())
            thread.join()
            return [message.body for message in messages]

        assert asyncio.run(main()) == [b"%d" % i for i in range(20)]


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
    uses: list[Callable[[], object]] = [lambda: queue.put(b"x"), lambda: queue.put_many([b"x"]), lambda: queue.get(), lambda: queue.get(timeout=0), lambda: queue.stats()]
    for use in uses:
        with pytest.raises(errors.Closed):
            use()
    assert list(queue) == [] and "closed" in repr(queue)


def test_a_directory_with_another_log_is_no_queue(tmp_path: Path) -> None:
    with Log(tmp_path / "queue", **SMALL) as log:
        log.append_commit(b"record")
    with pytest.raises(errors.NotALog, match="not a queue"):
        open_queue(tmp_path)
    with Log(tmp_path / "other" / "queue", **SMALL) as log:
        log.stream(7).append_commit(b"no message")
    with pytest.raises(errors.NotALog, match="not a queue"):
        open_queue(tmp_path / "other")
    # It was closed again, and nothing in it was changed.
    with Log(tmp_path / "other" / "queue", **SMALL) as log:
        assert log.opened.tail == "clean" and [record.payload for record in log] == [b"no message"]
    for option in ("disk_bytes_max", "on_full", "retain_bytes", "retain_seconds"):
        refused_option: dict[str, Any] = {option: 1}
        with pytest.raises(errors.InvalidOption, match="a queue does not take it") as refused:
            Queue(tmp_path / "new", **refused_option)
        assert refused.value.option == option
    assert not (tmp_path / "new").exists()


WORKER = f"""
import sys, seawall
queue = seawall.Queue(sys.argv[1], **{SMALL!r})
print("owner", int(queue.is_owner), flush=True)
for i in range(1_000_000):
    print("put", queue.put(b"x"), flush=True)
    if i % 3:
        message = queue.get()
        print("got", message.id, flush=True)
        message.ack()
        print("ack", message.id, flush=True)
"""


def test_a_process_goes_on_when_the_owner_is_killed_and_nothing_is_lost_or_handed_out_again(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    found: list[dict[str, list[int]]] = [{}, {}]

    def note(who: int, lines: list[str]) -> None:
        for verb, number in (line.split() for line in lines if line.endswith("\n")):
            found[who].setdefault(verb, []).append(int(number))

    with child(WORKER, path) as first:
        assert first.stdout is not None
        note(0, [first.stdout.readline()])
        # A pipe that holds few lines.
        with child(WORKER, path, pipesize=4096) as second:
            assert second.stdout is not None
            note(1, [second.stdout.readline() for _ in range(200)])
            note(0, [first.stdout.readline() for _ in range(200)])
            first.send_signal(signal.SIGKILL)
            note(0, first.stdout.read().splitlines(keepends=True))
            # Far more than is in the pipe: it goes on.
            note(1, [second.stdout.readline() for _ in range(1_500)])
            second.send_signal(signal.SIGKILL)
            note(1, second.stdout.read().splitlines(keepends=True))
    assert [found[0]["owner"], found[1]["owner"]] == [[1], [0]]
    with open_queue(tmp_path) as queue:
        left = []
        while some := queue.get_many(100, timeout=0):
            left += [message.id for message in some]
            queue.ack(*some)
    acked = [found[who]["ack"] for who in range(2)]
    all_acked = acked[0] + acked[1]
    assert len(set(left)) == len(left) and len(set(all_acked)) == len(all_acked)
    # Everything that was put is acknowledged or left, but for two acknowledgements that were durable and not printed.
    put = set(found[0]["put"]) | set(found[1]["put"])
    assert len(put - set(all_acked) - set(left)) <= 2
    # What was acknowledged is handed out to nobody, and the other process got only what the killed one had not finished.
    assert not set(all_acked) & set(left)
    assert not set(acked[0]) & set(found[1]["got"]) and len(set(found[0]["got"]) & set(found[1]["got"])) <= 1


def test_a_process_takes_over_wherever_it_went_and_keeps_its_messages(tmp_path: Path) -> None:
    program = f"""
import os, seawall
queue = seawall.Queue("queue", **{SMALL!r})
message = queue.get(timeout=60)
os.chdir("/")
print(queue.is_owner, flush=True)
input()
print(queue.put(b"more"), queue.is_owner, queue.in_flight)
message.ack()
queue.close()
"""
    with open_queue(tmp_path) as queue:
        queue.put(b"first")
        worker = child(program, cwd=tmp_path)
        assert worker.stdout is not None and worker.stdout.readline() == "False\n"
    with worker:
        assert worker.communicate("\n", timeout=60)[0] == "1 True 1\n"
    with open_queue(tmp_path) as queue:
        assert drain(queue) == [b"more"]


def test_a_process_that_was_forked_off_is_refused(tmp_path: Path) -> None:
    program = f"""
import os, sys, seawall
with seawall.Queue(sys.argv[1], **{SMALL!r}) as owner, seawall.Queue(sys.argv[1]) as other:
    for queue in (owner, other):
        queue.put_many([b"one", b"two"])
        message = queue.get()
        if os.fork() == 0:
            for use in (lambda: queue.put(b"x"), queue.get, message.ack, message.nack, queue.stats, queue.close):
                try:
                    print("not refused", use(), flush=True)
                except seawall.errors.Forked:
                    print("refused", queue.is_owner, flush=True)
            os._exit(0)
        os.wait()
        message.ack()
        print(len(queue), flush=True)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, tmp_path / "queue"], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("refused False\n" * 6 + "1\n" + "refused False\n" * 6 + "2\n", 0), done.stderr


@pytest.mark.skipif(os.name == "nt", reason="one process uses a queue there")
@pytest.mark.parametrize("owner", [True, False])
def test_ctrl_c_ends_a_consumer_that_waits_and_loses_no_message(tmp_path: Path, owner: bool) -> None:
    program = f"""
import sys, seawall
first = seawall.Queue(sys.argv[1], **{SMALL!r})
other = seawall.Queue(sys.argv[1], **{SMALL!r})
queue = first if sys.argv[2] == "True" else other
try:
    print("waits", flush=True)
    queue.get()
except KeyboardInterrupt:
    queue.put(b"x")
    print(queue.get(timeout=60).attempt, flush=True)
other.close()
first.close()
"""
    with child(program, tmp_path / "queue", owner) as waiting:
        assert waiting.stdout is not None and waiting.stdout.readline() == "waits\n"
        time.sleep(0.2)
        waiting.send_signal(signal.SIGINT)
        assert waiting.stdout.read() == "1\n" and waiting.wait(60) == 0


def test_a_queue_that_is_dropped_warns_and_is_closed(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    queue.put(b"kept")
    with pytest.warns(ResourceWarning, match="dropped and not closed"):
        del queue
        gc.collect()
    with open_queue(tmp_path) as queue:
        assert drain(queue) == [b"kept"]


class QueueMachine(RuleBasedStateMachine):
    """Messages that were put and not acknowledged, by two handles of which one owns the queue: all are handed out, and no other."""

    @initialize()
    def make(self) -> None:
        self.folder = Scratch.new()
        self.waiting: dict[int, bytes] = {}
        self.out: dict[int, tuple[int, Message]] = {}
        self.acked: set[int] = set()
        self.queues = [self.open(), self.open()]
        self.settle()

    def open(self) -> Queue:
        return open_queue(self.folder, idle_mark=3600)

    HANDLE = st.integers(0, 1)

    @rule(handle=HANDLE, bodies=st.lists(st.binary(max_size=20) | st.integers(0, 20_000).map(bytes), min_size=1, max_size=5))
    def put(self, handle: int, bodies: list[bytes]) -> None:
        queue = self.queues[handle]
        if len(bodies) == 1:
            self.waiting[queue.put(bodies[0])] = bodies[0]
        else:
            self.waiting.update(zip(queue.put_many(bodies), bodies, strict=True))

    @precondition(lambda self: len(self.waiting) > len(self.out))
    @rule(handle=HANDLE, number=st.integers(1, 5))
    def get(self, handle: int, number: int) -> None:
        messages = self.queues[handle].get_many(number, timeout=0)
        assert len(messages) == min(number, len(self.waiting) - len(self.out))
        for message in messages:
            assert message.id not in self.acked and message.id not in self.out
            assert self.waiting[message.id] == message.body
            self.out[message.id] = (handle, message)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def ack(self, data: Any) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.out)), min_size=1, max_size=4))
        for handle, queue in enumerate(self.queues):
            queue.ack(*(self.out[number][1] for number in ids if self.out[number][0] == handle))
        for number in set(ids):
            del self.waiting[number], self.out[number]
            self.acked.add(number)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def nack(self, data: Any) -> None:
        self.out.pop(data.draw(st.sampled_from(sorted(self.out))))[1].nack()

    @rule(handle=HANDLE)
    def close_and_open(self, handle: int) -> None:
        self.queues[handle].close()
        self.out = {number: (of, message) for number, (of, message) in self.out.items() if of != handle}
        self.queues[handle] = self.open()
        self.settle()

    def settle(self) -> None:
        """The owner sees a connection begin or end a moment later, and may be another one now."""
        until = time.monotonic() + 60
        while self.counted() != self.expected() and time.monotonic() < until:
            time.sleep(0.001)

    def counted(self) -> list[tuple[int, int, int]]:
        return [(len(queue), queue.in_flight, queue.stats().handles) for queue in self.queues]

    def expected(self) -> list[tuple[int, int, int]]:
        return [(len(self.waiting), len(self.out), 2)] * 2

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "queues"):
            assert self.counted() == self.expected()

    def teardown(self) -> None:
        if hasattr(self, "queues"):
            self.close_and_open(0)
            self.close_and_open(1)
            messages = []
            while some := self.queues[0].get_many(100, timeout=0):
                messages += some
            assert {message.id: message.body for message in messages} == self.waiting and len(messages) == len(self.waiting)
            self.queues[0].ack(*messages)
            for queue in self.queues:
                assert len(queue) == 0
                queue.close()
            shutil.rmtree(self.folder)


TestQueue = QueueMachine.TestCase
