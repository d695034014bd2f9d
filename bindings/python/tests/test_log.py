"""The log: appending, reading, following, trimming, copying, and every refusal with its attributes."""

from __future__ import annotations

import datetime
import errno
import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL, child, payloads

import seawall
from seawall import Log, View, errors


def test_records_come_back_in_order_and_outlive_closing(tmp_path: Path) -> None:
    with Log(tmp_path / "log", **SMALL) as log:
        assert log.opened.tail == "new"
        end = log.append(b"one").end
        assert (log.appended_lsn, log.durable_lsn) == (end, 0)
        log.commit(end)
        assert log.durable_lsn == end
        placed = log.append(b"two")
        assert (placed.start, placed.end) == (end, end + 7)
        assert log.append_commit(b"").end == log.appended_lsn
        assert payloads(log) == [b"one", b"two", b""]
        assert bytes(next(iter(log.read(end)))) == b"two"
    assert log.closed and (log.appended_lsn, log.durable_lsn) == (end + 11, end + 11)
    with Log(tmp_path / "log", **SMALL) as log:
        assert (log.opened.tail, log.opened.epoch) == ("clean", 2)
        assert payloads(log) == [b"one", b"two", b""]


def test_whatever_has_a_buffer_is_a_record_and_nothing_else(log: Log) -> None:
    for record in (b"bytes", bytearray(b"array"), memoryview(b"view"), memoryview(bytes(range(8)))[::2]):
        log.append(record)
    log.commit()
    assert payloads(log) == [b"bytes", b"array", b"view", bytes([0, 2, 4, 6])]
    for other in (5, "text", None, [1]):
        with pytest.raises(TypeError):
            log.append(other)  # type: ignore[arg-type]
    large = os.urandom(300_000)
    log.append_commit(large)
    assert payloads(log)[-1] == large


def test_a_record_says_where_it_is(log: Log) -> None:
    end = log.append_commit(b"one").end
    log.stream(7).append_commit(b"two")
    one, two = log
    assert (one.lsn, one.end, one.payload, one.stream, one.seq, len(one)) == (0, end, b"one", None, None, 3)
    assert (two.lsn, two.stream, two.seq, two.ends_transaction) == (end, 7, 0, True)
    assert "stream=7, seq=0" in repr(two)


def test_a_transaction_is_appended_whole_or_not_at_all(log: Log) -> None:
    with log.transaction() as tx:
        tx.append(b"debit")
        tx.append_to(3, b"credit")
        assert len(tx) == 2 and tx.lsn is None and log.appended_lsn == 0
    assert tx.lsn == log.appended_lsn
    log.commit(tx.lsn)
    with pytest.raises(ZeroDivisionError), log.transaction() as abandoned:
        abandoned.append(b"never")
        raise ZeroDivisionError
    assert abandoned.lsn is None
    with pytest.raises(errors.Closed):
        abandoned.append(b"late")
    assert [(record.payload, record.ends_transaction) for record in log] == [(b"debit", False), (b"credit", True)]


def test_streams_have_their_own_order_numbers_and_trims(log: Log) -> None:
    stream = log.stream(1)
    places = []
    for seq in range(10):
        appended = stream.append(b"%d" % seq)
        assert appended.seq == seq
        places.append((appended.start, appended.end))
        log.stream(2).append(b"other")
    log.commit()
    records = [log.read_at(start) for start, _ in places]
    assert [(record.lsn, record.end, record.seq) for record in records] == [(*place, seq) for seq, place in enumerate(places)]
    assert (log.streams(), stream.id, stream.first_seq, stream.next_seq) == ([1, 2], 1, 0, 10)
    assert payloads(stream.read(7)) == [b"7", b"8", b"9"]
    assert stream.get(3).payload == b"3"
    stream.trim(4)
    stream.truncate(8)
    log.commit()
    assert payloads(stream) == [b"4", b"5", b"6", b"7"]
    with pytest.raises(errors.StreamTrimmed) as trimmed:
        stream.get(1)
    assert (trimmed.value.stream, trimmed.value.seq, trimmed.value.first) == (1, 1, 4)
    with pytest.raises(errors.StreamEnd) as ended:
        stream.get(8)
    assert (ended.value.seq, ended.value.next) == (8, 8)
    log.commit(stream.remove())
    assert log.streams() == [2]
    with pytest.raises(ValueError, match="below 16777216"):
        log.stream(1 << 24)


