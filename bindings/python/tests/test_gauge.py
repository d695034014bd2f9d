"""The probe and the gauge: results are objects, and a notebook gets pictures."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import child

import seawall
from seawall import BenchResult

QUICK = {"seconds": 1, "rounds": 2, "journal_bytes": 4 << 20, "methods": "buffered+fdatasync,buffered"}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> BenchResult:
    """A short run."""
    told: list[tuple[float, str]] = []
    folder = tmp_path_factory.mktemp("bench")
    result = seawall.bench(folder, allow_memory=True, progress=lambda done, words: told.append((done, words)), **QUICK)  # type: ignore[arg-type]
    assert any("round 2 of 2" in words for _, words in told) and all(0 <= done <= 1 for done, _ in told)
    assert list(folder.iterdir()) == []
    return result


def test_a_result_has_rows_and_findings(result: BenchResult) -> None:
    assert (result.scenario, result.complete) == ("commit", True)
    rows = {row.id: row for row in result.rows}
    assert set(rows) == {"buffered+fdatasync", "buffered"}
    synced = result.row("buffered+fdatasync")
    assert synced.missing is None and synced.commits > 0 and synced.bytes == synced.commits * 16384
    assert synced.p50_ns is not None and synced.max_ns is not None and 0 < synced.p50_ns <= synced.max_ns
    assert synced.per_second is not None and synced.per_second > 0
    assert rows["buffered"].durability == "process-crash"
    assert all(finding.sentence and finding.severity in ("wrong", "caution", "note") for finding in result.findings)
    with pytest.raises(KeyError, match="there are buffered"):
        result.row("none")


def test_a_notebook_gets_the_report_in_a_frame(result: BenchResult) -> None:
    shown = result._repr_html_()
    assert shown.startswith("<iframe") and shown.endswith("</iframe>") and "<script" not in shown
    page = result.html()
    assert page.startswith("<!doctype html>") and 'id="pictures"' in page and "buffered+fdatasync" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_result_is_saved_read_and_printed(result: BenchResult, tmp_path: Path) -> None:
    for name, begins in [("r.json", "{"), ("r.html", "<!doctype"), ("r.md", "#"), ("r.csv", ""), ("r.txt", "seawall")]:
        result.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)
    again = BenchResult.read(tmp_path / "r.json")
    assert again.rows == result.rows and json.loads(again.json()) == json.loads(result.json())
    assert "buffered+fdatasync" in str(again) and "2 rows" in repr(again)
    with pytest.raises(ValueError, match="ends with one of .json"):
        result.save(tmp_path / "r.pdf")
    with pytest.raises(ValueError, match="r.md"):
        BenchResult.read(tmp_path / "r.md")


def test_bad_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no scenario 'none'; there are commit"):
        seawall.bench(tmp_path, "none")
    refused: dict[str, Any] = {"seconds": 0.5, "rounds": 0, "size": 0, "writes": 0, "threads": 0, "journal_bytes": 1, "seed": -1, "methods": "steam"}
    value: Any
    for keyword, low in refused.items():
        for value in (low, -1, 2**64, "many"):
            with pytest.raises((ValueError, TypeError), match=keyword) as words:
                seawall.bench(tmp_path, **{keyword: value})
            assert "--" not in str(words.value), words.value
    with pytest.raises(ValueError, match="steam"):
        seawall.bench(tmp_path, methods="steam")
    with pytest.raises(FileNotFoundError) as missing:
        seawall.bench(tmp_path / "none")
    assert missing.value.filename == str(tmp_path / "none")
    with pytest.raises(RuntimeError, match="allow_memory=True") as memory:
        seawall.bench("/dev/shm")
    assert "--" not in str(memory.value), memory.value
    assert "commit" in seawall.scenarios() and "replicated" not in seawall.scenarios()


def test_what_progress_raises_ends_the_run(tmp_path: Path) -> None:
    def stop(done: float, words: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        seawall.bench(tmp_path, allow_memory=True, progress=stop, **QUICK)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_a_run_and_its_files_are_removed(tmp_path: Path) -> None:
    program = """
import sys, seawall
try:
    seawall.bench(sys.argv[1], seconds=600, rounds=1000, journal_bytes=4 << 20, methods="buffered", allow_memory=True,
        progress=lambda done, words: print(words, flush=True))
except KeyboardInterrupt:
    print("interrupted")
"""
    with child(program, tmp_path) as running:
        assert running.stdout is not None
        while not running.stdout.readline().startswith("round"):
            pass
        os.kill(running.pid, signal.SIGINT)
        assert running.stdout.read().endswith("interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_a_probe_is_an_object_and_a_picture(tmp_path: Path) -> None:
    probe = seawall.probe(tmp_path)
    assert (probe.problem, probe.left_behind, probe.path) == (None, None, str(tmp_path))
    assert probe.fastest in probe.tried and 0 < sum(one.commits for one in probe.tried) <= 64
    assert all(0 < one.p50_ns <= one.max_ns and one.calls for one in probe.tried)
    assert probe.durability and probe.promised_by and 0 < probe.elapsed_ns
    shown = probe._repr_html_()
    assert shown.count("<svg") == len(probe.tried) and "fastest" in shown
    assert str(probe).count("\n") == len(probe.tried)
    assert list(tmp_path.iterdir()) == []


def test_a_probe_of_what_is_not_there_is_a_problem_and_no_exception(tmp_path: Path) -> None:
    probe = seawall.probe(tmp_path / "none", budget=0.5)
    assert probe.problem is not None and "none" in probe.problem and probe.tried == [] and probe.fastest is None
    assert "none" in probe._repr_html_()
    with pytest.raises(ValueError, match="budget"):
        seawall.probe(tmp_path, budget=-1)
