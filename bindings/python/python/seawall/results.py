"""What the functions of the package return: frozen dataclasses."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Literal

Durability = Literal["power-loss", "system-crash", "process-crash"]
"""What an acknowledged record outlives."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Quantiles of a distribution."""

    count: int
    """How many values."""
    p50: int
    """Half of the values are at most this."""
    p99: int
    """99 of 100 values are at most this."""
    p999: int
    """999 of 1000 values are at most this."""
    max: int
    """The largest value."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters and distributions since the log was opened."""

    records: int
    """Records accepted."""
    batches: int
    """Batches that were written and acknowledged, marks included."""
    relaxed_batches: int
    """Of these, those that were acknowledged at a lower class than the log promises."""
    debt_syncs: int
    """Times that such batches were made durable."""
    bytes_written: int
    """Bytes written, headers and padding included."""
    segments_started: int
    """Segments started."""
    segments_filled: int
    """Segments that were created and filled with zeros."""
    stalls: int
    """Times that an append had to wait for memory or for a segment."""
    stalled_for: float | None
    """For how many seconds the disk has been stalled, if it is now."""
    stalls_seen: int
    """Such stalls."""
    follower_wakes: int
    """Times that followers in other processes were woken."""
    appended: int
    """The end of what was accepted."""
    durable: int
    """The end of what is durable."""
    first: int
    """The first LSN that must be present."""
    pinned: int | None
    """The lowest LSN that a pin holds."""
    segments: int
    """Segments in the log."""
    streams: int
    """Streams that the log has."""
    stream_bytes: int
    """Bytes of the log that hold records of streams which are still needed."""
    stream_memory_bytes: int
    """Memory that their positions take."""
    rewritten_records: int
    """Records of streams that were rewritten because the segment that held them was to go."""
    rewritten_bytes: int
    """What these take, bytes."""
    rewrite_stalls: int
    """Times that an append had to wait until more was rewritten, because the log held three times what its streams need."""
    disk_bytes: int
    """What the log takes on the disk, bytes."""
    method: str
    """The commit method in use."""
    engine: str
    """The engine that runs it."""
    engine_refused: str | None
    """Why another engine was refused, if one was."""
    process_crash: Literal["none yet", "in memory", "written"]
    """How commits that are to outlive the process only are served."""
    write_ns: Summary
    """How long one batch took to become durable, nanoseconds."""
    batch_records: Summary
    """Records in one batch."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What opening a log found."""

    tail: Literal["new", "clean", "torn", "lost", "unknown"]
    """How the log had ended."""
    lost: tuple[int, int] | None
    """Which acknowledged records its class allowed to be lost: from which LSN, and to which."""
    first: int
    """The first LSN that is left."""
    end: int
    """The end of the log."""
    segments: int
    """Segments in the log."""
    epoch: int
    """How often the log has been opened, this time included."""
    method: str
    """The commit method."""
    method_origin: Literal["named", "remembered", "shared", "probed", "unknown"]
    """Where that method comes from."""
    engine: str
    """The engine that runs it."""
    engine_refused: str | None
    """Why another engine was refused, if one was."""
    channel_refused: str | None
    """Why followers in other processes look at the disk again and again, if they do."""
    foreign_files: list[str]
    """Foreign files in the directory."""
    left_in_memory: Literal["nothing", "taken", "worthless"]
    """What commits that were to outlive the process only had left in memory."""
    taken_from_memory: int
    """Records of commits that were to outlive the process only, and that the disk did not have yet."""
    evidence: Literal["confirmed", "not-confirmed", "not-needed"]
    """What the devices' counters say to the log's class: each commit that was watched flushed every volatile cache below; there is not
    enough to judge by, and the class rests on the word of system and device alone; or no flush is needed."""
    evidence_because: str | None
    """Why it is not confirmed."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A place where acknowledged data is damaged."""

    path: str
    """The damaged segment."""
    offset: int
    """Where in the segment the damaged batch starts, bytes."""
    lsn: int
    """The LSN of the first record that cannot be read."""
    what: str
    """What is wrong there."""


@dataclass(frozen=True, slots=True)
class Report:
    """What ``verify`` found."""

    log_id: str
    """The identity of the log, in hexadecimal digits."""
    epoch: int
    """The epoch of its last opening."""
    block_bytes: int
    """Block size in bytes."""
    segments: int
    """Segments that belong to the log."""
    spares: int
    """Segments that are prepared and not started."""
    first: int
    """The first LSN that must be present."""
    end: int
    """The end of what is intact."""
    records: int
    """Intact records, those before the first LSN included."""
    bytes: int
    """Their bytes, without headers."""
    batches: int
    """Intact batches."""
    durability: Durability | None
    """What acknowledged records outlive, as the last opening requested; ``None`` if no header says so."""
    tail: Literal["new", "clean", "torn", "lost", "unknown"]
    """How the log ends."""
    lost: tuple[int, int] | None
    """Which acknowledged records its class allowed to be lost."""
    witnessed: int
    """Everything before this is known to have been durable."""
    damage: list[Damage]
    """Every damaged place."""
    foreign_files: list[str]
    """Foreign files in the directory."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What ``backup`` and ``Log.backup`` did."""

    report: Report
    """What ``verify`` says of the copy."""
    copied: int
    """Segments copied."""
    kept: int
    """Segments that an earlier backup had copied, checked again."""
    removed: int
    """Segments that the log had trimmed, removed from the backup."""


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What ``salvage`` copied."""

    report: Report
    """The damage that was found."""
    records: int
    """Records copied."""
    end: int
    """The end of the new log."""
    left_out: list[tuple[int, int]]
    """The ranges of LSNs in the old log that are known to have held records and were not copied."""


@dataclass(frozen=True, slots=True)
class Peeked:
    """A message that waits in a queue."""

    id: int
    """What ``put`` returned."""
    attempts: int
    """How often it was handed out."""
    body: bytes
    """What was put."""


class DeadLetter(Peeked):
    """A message that was tried ``max_attempts`` times without success."""


@dataclass(frozen=True, slots=True)
class QueueStats:
    """What a queue holds."""

    waiting: int
    """Messages that could be handed out."""
    in_flight: int
    """Messages that are handed out and not acknowledged."""
    delayed: int
    """Messages that are delayed."""
    dead: int
    """Dead letters."""
    handles: int
    """Handles that use the queue, in all processes."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What one commit method showed in a probe."""

    method: str
    """Its id in the method table."""
    calls: str
    """Its calls in words."""
    commits: int
    """Commits that were timed."""
    p50_ns: int
    """The median of write and sync together, nanoseconds."""
    max_ns: int
    """The slowest, nanoseconds."""


