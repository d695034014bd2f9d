"""The cases that every language runs: through Python, and of each other's directories with the interpreter for Rust."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).parents[3] / "tests" / "behaviour" / "cases.txt"
PYTHON = [sys.executable, str(Path(__file__).parent / "behaviour.py")]


def run(interpreter: list[str], cases: Path, root: Path, mode: str) -> tuple[int, str]:
    done = subprocess.run([*interpreter, cases, root, mode], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def number() -> int:
    """How many cases there are."""
    return sum(line.startswith("case ") for line in CASES.read_text(encoding="utf-8").splitlines())


def test_python_behaves_as_the_cases_say_also_when_they_are_checked_again(tmp_path: Path) -> None:
    for mode in ("write", "check", "check"):
        assert run(PYTHON, CASES, tmp_path, mode) == (0, f"{number()} cases, 0 failed\n")


def test_what_one_language_writes_the_other_reads(tmp_path: Path) -> None:
    """`cargo xtask python` builds the other interpreter and names it."""
    rust = [os.environ["SEAWALL_INTERPRETER"]]
    for name, writer, reader in (("of-rust", rust, PYTHON), ("of-python", PYTHON, rust)):
        root = tmp_path / name
        root.mkdir()
        for interpreter, mode in ((writer, "write"), (reader, "check"), (writer, "check")):
            assert run(interpreter, CASES, root, mode) == (0, f"{number()} cases, 0 failed\n")


def test_a_case_that_says_something_else_fails(tmp_path: Path) -> None:
    """An interpreter that finds nothing wrong would prove nothing: each wrong step fails its case, and only that."""
    wrong = {
        "a": "open = new 0 1",
        "b": "open ! locked",
        "c": "close",
        "d": "open\nappend x = 6",
        "e": "open\nread 1 ! trimmed",
        "f": "no such step",
        "h": "child\nopen\nmeanwhile\nopen\nkilled",
        "i": "open\nthen\nverify = 1 0",
    }
    right = "case z\nopen = new 0 0\nclose\nthen\nopen = clean 0 0\nclose\n"
    cases = tmp_path / "cases"
    cases.write_text("".join(f"case {name}\n{steps}\n" for name, steps in wrong.items()) + right)
    code, printed = run(PYTHON, cases, tmp_path, "write")
    assert (code, printed.splitlines()[-1]) == (1, f"{len(wrong) + 1} cases, {len(wrong)} failed"), printed
