"""The interpreter of `tests/behaviour/cases.txt` for Python; the head of that file defines its language.

    python behaviour.py CASES ROOT write|check|child LINE
"""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import seawall
from seawall import Log, Record, View, errors

DEFAULTS: dict[str, Any] = {
    "segment_bytes": 65536,
    "batch_bytes": 16384,
    "memory_bytes": 1 << 20,
    "idle_mark": 3600,
    "method": "buffered+fdatasync",
}


class Failed(Exception):
    """A step that failed, with the name of its error."""


def name_of(error: Exception) -> str:
    """The name of an error in the table: `no_record` of NoRecord, `io` of IoError and its classes."""
    if isinstance(error, Failed):
        return str(error)
    if isinstance(error, (errors.NotFound, errors.NotPermitted)):
        return "io"
    if isinstance(error, errors.Error):
        return re.sub("(?<!^)(?=[A-Z])", "_", type(error).__name__).lower().removesuffix("_error")
    if isinstance(error, ValueError):
        return "invalid_argument"
    raise error


def payload(word: str) -> bytes:
    if "*" in word:
        letter, count = word.split("*")
        return letter.encode() * int(count)
    return b"" if word == '""' else word.encode()


def shown(record: Record) -> str:
    body = record.payload
    if not body:
        word = '""'
    elif len(body) > 8 and len(set(body)) == 1:
        word = f"{chr(body[0])}*{len(body)}"
    else:
        word = body.decode()
    return word if record.stream is None else f"{record.stream}/{record.seq}:{word}"


def every(records: Iterable[Record]) -> str:
    return " ".join(shown(record) for record in records)


def class_of(word: str) -> Any:
    return word.replace("_", "-")


