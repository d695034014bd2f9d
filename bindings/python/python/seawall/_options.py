"""The options of a log as keywords, for type checkers; the options of the Rust library say what each means."""

from __future__ import annotations

from typing import Literal, TypedDict

from .results import Durability

__all__ = ["LogOptions", "QueueLogOptions"]


class QueueLogOptions(TypedDict, total=False):
    """The options of the log of a queue."""

    create: bool | None
    durability: Durability | None
    segment_bytes: int | None
    block_bytes: int | None
    batch_bytes: int | None
    memory_bytes: int | None
    crash_memory_bytes: int | None
    record_bytes_max: int | None
    in_flight_max: int | None
    idle_mark: float | None
    spares: int | None
    method: str | None
    engine: Literal["portable", "io_uring", "overlapped"] | None
    permissions: Literal["owner", "group", "umask"] | None
    network_file_system: bool | None
    stall_threshold: float | None


class LogOptions(QueueLogOptions, total=False):
    """All options of a log."""

    retain_bytes: int | None
    retain_seconds: float | None
    disk_bytes_max: int | None
    on_full: Literal["wait", "error"] | None