def test_reading_by_position_backwards_and_by_time(log: Log) -> None:
    before = time.time()
    ends = [log.append_commit(b"%d" % i).end for i in range(5)]
    assert log.read_at(ends[1]).payload == b"2"
    found, backwards = log.read_before(ends[-1]), []
    while found is not None:
        backwards.append(found.payload)
        found = log.read_before(found.lsn)
    assert backwards == [b"4", b"3", b"2", b"1", b"0"]
    with pytest.raises(errors.NoRecord) as inside:
        log.read_at(ends[0] + 1)
    assert inside.value.lsn == ends[0] + 1
    assert log.lsn_at(before - 60) == 0
    assert log.lsn_at(datetime.datetime.now() + datetime.timedelta(days=1)) == log.durable_lsn


def test_trims_stop_at_pins_and_cuts_hide_the_tail(log: Log) -> None:
    ends = [log.append_commit(bytes(20_000)).end for _ in range(5)]
    with log.pin(ends[1]) as pin:
        assert log.trim(ends[3]) == ends[1] == log.stats().pinned == pin.lsn
        pin.advance(ends[2])
        assert pin.lsn == ends[2]
    with pytest.raises(errors.Closed):
        pin.advance(ends[3])
    assert log.trim(ends[3]) == ends[3] == log.first_lsn
    with pytest.raises(errors.Trimmed) as trimmed:
        log.read(ends[0])
    assert (trimmed.value.lsn, trimmed.value.first) == (ends[0], ends[3])
    log.append_commit(b"cut")
    log.commit(log.truncate_after(ends[4]))
    assert [len(record) for record in log] == [20_000]
    with pytest.raises(errors.BeyondEnd) as beyond:
        log.trim(1 << 40)
    assert (beyond.value.lsn, beyond.value.end) == (1 << 40, log.appended_lsn)


def test_a_commit_may_ask_for_less_and_not_for_more(tmp_path: Path) -> None:
    with Log(tmp_path / "log", **SMALL) as log:
        end = log.append(b"one").end
        log.commit(end, durability="process-crash")
        assert log.lsn_surviving("process-crash") == end
        log.commit(end, timeout=30)
        assert log.durable_lsn == end
    with Log(tmp_path / "log", **SMALL | {"durability": "process-crash", "method": "buffered"}) as log:
        log.append(b"two")
        with pytest.raises(errors.BeyondPromise) as refused:
            log.commit(durability="power-loss")
        assert (refused.value.requested, refused.value.promised) == ("power-loss", "process-crash")
        with pytest.raises(ValueError, match="one of 'power-loss'"):
            log.commit(durability="fire")  # type: ignore[arg-type]


def test_two_writers_are_refused_in_one_process_and_in_two(log: Log) -> None:
    with pytest.raises(errors.Locked) as here:
        Log(log.path, **SMALL)
    assert str(here.value.path).startswith(str(log.path))
    program = (
        "import sys, seawall\n"
        "try: seawall.Log(sys.argv[1])\n"
        "except seawall.errors.Locked as refused: print('locked', refused.path)"
    )
    with child(program, log.path) as other:
        assert other.communicate(timeout=60)[0].startswith(f"locked {log.path}")