class Case:
    """What a case has in hand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.dir = root / "log"
        self.log: Log | None = None
        self.pinned: seawall.Pin | None = None
        self.following: seawall.Follower | None = None

    def step(self, words: list[str]) -> str:
        """Runs a step; gives its words."""
        found: Callable[..., Any] | None = getattr(self, f"do_{words[0]}", None)
        if found is None:
            raise Failed("this interpreter has no such step")
        given = found(*words[1:])
        if given is None:
            return ""
        return " ".join(str(word) for word in given) if isinstance(given, tuple) else str(given)

    @property
    def held(self) -> Log:
        if self.log is None:
            raise Failed("there is no log in hand")
        return self.log

    # Without an open log.

    def do_at(self, name: str) -> None:
        self.dir = self.root / name

    def do_file(self, name: str, word: str) -> None:
        self.dir.mkdir(parents=True, exist_ok=True)
        (self.dir / name).write_bytes(payload(word))

    def do_damage(self, word: str) -> None:
        for path in sorted(self.dir.glob("*.seg")):
            content = path.read_bytes()
            at = content.find(payload(word))
            if at >= 0:
                with path.open("r+b") as file:
                    file.seek(at)
                    file.write(bytes([content[at] ^ 0xFF]))
                return
        raise Failed("nothing to damage")

    def do_open(self, *given: str) -> tuple[object, ...]:
        options = dict(DEFAULTS)
        for word in given:
            name, value = word.split("=")
            if name == "create":
                options[name] = value != "0"
            elif name == "durability":
                options[name] = class_of(value)
            else:
                options[name] = int(value) if value.isdigit() else value
        log = Log(self.dir, **options)
        self.log, self.pinned = log, None
        return log.opened.tail, log.opened.first, log.opened.end

    def do_drop(self) -> None:
        self.log = self.pinned = None

    def do_view(self) -> tuple[object, ...]:
        view = View(self.dir)
        return view.first_lsn, view.end_lsn, "idle" if view.has_writer is False else "written"

    def do_view_read(self, lsn: str) -> str:
        return every(View(self.dir).read(int(lsn)))

    def do_view_follow(self, lsn: str, ms: str) -> str:
        return followed(View(self.dir).follow(int(lsn)), ms)

    def do_view_stream_bounds(self, stream: str) -> tuple[object, ...]:
        found = View(self.dir).stream(int(stream))
        return found.first_seq, found.next_seq

    def do_view_stream_read(self, stream: str, seq: str) -> str:
        return every(View(self.dir).stream(int(stream)).read(int(seq)))

    def do_view_stream_hold(self, stream: str, seq: str) -> None:
        self.following = View(self.dir).stream(int(stream)).follow(int(seq))

    def do_view_stream_next(self, ms: str) -> str:
        assert self.following is not None
        return followed(self.following, ms)

    def do_verify(self) -> tuple[object, ...]:
        report = seawall.verify(self.dir)
        return report.records, len(report.damage)

    def do_backup(self, name: str) -> tuple[object, ...]:
        report = seawall.backup(self.dir, self.root / name).report
        return report.first, report.end

    # With one.

    def do_left(self) -> str:
        opened = self.held.opened
        return f"taken {opened.taken_from_memory}" if opened.left_in_memory == "taken" else opened.left_in_memory

    def do_evidence(self) -> str:
        return self.held.opened.evidence

    def do_close(self) -> None:
        self.held.close()

    def do_append(self, *words: str) -> int:
        return [self.held.append(payload(word)).end for word in words][-1]

    def do_try_append(self, word: str) -> int:
        return self.held.try_append(payload(word)).end

    def do_append_commit(self, word: str) -> int:
        return self.held.append_commit(payload(word)).end

    def do_transaction(self, *parts: str) -> int | None:
        with self.held.transaction() as transaction:
            for part in parts:
                match part.split(":"):
                    case ["trim" | "truncate" | "remove" as name, *numbers]:
                        getattr(transaction, name)(*map(int, numbers))
                    case [stream, word]:
                        transaction.append_to(int(stream), payload(word))
                    case _:
                        transaction.append(payload(part))
        return transaction.lsn

    def do_commit(self, lsn: str | None = None, durability: str | None = None) -> None:
        self.held.commit(None if lsn is None else int(lsn), durability=None if durability is None else class_of(durability))

    def do_lsns(self) -> tuple[object, ...]:
        return self.held.first_lsn, self.held.appended_lsn, self.held.durable_lsn

    def do_read(self, lsn: str) -> str:
        return every(self.held.read(int(lsn)))

    def do_read_at(self, lsn: str) -> str:
        return shown(self.held.read_at(int(lsn)))

    def do_read_before(self, lsn: str) -> str:
        record = self.held.read_before(int(lsn))
        return "none" if record is None else shown(record)

    def do_follow(self, lsn: str, ms: str) -> str:
        return followed(self.held.follow(int(lsn)), ms)

    def do_trim(self, lsn: str) -> int:
        return self.held.trim(int(lsn))

    def do_truncate_after(self, lsn: str) -> int:
        return self.held.truncate_after(int(lsn))

    def do_pin(self, lsn: str) -> None:
        self.pinned = self.held.pin(int(lsn))

    def do_unpin(self) -> None:
        assert self.pinned is not None
        self.pinned.release()

    def do_log_backup(self, name: str) -> tuple[object, ...]:
        report = self.held.backup(self.root / name).report
        return report.first, report.end

    def do_streams(self) -> tuple[object, ...]:
        return tuple(self.held.streams())

    def stream(self, number: str) -> seawall.Stream:
        return self.held.stream(int(number))

    def do_stream_append(self, stream: str, word: str) -> tuple[object, ...]:
        appended = self.stream(stream).append(payload(word))
        return appended.seq, appended.end

    def do_stream_read(self, stream: str, seq: str) -> str:
        return every(self.stream(stream).read(int(seq)))

    def do_stream_get(self, stream: str, seq: str) -> str:
        return shown(self.stream(stream).get(int(seq)))

    def do_stream_follow(self, stream: str, seq: str, ms: str) -> str:
        return followed(self.stream(stream).follow(int(seq)), ms)

    def do_stream_bounds(self, stream: str) -> tuple[object, ...]:
        return self.stream(stream).first_seq, self.stream(stream).next_seq

    def do_stream_trim(self, stream: str, seq: str) -> int:
        return self.stream(stream).trim(int(seq))

    def do_stream_truncate(self, stream: str, seq: str) -> int:
        return self.stream(stream).truncate(int(seq))

    def do_stream_remove(self, stream: str) -> int:
        return self.stream(stream).remove()


def followed(follower: seawall.Follower, ms: str) -> str:
    record = follower.next(timeout=int(ms) / 1000)
    return "end" if record is None else shown(record)


def expectation(line: str) -> tuple[str, str, str | None]:
    """A line as its step, what it must do (`=`, `!` or nothing), and the words after that."""
    if " ! " in line:
        step, error = line.split(" ! ")
        return step, "!", error
    # An option has a sign without a space in front.
    found = re.fullmatch(r"(.*?) =(?: (.*))?", line)
    return (found[1], "=", found[2] or "") if found else (line, "", None)


class Run:
    """The cases of one file below one folder."""

    def __init__(self, cases: Path, root: Path) -> None:
        self.cases = cases
        self.root = root
        self.lines = cases.read_text(encoding="utf-8").splitlines()

    def find(self, words: tuple[str, ...], begin: int, end: int) -> int:
        return next((at for at in range(begin, end) if self.lines[at] in words), end)

    def all(self, check: bool) -> int:
        """Runs every case; gives how many failed."""
        begins = [at for at, line in enumerate(self.lines) if line.startswith("case ")]
        names = [self.lines[at].removeprefix("case ") for at in begins]
        if not names or len(set(names)) < len(names):
            raise SystemExit(f"{self.cases} has no cases, or two of one name")
        failed = 0
        for begin, end, name in zip(begins, [*begins[1:], len(self.lines)], names, strict=True):
            if not check:
                (self.root / name).mkdir(parents=True)
            first = self.find(("then",), begin, end) if check else begin
            problem = self.steps(self.root / name, first + 1, end)
            if problem is not None:
                failed += 1
                print(problem)
        print(f"{len(names)} cases, {failed} failed")
        return failed

    def steps(self, root: Path, at: int, end: int) -> str | None:
        """Runs lines; gives what the first one says that gave something else."""
        case, child = Case(root), None
        try:
            while at < end:
                line = self.lines[at]
                at += 1
                if not line or line.startswith("#") or line == "meanwhile":
                    continue
                if line == "then":
                    case = Case(root)
                elif line == "child":
                    child = self.start(at)
                    at = self.find(("meanwhile", "killed"), at, end)
                elif line == "killed":
                    assert child is not None
                    child.kill()
                    child.wait()
                else:
                    step, kind, expected = expectation(line)
                    try:
                        given, did = case.step(step.split(" ")), "="
                    except Exception as error:
                        given, did = name_of(error), "!"
                    if (kind or "=") != did or (kind and given != expected):
                        return f"{at}: {line}: gave {'! ' if did == '!' else ''}{given}"
        finally:
            if child is not None:
                child.kill()
                child.wait()
        return None

    def start(self, line: int) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, str(self.cases), str(self.root), "child", str(line)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        said = []
        for said_line in child.stdout:
            if said_line == "ready\n":
                return child
            said.append(said_line.strip())
        child.wait()
        raise SystemExit("; ".join(said))

    def child(self, line: int) -> None:
        """What the child of a line runs; it ends when it is killed, or its parent is."""
        begin = max(at for at in range(line) if self.lines[at].startswith("case "))
        end = self.find(("meanwhile", "killed"), line, len(self.lines))
        # The log stays open until the end: it is in hand here.
        self.case = Case(self.root / self.lines[begin].removeprefix("case "))
        for at in range(line, end):
            step, kind, expected = expectation(self.lines[at])
            given = self.case.step(step.split(" "))
            if kind and given != expected:
                raise SystemExit(f"{at + 1}: {self.lines[at]}: gave {given}")
        print("ready", flush=True)
        sys.stdin.read(1)


def main() -> int:
    # Logs are dropped without being closed on purpose.
    warnings.simplefilter("ignore", ResourceWarning)
    match sys.argv[1:]:
        case [cases, root, "write" | "check" as mode]:
            return 1 if Run(Path(cases), Path(root)).all(mode == "check") else 0
        case [cases, root, "child", line]:
            Run(Path(cases), Path(root)).child(int(line))
            return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
