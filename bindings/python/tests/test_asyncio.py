"""Futures of asyncio: all of them complete, by groups, without a thread that waits, and whatever is cancelled loses nothing."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL, payloads

import seawall
from seawall import Append, Log, _seawall, errors


def calls_of_readers(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how often the event loop is woken by a log."""
    counted = [0]
    add_reader = loop.add_reader

    def counting(descriptor: Any, callback: Any, *arguments: Any) -> None:
        def called() -> None:
            counted[0] += 1
            callback(*arguments)

        add_reader(descriptor, called)

    monkeypatch.setattr(loop, "add_reader", counting)
    return counted


def test_ten_thousand_commits_at_once_complete_by_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        woken = calls_of_readers(asyncio.get_running_loop(), monkeypatch)
        # No append has to wait: then a wake-up is the end of a batch.
        async with Log(tmp_path / "log", **SMALL | {"segment_bytes": 4 << 20}) as log:
            done = await asyncio.gather(*(log.append_commit_async(b"%d" % i) for i in range(10_000)))
            ends = [one.end for one in done]
            assert ends == sorted(set(ends)) and log.durable_lsn == ends[-1]
            stats = log.stats()
            assert stats.records == 10_000 and stats.batches < 1_000
            assert 0 < woken[0] <= stats.batches
            assert payloads(log) == [b"%d" % i for i in range(10_000)]

    asyncio.run(main())


def test_tasks_that_each_commit_again_and_again_share_batches(tmp_path: Path) -> None:
    async def main() -> None:
        async with Log(tmp_path / "log", **SMALL | {"segment_bytes": 4 << 20}) as log:

            async def write() -> None:
                for _ in range(50):
                    lsn = (await log.append_commit_async(bytes(100))).end
                    assert lsn <= log.durable_lsn

            await asyncio.gather(*(write() for _ in range(64)))
            stats = log.stats()
            assert stats.records == 3_200 and stats.batches < 3_200 / 4

    asyncio.run(main())


def test_the_loop_runs_other_tasks_while_a_commit_waits(tmp_path: Path) -> None:
    """A hundred turns of another task are taken while one commit is in flight that nothing has asked the log to make yet."""

    async def main() -> None:
        async with Log(tmp_path / "log", **SMALL) as log:
            follower = log.follow()
            waiting = asyncio.ensure_future(anext(follower))
            for _ in range(100):
                await asyncio.sleep(0)
                assert not waiting.done()
            await log.append_commit_async(b"one")
            assert (await waiting).payload == b"one"

    asyncio.run(main())


def test_where_there_is_no_room_the_task_waits_and_not_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        options = SMALL | {"disk_bytes_max": 8 * (64 << 10)}
        async with Log(tmp_path / "log", **options) as log:
            ends: list[int] = []

            async def write() -> None:
                for _ in range(25):
                    ends.append((await log.append_commit_async(bytes(10_000))).end)

            async def trim() -> None:
                while len(ends) < 100:
                    if ends:
                        log.trim(max(ends))
                    await asyncio.sleep(0.001)

            await asyncio.gather(trim(), *(write() for _ in range(4)))
            assert len(set(ends)) == 100
            assert (await log.append_async(b"more")).end == log.appended_lsn

    asyncio.run(main())


def test_a_commit_that_is_cancelled_harms_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with Log(tmp_path / "log", **SMALL) as log:
            futures = [asyncio.ensure_future(log.append_commit_async(b"%d" % i)) for i in range(200)]
            for future in futures[::2]:
                future.cancel()
            done = await asyncio.gather(*futures, return_exceptions=True)
            assert all(isinstance(one, Append) for one in done[1::2])
            # One that was ready before it could be cancelled is no error.
            assert all(isinstance(one, (Append, asyncio.CancelledError)) for one in done)
            await log.commit_async()
            assert len(payloads(log)) == 200

    asyncio.run(main())