def test_what_was_closed_is_refused_and_closing_twice_is_not(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", **SMALL)
    stream = log.stream(1)
    transaction = log.transaction()
    transaction.__enter__()
    end = log.append(b"one").end
    log.close()
    log.close()
    uses: list[Callable[[], object]] = [
        lambda: log.append(b"x"),
        lambda: log.try_append(b"x"),
        lambda: log.append_commit(b"x"),
        lambda: log.commit(),
        lambda: log.commit(end + 1),
        lambda: log.read(),
        lambda: iter(log),
        lambda: log.follow(),
        lambda: log.read_at(0),
        lambda: log.read_before(end),
        lambda: log.lsn_at(0),
        lambda: log.streams(),
        lambda: log.trim(0),
        lambda: log.truncate_after(0),
        lambda: log.pin(0),
        lambda: log.backup(tmp_path / "copy"),
        lambda: log.stats(),
        lambda: log.opened,
        lambda: log.lsn_surviving("power-loss"),
        lambda: stream.append(b"x"),
        lambda: stream.append_commit(b"x"),
        lambda: stream.try_append(b"x"),
        lambda: stream.get(0),
        lambda: stream.read(),
        lambda: stream.follow(),
        lambda: stream.trim(0),
        lambda: stream.truncate(0),
        lambda: stream.remove(),
        lambda: stream.next_seq,
        lambda: transaction.__exit__(None, None, None),
    ]
    for number, use in enumerate(uses):
        with pytest.raises(errors.Closed):
            use()
            pytest.fail(f"use {number} was not refused")
    log.commit(end)
    assert (log.durable_lsn, repr(log).endswith("closed)")) == (end, True)


def test_bad_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidOption, match="segment_bytes") as refused:
        Log(tmp_path / "log", segment_bytes=5)
    assert refused.value.option == "segment_bytes"
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"segment_byte": 5}, "no option 'segment_byte'; it has create"),
        ({"segment_bytes": "large"}, "option segment_bytes"),
        ({"segment_bytes": -1}, "option segment_bytes"),
        ({"idle_mark": -1.0}, "idle_mark must be a time"),
        ({"idle_mark": float("nan")}, "idle_mark must be a time"),
        ({"durability": "fire"}, "durability must be one of"),
        ({"on_full": "explode"}, "on_full must be one of 'wait', 'error'"),
        ({"engine": "steam"}, "engine must be one of"),
        ({"permissions": "all"}, "permissions must be one of"),
        ({"method": "none"}, "method"),
    ]
    for options, words in refusals:
        with pytest.raises((TypeError, ValueError), match=words):
            Log(tmp_path / "log", **options)
    assert not (tmp_path / "log").exists() or not any((tmp_path / "log").glob("*.seg"))


def test_what_is_no_log_and_what_cannot_be_read_say_which_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.NotALog) as nothing:
        Log(tmp_path / "none", create=False)
    assert nothing.value.path == str(tmp_path / "none")
    looks: list[Callable[[], object]] = [lambda: View(tmp_path / "none"), lambda: seawall.verify(tmp_path / "none")]
    for look in looks:
        with pytest.raises(errors.IoError) as missing:
            look()
        assert (missing.value.errno, missing.value.path) == (errno.ENOENT, str(tmp_path / "none"))
        assert isinstance(missing.value, errors.NotALog) and missing.value.operation
        assert isinstance(missing.value, FileNotFoundError) and missing.value.filename == missing.value.path
        assert missing.value.strerror == os.strerror(errno.ENOENT)
    assert isinstance(nothing.value, FileNotFoundError) and nothing.value.filename == nothing.value.path
    monkeypatch.chdir(tmp_path)
    for relative in (lambda: View("./none"), lambda: seawall.verify("none")):
        with pytest.raises(errors.NotALog):
            relative()
    (tmp_path / "file").write_text("x")
    with pytest.raises(errors.IoError):
        Log(tmp_path / "file")


