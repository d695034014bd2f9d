"""The stubs say what the library has, and the package and these tests hold under strict checking."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CRATE = Path(__file__).parent.parent
CACHE = Path(os.environ.get("SEAWALL_CACHE", Path.cwd()))


def run(*arguments: str) -> None:
    environment = os.environ | {"MYPY_CACHE_DIR": str(CACHE / "mypy"), "MYPYPATH": str(CRATE / "tests")}
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=CACHE, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_match_the_library() -> None:
    run("mypy.stubtest", "seawall", "--mypy-config-file", str(CRATE / "pyproject.toml"), "--allowlist", str(CRATE / "tests" / "stubtest.allow"))


def test_an_option_that_is_none_is_refused() -> None:
    program = "import seawall; seawall.Queue('x', nonsense=2); seawall.Log('x', nonsense=2); seawall.salvage('x', 'y', nonsense=2); seawall.Queue('x', on_full='wait')"
    environment = os.environ | {"MYPY_CACHE_DIR": str(CACHE / "mypy")}
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "-c", program], cwd=CACHE, env=environment, capture_output=True, text=True)
    assert done.stdout.count("Unexpected keyword argument") == 4, done.stdout + done.stderr


@pytest.mark.parametrize("what", [["-p", "seawall"], [str(CRATE / "tests")], [str(CRATE / "bench" / "bench.py")]], ids=["package", "tests", "bench"])
def test_strict_checking_finds_nothing(what: list[str]) -> None:
    run("mypy", "--config-file", str(CRATE / "pyproject.toml"), *what)
