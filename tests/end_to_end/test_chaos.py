"""A short chaos run; the long ones are started by hand, see benchmarks/chaos.py."""

import sys
from pathlib import Path

import pytest

from benchmarks.chaos import run


@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
async def test_every_promise_holds_while_everything_is_killed(tmp_path: Path) -> None:
    violations = await run(jobs=40, seed=7, in_flight=16, folder=tmp_path)
    assert violations.broken == []
    assert violations.states["SUCCESS"] >= 30