def test_a_path_is_its_bytes(tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")
    with Log(odd, **SMALL) as log:
        log.append_commit(b"one")
        with pytest.raises(errors.Locked) as locked:
            Log(odd)
        assert locked.value.path is not None and os.fsencode(locked.value.path).startswith(os.fsencode(odd))
    with pytest.raises(errors.NotALog) as nothing:
        Log(odd + "x", create=False)
    assert nothing.value.path == odd + "x"
    assert os.listdir(os.fsencode(tmp_path)) == [b"\xff\xfe"]


def test_a_transaction_without_its_block_is_refused(log: Log) -> None:
    with pytest.raises(RuntimeError, match="with log.transaction"):
        log.transaction().append(b"lost")
    for change in ("trim", "truncate"):
        with pytest.raises(RuntimeError, match="with log.transaction"):
            getattr(log.transaction(), change)(1, 0)
    with log.transaction() as tx:
        tx.append(b"kept")
        with pytest.raises(errors.Closed):
            tx.__enter__()
    assert tx.lsn == log.appended_lsn > 0


def open_and_close(path: Path, options: dict[str, Any]) -> None:
    Log(path, method="buffered+fdatasync", **options).close()


NUMBERS = [-(2**64), -(2**63), -1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 1e300, float("inf"), float("nan"), float("-inf")]


@pytest.mark.parametrize("number", NUMBERS)
def test_every_number_is_taken_or_refused_at_both_of_its_ends(log: Log, number: Any) -> None:
    """Refused by an exception that programs catch: a panic of the library is none."""
    log.stream(1).append_commit(b"one")
    stream = log.stream(1)
    calls: dict[str, Callable[[], object]] = {
        "commit": lambda: log.commit(number),
        "commit for a time": lambda: log.commit(0, timeout=number),
        "read": lambda: log.read(number),
        "follow": lambda: log.follow(number),
        "read_at": lambda: log.read_at(number),
        "read_before": lambda: log.read_before(number),
        "lsn_at": lambda: log.lsn_at(number),
        "stream": lambda: log.stream(number),
        "trim": lambda: log.trim(number),
        "truncate_after": lambda: log.truncate_after(number),
        "pin": lambda: log.pin(number),
        "stream.get": lambda: stream.get(number),
        "stream.read": lambda: stream.read(number),
        "stream.follow": lambda: stream.follow(number),
        "stream.trim": lambda: stream.trim(number),
        "stream.truncate": lambda: stream.truncate(number),
        "view.read": lambda: View(log.path).read(number),
        "view.follow": lambda: View(log.path).follow(number),
        "view.stream": lambda: View(log.path).stream(number),
        "view.stream.read": lambda: View(log.path).stream(1).read(number),
        "view.stream.follow": lambda: View(log.path).stream(1).follow(number),
        "next": lambda: log.follow().next(timeout=number),
        "probe": lambda: seawall.probe(log.path, budget=number),
    }
    options = ("segment_bytes", "block_bytes", "batch_bytes", "memory_bytes", "crash_memory_bytes", "record_bytes_max", "in_flight_max", "idle_mark", "spares", "retain_bytes", "retain_seconds", "disk_bytes_max", "stall_threshold")
    for option in options:
        calls[option] = functools.partial(open_and_close, log.path.parent / option, {option: number})
    for name, call in calls.items():
        try:
            call()
        except Exception as refused:
            named = (errors.Error, ValueError, TypeError)
            assert isinstance(refused, named if name in options else (*named, OverflowError)), (name, refused)
            assert name not in options or name in str(refused), (name, refused)
        except BaseException as panic:
            pytest.fail(f"{name}({number}): {panic!r}")


def test_times_far_away_are_the_ends_of_the_log(log: Log) -> None:
    end = log.append_commit(b"one").end
    for far in (8e9, 1e18, 9.2e18, 2.0**63, 1.8e19, 1e20, 2**63):
        assert log.lsn_at(far) == end
    for early in (-1, -1e300, datetime.datetime(1, 1, 2, tzinfo=datetime.timezone.utc)):
        assert log.lsn_at(early) == 0
    assert log.lsn_at(datetime.datetime.max.replace(tzinfo=datetime.timezone.utc)) == end


@pytest.mark.parametrize("what", ["log", "stream", "view", "stream of a view"])
def test_a_trim_beside_reading_from_the_start_is_no_error(tmp_path: Path, what: str) -> None:
    """A reader that names no place gets the records that are left, also when a trim comes between finding the first one and reading it."""
    with Log(tmp_path / "log", **SMALL) as log:
        log.stream(1).append_commit(bytes(9_000))
        ended = threading.Event()
        opened: dict[str, Callable[[], Any]] = {
            "log": lambda: log,
            "stream": lambda: log.stream(1),
            "view": lambda: View(log.path),
            "stream of a view": lambda: View(log.path).stream(1),
        }

        def trim() -> None:
            while not ended.is_set():
                log.stream(1).append(bytes(9_000))
                log.commit(log.append(bytes(9_000)).end)
                log.stream(1).trim(log.stream(1).next_seq - 1)
                log.trim(log.durable_lsn)

        trimmer = threading.Thread(target=trim)
        trimmer.start()
        try:
            until = time.monotonic() + 1
            while time.monotonic() < until:
                source: Any = opened[what]()
                next(iter(source.read()), None)
                try:
                    source.follow().next(timeout=0.001)
                except errors.TimedOut:
                    pass
        finally:
            ended.set()
            trimmer.join()


def test_damage_is_refused_reported_and_salvaged(tmp_path: Path) -> None:
    with Log(tmp_path / "log", **SMALL) as log:
        lsn = log.append_commit(b"first").end
        log.append_commit(b"damaged record")
        log.append_commit(b"third")
    (segment,) = (path for path in (tmp_path / "log").glob("*.seg") if b"damaged record" in path.read_bytes())
    found = segment.read_bytes().index(b"damaged record")
    with segment.open("r+b") as file:
        file.seek(found)
        file.write(b"D")
    report = seawall.verify(tmp_path / "log")
    (damage,) = report.damage
    assert (damage.path, damage.lsn) == (str(segment), lsn)
    assert 0 < damage.offset <= found and damage.what
    with pytest.raises(errors.Corrupt) as refused:
        Log(tmp_path / "log", **SMALL)
    assert (refused.value.path, refused.value.lsn, refused.value.offset) == (str(segment), lsn, damage.offset)
    assert refused.value.what.startswith(damage.what)
    salvaged = seawall.salvage(tmp_path / "log", tmp_path / "saved", **SMALL)
    assert (salvaged.records, len(salvaged.report.damage)) == (2, 1)
    assert payloads(View(tmp_path / "saved")) == [b"first", b"third"]


def test_copies_open_as_the_same_log(log: Log, tmp_path: Path) -> None:
    log.append_commit(b"one")
    done = log.backup(tmp_path / "first")
    assert (done.report.damage, done.report.records, done.copied >= 1) == ([], 1, True)
    log.append_commit(b"two")
    log.close()
    again = seawall.backup(log.path, tmp_path / "first")
    assert again.report.end == log.durable_lsn
    assert payloads(View(tmp_path / "first")) == [b"one", b"two"]


def test_a_full_disk_by_its_bound_refuses_and_the_log_stays_open(tmp_path: Path) -> None:
    with Log(tmp_path / "log", **SMALL, disk_bytes_max=6 * (64 << 10), on_full="error") as log:
        appended = 0
        with pytest.raises(errors.DiskCap) as full:
            for _ in range(1000):
                appended = log.append_commit(bytes(10_000)).end
        assert full.value.bytes_max == 6 * (64 << 10) and full.value.needed > 0
        assert 0 < full.value.disk_bytes <= full.value.bytes_max
        assert full.value.path == str(log.path)
        log.trim(appended)
        log.append_commit(b"after the trim")


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounting a small file system needs root on Linux")
def test_a_full_disk_refuses_and_the_log_stays_open(tmp_path: Path) -> None:
    program = """
import errno, sys, seawall
options = dict(segment_bytes=256 << 10, batch_bytes=64 << 10, memory_bytes=1 << 20, durability="process-crash")
with seawall.Log(sys.argv[1] + "/log", **options) as log:
    try:
        for _ in range(1000):
            end = log.append_commit(bytes(50_000)).end
    except seawall.errors.DiskFull as full:
        assert full.errno == errno.ENOSPC and "log" in full.path and isinstance(full, OSError), full
    else:
        raise SystemExit("the disk was never full")
    # What was trimmed is recycled.
    log.trim(end)
    for _ in range(1000):
        try:
            print(log.append_commit(b"after the trim").end)
            break
        except seawall.errors.DiskFull:
            pass
"""
    script = 'mount -t tmpfs -o size=2m none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh", str(tmp_path), sys.executable, program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and int(done.stdout) > 0, done.stderr


def test_a_failed_log_tells_every_caller_why(tmp_path: Path) -> None:
    program = """
import resource, signal, sys, threading, seawall
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = seawall.Log(sys.argv[1], segment_bytes=64 << 10, batch_bytes=16 << 10, memory_bytes=1 << 20, method="buffered+fdatasync")
log.append_commit(b"one")
# Every write after the first blocks of a file fails from now on.
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
for _ in range(2):
    try:
        log.append_commit(b"two")
    except seawall.errors.Failed as failed:
        assert failed.errno == 27 and isinstance(failed.__cause__, seawall.errors.IoError), failed
        assert failed.path == failed.__cause__.path and failed.path.endswith(".seg"), failed.path
        print("failed")
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, tmp_path / "log"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "failed\nfailed\n"), done.stderr


def test_a_view_reads_what_another_process_writes(tmp_path: Path) -> None:
    program = """
import sys, seawall
with seawall.Log(sys.argv[1]) as log:
    log.append_commit(b"one")
    print("ready", flush=True)
    for line in sys.stdin:
        log.append_commit(line.strip().encode())
        print("done", flush=True)
"""
    with child(program, tmp_path / "log") as writer:
        assert writer.stdout is not None and writer.stdin is not None
        assert writer.stdout.readline() == "ready\n"
        view = View(tmp_path / "log")
        assert [view.has_writer, view.tail, view.path] == [True, None, tmp_path / "log"]
        follower = view.follow(ends_with_writer=True)
        first = follower.next(timeout=60)
        assert first is not None and first.payload == b"one"
        with pytest.raises(errors.TimedOut) as late:
            follower.next(timeout=0.01)
        assert late.value.lsn == first.end and isinstance(late.value, TimeoutError)
        for word in ("two", "three"):
            writer.stdin.write(word + "\n")
            writer.stdin.flush()
            followed = follower.next(timeout=60)
            assert followed is not None and followed.payload == word.encode()
        writer.stdin.close()
        assert writer.wait(60) == 0
        assert follower.next(timeout=60) is None
    assert view.renew()
    assert [view.has_writer, view.tail, view.segments, len(view.log_id)] == [False, "clean", 1, 32]
    assert payloads(view) == [b"one", b"two", b"three"]
    assert view.end_lsn > view.first_lsn == 0 and view.durability == "power-loss" and view.method


def test_a_follower_waits_in_a_thread_and_ends_with_the_log(log: Log) -> None:
    seen: list[bytes] = []
    follower = log.follow()
    of_stream = log.stream(4).follow()
    thread = threading.Thread(target=lambda: seen.extend(payloads(follower)))
    streams: list[bytes] = []
    other = threading.Thread(target=lambda: streams.extend(payloads(of_stream)))
    thread.start()
    other.start()
    for i in range(200):
        log.append_commit(b"%d" % i)
    log.stream(4).append_commit(b"of a stream")
    log.close()
    thread.join(60)
    other.join(60)
    assert seen == [b"%d" % i for i in range(200)] + [b"of a stream"]
    assert streams == [b"of a stream"]


def test_a_follower_that_waits_too_long_says_so_and_goes_on(log: Log) -> None:
    for follower, append in [(log.follow(), log.append_commit), (log.stream(1).follow(), log.stream(1).append_commit)]:
        with pytest.raises(errors.TimedOut) as late:
            follower.next(timeout=0.02)
        assert late.value.timeout == 0.02
        append(b"one")
        found = follower.next(timeout=60)
        assert found is not None and found.payload == b"one"


@pytest.mark.parametrize("wait", ["log.follow().next()", "log.stream(1).follow().next()", "seawall.View(log.path).follow(log.durable_lsn).next()", "seawall.View(log.path).stream(1).follow().next()"])
def test_ctrl_c_ends_a_wait_and_the_log_stays_open(tmp_path: Path, wait: str) -> None:
    program = f"""
import sys, seawall
with seawall.Log(sys.argv[1], segment_bytes=65536, batch_bytes=16384, memory_bytes=1 << 20) as log:
    try:
        print("waits", flush=True)
        {wait}
    except KeyboardInterrupt:
        print(log.append_commit(b"after").end)
"""
    with child(program, tmp_path / "log") as waiting:
        assert waiting.stdout is not None and waiting.stdout.readline() == "waits\n"
        # It may not wait yet: a signal that comes before is seen all the same.
        waiting.send_signal(signal.SIGINT)
        assert waiting.stdout.readline() == "7\n" or waiting.wait(60) == 0
    assert seawall.verify(tmp_path / "log").tail == "clean"


def test_an_append_that_waits_for_room_lets_other_threads_make_it(tmp_path: Path) -> None:
    """The append waits for the trim, which this thread makes once one waits: a wait with the interpreter's lock never ends."""
    with Log(tmp_path / "log", **SMALL, disk_bytes_max=8 * (64 << 10)) as log:
        ends: list[int] = []

        def fill() -> None:
            for _ in range(100):
                ends.append(log.append_commit(bytes(10_000)).end)

        thread = threading.Thread(target=fill)
        thread.start()
        steps = 0
        while thread.is_alive():
            steps += 1
            if log.stats().stalls > 0:
                log.trim(ends[-1])
            time.sleep(0.001)
        thread.join()
        assert len(ends) == 100 and steps > 1


def test_threads_share_writes_because_a_commit_gives_up_the_interpreters_lock(log: Log) -> None:
    """If it did not, one commit at a time would be in flight, and each would have a batch of its own."""

    def write() -> None:
        for _ in range(200):
            log.append_commit(b"record")

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = log.stats()
    assert stats.records == 1600 and stats.batches < 1600
    assert stats.batch_records.max > 1


def test_a_thread_makes_progress_while_another_waits(log: Log) -> None:
    """The other thread waits for a record that comes when this one has counted to a thousand."""
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.extend([(log.follow().next() or pytest.fail("ended")).payload]))
    thread.start()
    count = 0
    while count < 1000:
        count += 1
        assert thread.is_alive() and not found
    log.append_commit(b"counted")
    thread.join(60)
    assert found == [b"counted"]