def _time(ns: int) -> str:
    """A time in the unit that suits it."""
    for unit, length in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if ns >= length:
            return f"{ns / length:.3g} {unit}"
    return f"{ns} ns"


@dataclass(frozen=True, slots=True)
class Probe:
    """What a durable commit costs in a folder, as ``probe`` found within a second. A notebook shows it as a picture."""

    path: str
    """The folder."""
    fastest: Tried | None
    """The fastest of the methods that outlive the most here; ``None`` if none could be tried."""
    tried: list[Tried]
    """All that were tried, the fastest among them."""
    durability: Durability | None
    """What an acknowledged commit of these methods outlives here."""
    promised_by: Literal["device", "hypervisor", "server", "wine", "unknown"] | None
    """Whose word that is."""
    because: list[str]
    """Why it is not more, or what it rests on."""
    elapsed_ns: int
    """How long the probe took, nanoseconds."""
    problem: str | None
    """What went wrong; ``None`` if all went well."""
    left_behind: str | None
    """The file that could not be removed yet."""

    def __str__(self) -> str:
        rows = [f"{one.method:<22}{_time(one.p50_ns):>10}  max {_time(one.max_ns):>9}" for one in self.tried]
        head = f"durable commits of 4 KiB in {self.path}: outlive {self.durability or 'unknown'}"
        return "\n".join([head, *rows, *([self.problem] if self.problem else [])])

    def _repr_html_(self) -> str:
        longest = max((one.max_ns for one in self.tried), default=1)
        width = 300

        def bar(ns: int) -> float:
            return max(1.0, width * ns / longest)

        def line(one: Tried) -> str:
            best = " <b>fastest</b>" if one == self.fastest else ""
            picture = (
                f'<svg width="{width}" height="14" role="img" aria-label="p50 {_time(one.p50_ns)}, max {_time(one.max_ns)}">'
                f'<rect y="5" width="{bar(one.max_ns):.1f}" height="4" fill="#9bb"/>'
                f'<rect y="2" width="{bar(one.p50_ns):.1f}" height="10" fill="#277"/></svg>'
            )
            cells = (f"<code>{html.escape(one.method)}</code>{best}", _time(one.p50_ns), _time(one.max_ns), picture)
            return f'<tr title="{html.escape(one.calls)}">' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"

        rows = "".join(line(one) for one in self.tried)
        words = [f"durable commits of 4 KiB in {self.path}, outlive {self.durability or 'unknown'}", *self.because]
        problem = f"<p><b>{html.escape(self.problem)}</b></p>" if self.problem else ""
        table = f"<table><tr><th>method</th><th>p50</th><th>max</th><th>p50 within max</th></tr>{rows}</table>"
        return f"<div><p>{html.escape('; '.join(words))}</p>{table}{problem}</div>"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a result: one method, design or load."""

    id: str
    """Stable name, the same from run to run."""
    label: str
    """Its heading in the table."""
    what: str
    """What it does, in a sentence."""
    missing: str | None
    """Why it has no figures; ``None`` if it has."""
    durability: Durability | None
    """What an acknowledged commit outlives here, where that is a question."""
    commits: int
    """Commits acknowledged."""
    bytes: int
    """Bytes committed."""
    elapsed_ns: int
    """Time spent in its blocks, nanoseconds."""
    per_second: float | None
    """Commits per second."""
    p50_ns: int | None
    """The median, nanoseconds."""
    p99_ns: int | None
    """The 99th percentile, nanoseconds; ``None`` if there are too few values."""
    p999_ns: int | None
    """The 99.9th percentile, nanoseconds; ``None`` if there are too few values."""
    max_ns: int | None
    """The slowest, nanoseconds."""
    flushes: str | None
    """Flushes of the device for each commit, by its own counters, in words."""
    to_best: float | None
    """Its median by that of the best of its class, of methods that are ranked."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found in a result."""

    rule: str
    """The rule that found it."""
    severity: Literal["wrong", "caution", "note"]
    """Its weight."""
    sentence: str
    """What was found, with its figures."""
    remedy: str
    """What to do about it."""
