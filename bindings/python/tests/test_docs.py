"""Everything public is documented, and the examples of the documentation run."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import seawall
from seawall import errors, gauge, results

DOCS = Path(__file__).parents[3] / "docs" / "python.md"


def test_everything_public_has_a_docstring() -> None:
    missing = []
    for module in (seawall, errors, gauge, results):
        assert module.__doc__
        for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]):
            value = getattr(module, name)
            if not (inspect.isclass(value) or callable(value)) or not value.__module__.startswith("seawall"):
                continue
            if not value.__doc__:
                missing.append(name)
            if inspect.isclass(value):
                own = {attribute: member for attribute, member in vars(value).items() if not attribute.startswith("_")}
                missing += [
                    f"{name}.{attribute}"
                    for attribute, member in own.items()
                    if (callable(member) or inspect.isdatadescriptor(member))
                    and not (member.__doc__ or "").strip()
                    # Fields of dataclasses and attributes of exceptions have theirs in the source.
                    and not inspect.ismemberdescriptor(member)
                ]
    assert missing == []


def test_every_field_of_a_result_is_described() -> None:
    for module in (results, errors):
        lines = Path(module.__file__ or "").read_text(encoding="utf-8").splitlines()
        fields = [i for i, line in enumerate(lines) if re.match(r"    [a-z_0-9]+: ", line)]
        assert len(fields) > 20
        for i in fields:
            assert lines[i + 1].startswith('    """'), lines[i]


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", range(len(blocks())))
def test_the_examples_of_the_page_run(block: int, tmp_path: Path) -> None:
    """Each by itself, as a user would run it, with warnings as errors."""
    command = [sys.executable, "-W", "error", "-c", blocks()[block]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    expected = [line.split("# prints ", 1)[1] for line in blocks()[block].splitlines() if "# prints " in line]
    if expected:
        assert done.stdout.splitlines() == expected


def test_the_page_names_everything_public() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert blocks() and [name for name in ("Log", "View", "Queue", "verify", "backup", "salvage", "probe", "bench") if f"`{name}" not in text] == []