def test_a_process_that_was_forked_off_is_refused(tmp_path: Path) -> None:
    program = """
import os, sys, seawall
log = seawall.Log(sys.argv[1], segment_bytes=65536, batch_bytes=16384, memory_bytes=1 << 20)
log.append_commit(b"one")
if os.fork() == 0:
    for use in (lambda: log.append(b"x"), lambda: log.append_commit(b"x"), lambda: log.close()):
        try:
            use()
            print("not refused", flush=True)
        except seawall.errors.Forked:
            print("refused", flush=True)
    os._exit(0)
os.wait()
print(log.append_commit(b"two").end)
log.close()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, tmp_path / "log"], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("refused\n" * 3 + "14\n", 0), done.stderr


def test_a_log_that_is_dropped_warns_and_loses_only_what_was_not_committed(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", **SMALL)
    log.append_commit(b"kept")
    log.append(b"lost")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del log
        gc.collect()
    assert [warning.category for warning in caught] == [ResourceWarning]
    assert "dropped and not closed" in str(caught[0].message)
    with Log(tmp_path / "log", **SMALL) as log:
        assert log.opened.tail == "torn"
        assert payloads(log) == [b"kept"]


def test_an_iterator_goes_on_where_it_ended(log: Log) -> None:
    records = iter(log)
    assert list(records) == []
    for i in range(300):
        log.append(b"%d" % i)
    log.commit()
    assert payloads(records) == [b"%d" % i for i in range(300)]
    log.append_commit(b"more")
    assert payloads(records) == [b"more"]


def test_errors_have_one_base_and_words(log: Log) -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(classes) > 25
    for one in classes:
        assert issubclass(one, errors.Error) and one.__doc__, one
    with pytest.raises(errors.Error, match="LSN 9999 lies past the end of the log, 0"):
        log.commit(9999)