def test_commits_of_any_order_and_class_complete(tmp_path: Path) -> None:
    async def main() -> None:
        async with Log(tmp_path / "log", **SMALL) as log:
            ends = [log.append(b"%d" % i).end for i in range(50)]
            waiting = [log.commit_async(end) for end in reversed(ends)]
            relaxed = log.commit_async(ends[-1], durability="process-crash")
            assert await asyncio.gather(*waiting) == ends[::-1]
            assert await relaxed == ends[-1]
            assert await log.commit_async(ends[0]) == ends[0]
            assert await log.commit_async() == ends[-1]
            with pytest.raises(errors.BeyondEnd):
                await log.commit_async(1 << 40)
            with pytest.raises(RuntimeError, match="no running event loop"):
                await asyncio.to_thread(lambda: log.commit_async(ends[0]))

    asyncio.run(main())


def test_closing_completes_what_waits_and_ends_followers(tmp_path: Path) -> None:
    async def main() -> None:
        log = Log(tmp_path / "log", **SMALL)
        follower, of_stream = log.follow(), log.stream(1).follow()

        async def collect(source: seawall.Follower) -> list[bytes]:
            return [record.payload async for record in source]

        followed = asyncio.ensure_future(collect(follower))
        streamed = asyncio.ensure_future(collect(of_stream))
        await asyncio.sleep(0)
        await log.stream(1).append_commit_async(b"of a stream")
        futures = [log.append_commit_async(b"%d" % i) for i in range(100)]
        await log.close_async()
        ends = [one.end for one in await asyncio.gather(*futures)]
        assert ends == sorted(ends)
        assert await followed == [b"of a stream", *(b"%d" % i for i in range(100))]
        assert await streamed == [b"of a stream"]
        with pytest.raises(errors.Closed):
            log.append_commit_async(b"late")
        with pytest.raises(errors.Closed):
            log.commit_async()

    asyncio.run(main())


def test_a_follower_whose_task_is_cancelled_loses_no_record(tmp_path: Path) -> None:
    async def main() -> None:
        async with Log(tmp_path / "log", **SMALL) as log:
            follower = log.follow()
            seen: list[bytes] = []

            async def write() -> None:
                for i in range(300):
                    await log.append_commit_async(b"%d" % i)

            writer = asyncio.ensure_future(write())
            cancelled = 0
            while len(seen) < 300:
                waiting = asyncio.ensure_future(anext(follower))
                for _ in range((len(seen) + cancelled) % 3):
                    await asyncio.sleep(0)
                waiting.cancel()
                try:
                    seen.append((await waiting).payload)
                except asyncio.CancelledError:
                    cancelled += 1
                    await asyncio.sleep(0)
            await writer
            assert seen == [b"%d" % i for i in range(300)] and cancelled > 0

    asyncio.run(main())


def test_what_is_awaited_is_a_task_as_well_and_need_not_be(tmp_path: Path) -> None:
    async def main() -> None:
        async with Log(tmp_path / "log", **SMALL | {"disk_bytes_max": 8 * (64 << 10)}) as log:
            stream = log.stream(1)
            tasks: list[asyncio.Task[Any]] = [
                asyncio.create_task(log.append_commit_async(b"a")),
                asyncio.create_task(log.append_async(b"b")),
                asyncio.create_task(stream.append_commit_async(b"c")),
                asyncio.create_task(log.commit_async()),
            ]
            assert await asyncio.gather(*tasks)
            if sys.version_info >= (3, 11):
                async with asyncio.TaskGroup() as group:
                    one = group.create_task(log.append_commit_async(b"d"))
                    group.create_task(log.commit_async())
                assert one.result().end <= log.durable_lsn
            # No trim passes a record that a stream needs.
            stream.trim(stream.next_seq)
            # One that waits for room, and is cancelled, is a task like any other.
            held = [log.append_commit_async(bytes(10_000)) for _ in range(80)]
            last = asyncio.create_task(held[-1])
            await asyncio.sleep(0.01)
            last.cancel()
            with pytest.raises(asyncio.CancelledError):
                await last
            while not all(one.done() for one in held):
                log.trim(log.durable_lsn)
                await asyncio.sleep(0.001)
            failed = asyncio.create_task(log.commit_async(1 << 40))
            with pytest.raises(errors.BeyondEnd):
                await failed

    asyncio.run(main())


