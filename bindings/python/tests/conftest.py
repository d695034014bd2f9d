"""What the tests share: small logs, and child processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import seawall

# The machine that runs this may be busy: no example has a deadline.
settings.register_profile(
    "seawall",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=int(os.environ.get("SEAWALL_EXAMPLES", "25")),
    stateful_step_count=20,
)
settings.load_profile("seawall")

SMALL: dict[str, Any] = {
    "segment_bytes": 64 << 10,
    "batch_bytes": 16 << 10,
    "memory_bytes": 1 << 20,
    "method": "buffered+fdatasync",
}
"""Options of a log that rotates often and is opened at once."""


class Scratch:
    """A folder below the one that pytest was given, for examples that have no fixtures: the system's may lie in memory."""

    folder: Path

    @classmethod
    def new(cls) -> Path:
        """A new folder in it."""
        return Path(tempfile.mkdtemp(dir=cls.folder))


@pytest.fixture(scope="session", autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Makes it, and pytest removes it with all others."""
    Scratch.folder = tmp_path_factory.mktemp("examples")


def payloads(records: Any) -> list[bytes]:
    """The bytes of records."""
    return [record.payload for record in records]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[seawall.Log]:
    """A new small log."""
    with seawall.Log(tmp_path / "log", **SMALL) as opened:
        yield opened


def child(program: str, *arguments: object, **popen: Any) -> subprocess.Popen[str]:
    """A process that runs `program`, with a pipe to its output."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **popen)
