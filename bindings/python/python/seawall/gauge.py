"""Measures what a durable commit costs on a disk by every method, with the evidence, findings and pictures of ``seawall bench``."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from pathlib import Path

from ._seawall import Measurement, measure, read_result, scenario_names
from .results import Finding, Row

__all__ = ["BenchResult", "bench", "scenarios"]


class BenchResult:
    """The result of ``bench``: rows and findings as objects, and the reports of the command. A notebook shows the pictures."""

    def __init__(self, measurement: Measurement) -> None:
        """Holds a measurement, which ``bench`` makes and ``BenchResult.read`` reads."""
        self._measurement = measurement
        scenario, complete, started, rows, findings, recommended = measurement.found()
        self.scenario: str = scenario
        """The scenario's name."""
        self.complete: bool = complete
        """Whether all rounds were run."""
        self.started: int = started
        """When it began, in seconds since 1970."""
        self.rows: list[Row] = rows
        """The rows of the table."""
        self.findings: list[Finding] = findings
        """What was found, the gravest first."""
        self.recommended: str | None = recommended
        """The id of the method that is recommended, if one is."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> BenchResult:
        """Reads the file of a result, also one of the command ``seawall bench``."""
        return cls(read_result(path))

    def row(self, id: str) -> Row:
        """The row of that id; raises ``KeyError`` if there is none."""
        for row in self.rows:
            if row.id == id:
                return row
        raise KeyError(f"there is no row {id!r}; there are {', '.join(row.id for row in self.rows)}")

    def text(self, width: int = 100) -> str:
        """The report for a terminal of this many columns."""
        return self._measurement.report("text", width)

    def html(self) -> str:
        """The report with its pictures: one page, which loads nothing."""
        return self._measurement.report("html")

    def markdown(self) -> str:
        """The report in Markdown."""
        return self._measurement.report("markdown")

    def csv(self) -> str:
        """The table as comma-separated values."""
        return self._measurement.report("csv")

    def json(self) -> str:
        """The text of the result's file, which ``seawall report`` and ``seawall compare`` read."""
        return self._measurement.report("json")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the result by what the name ends with: ``.json``, ``.html``, ``.md``, ``.csv`` or ``.txt``."""
        forms = {".json": self.json, ".html": self.html, ".md": self.markdown, ".csv": self.csv, ".txt": self.text}
        form = forms.get(Path(path).suffix)
        if form is None:
            raise ValueError(f"the name of a result ends with one of {', '.join(forms)}: {os.fspath(path)}")
        Path(path).write_text(form(), encoding="utf-8")

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"BenchResult({self.scenario!r}, {len(self.rows)} rows, recommended={self.recommended!r})"

    def _repr_html_(self) -> str:
        # The page has scripts and styles of its own: a frame keeps them and those of the notebook apart.
        page = html.escape(self.html(), quote=True)
        style = "width: 100%; height: 70vh; border: 1px solid #8884"
        return f'<iframe title="seawall {html.escape(self.scenario)}" style="{style}" sandbox="allow-scripts" srcdoc="{page}"></iframe>'


def scenarios() -> list[str]:
    """The names of the scenarios that ``bench`` runs, the default first."""
    return scenario_names()


def bench(
    path: str | os.PathLike[str] = ".",
    scenario: str = "commit",
    *,
    seconds: float | None = None,
    rounds: int | None = None,
    size: int | None = None,
    writes: int | None = None,
    methods: str | None = None,
    threads: int | None = None,
    journal_bytes: int | None = None,
    seed: int | None = None,
    allow_memory: bool = False,
    progress: Callable[[float, str], object] | None = None,
) -> BenchResult:
    """Measures the disk under the folder ``path``: by default one durable commit by every method, for about 30 seconds.

    The settings are those of ``seawall bench``, ``None`` for the scenario's default: ``seconds`` of the whole run, ``rounds``,
    ``size`` of a write in bytes, ``writes`` of a commit, ``methods`` by their names (``'published'``, ``'dsync,fdatasync'``),
    ``threads`` that commit, ``journal_bytes``, ``seed``. With ``allow_memory`` it also measures where nothing outlives a crash.
    ``progress`` is called with the share that is done and words. Ctrl-C ends the run between two blocks.

    The interpreter measures nothing: the program is that of the command, without the interpreter's lock. Only files that it
    made are written, and it removes them.

    Raises ``ValueError`` for a setting outside its bounds, ``FileNotFoundError`` for a folder that is not there, ``RuntimeError`` for a disk
    that cannot be measured.
    """
    measurement = measure(
        path,
        scenario,
        allow_memory,
        progress,
        seconds=seconds,
        rounds=rounds,
        size=size,
        writes=writes,
        methods=methods,
        threads=threads,
        journal_bytes=journal_bytes,
        seed=seed,
    )
    return BenchResult(measurement)