def test_followers_of_views_take_batches_and_no_thread_of_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(Refusing())
        async with Log(tmp_path / "log", **SMALL) as log:
            for i in range(1_000):
                log.append(b"%d" % i)
            log.commit()
            waits = 0
            wait = loop.run_in_executor

            def counting(executor: Any, call: Any, *arguments: Any) -> Any:
                nonlocal waits
                waits += 1
                return wait(executor, call, *arguments)

            loop.run_in_executor = counting  # type: ignore[method-assign, assignment]
            seen = []
            async for record in seawall.View(tmp_path / "log").follow():
                seen.append(record.payload)
                if len(seen) == 1_000:
                    break
            assert seen == [b"%d" % i for i in range(1_000)]
            assert waits < 100, waits
            loop.run_in_executor = wait  # type: ignore[method-assign]
            followers = [asyncio.ensure_future(anext(seawall.View(tmp_path / "log").follow(log.durable_lsn))) for _ in range(40)]
            await asyncio.sleep(0.05)
            await log.append_commit_async(b"next")
            assert {(await follower).payload for follower in followers} == {b"next"}
            loop.set_default_executor(ThreadPoolExecutor(1))

    asyncio.run(main())


class Refusing(ThreadPoolExecutor):
    """An executor that nothing may occupy."""

    def submit(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the loop's own executor was used")


@pytest.mark.parametrize("follow", [lambda view: view.follow, lambda view: view.stream(1).follow])
def test_a_follower_of_a_view_is_awaited_in_a_thread(tmp_path: Path, follow: Callable[[seawall.View], Callable[..., seawall.Follower]]) -> None:
    async def main() -> None:
        async with Log(tmp_path / "log", **SMALL) as log:
            await log.stream(1).append_commit_async(b"one")
            follower = follow(seawall.View(tmp_path / "log"))(ends_with_writer=True)
            assert (await anext(follower)).payload == b"one"
            waiting = asyncio.ensure_future(anext(follower))
            await log.stream(1).append_commit_async(b"two")
            assert (await waiting).payload == b"two"
        assert [record async for record in follower] == []

    asyncio.run(main())


def test_a_log_serves_one_event_loop_after_the_other_and_lets_them_go(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", **SMALL)

    async def commit() -> int:
        return (await log.append_commit_async(b"record")).end

    ends = [asyncio.run(commit()) for _ in range(5)]
    assert ends == sorted(ends)
    gc.collect()
    # Those of loops that were closed went when the next one came.
    assert sum(isinstance(one, _seawall.EventLoop) for one in gc.get_objects()) <= 1
    log.close()


def test_many_threads_with_loops_of_their_own_use_one_log(log: Log) -> None:
    """Threads change places at every chance: a lock that was held while Python runs would stop them for ever."""

    async def write() -> int:
        lsn = 0
        for _ in range(20):
            lsn = (await log.append_commit_async(b"record")).end
        return lsn

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: [asyncio.run(write()) for _ in range(5)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    log.commit()
    assert len(payloads(log)) == 8 * 5 * 20


def test_each_future_of_a_failed_log_gets_an_exception_of_its_own(tmp_path: Path) -> None:
    program = """
import asyncio, resource, signal, sys, seawall
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
async def main():
    log = seawall.Log(sys.argv[1], segment_bytes=64 << 10, batch_bytes=16 << 10, memory_bytes=1 << 20, method="buffered+fdatasync")
    await log.append_commit_async(b"one")
    ends = [log.append(b"two").end for _ in range(20)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    done = await asyncio.gather(*(log.commit_async(end) for end in ends), return_exceptions=True)
    assert all(isinstance(one, seawall.errors.Failed) and one.errno == 27 for one in done), done
    assert len({id(one) for one in done}) == 20
    print("all failed")
asyncio.run(main())
"""
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "all failed\n"), done.stderr


def test_a_loop_that_watches_no_descriptors_is_refused_in_words(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        def refuse(*_: object) -> None:
            raise NotImplementedError

        monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", refuse)
        log.append(b"one")
        with pytest.raises(RuntimeError, match="use asyncio.SelectorEventLoop"):
            log.commit_async()

    asyncio.run(main())
