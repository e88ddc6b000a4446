"""dev.py with the real Temporal server and stubs for the worker and the API."""

import os
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from tests.end_to_end.stack import PROJECT, Stack, is_listening, running, wait_until

STUB = Path(__file__).with_name("stub_part.py")
NOBODY = (sys.executable, "-c", "import time; time.sleep(600)")
BROKEN = (sys.executable, "-c", "raise SystemExit('no such model: lighthouse')")
IN_ORDER = ["api SIGTERM server up", "worker SIGTERM server up"]

MakeStack = Callable[..., Stack]
pytestmark = [
    pytest.mark.timeout(90),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for left processes in /proc"),
]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Where the stubs write how they were stopped."""
    return tmp_path / "notes"


@pytest.fixture
def make_stack(tmp_path: Path, notes: Path) -> Iterator[MakeStack]:
    """Builds stacks over one data folder; each test ends without any of their processes."""
    made: list[Stack] = []

    def make(temper: str = "", worker: tuple[str, ...] | None = None, **extra: str) -> Stack:
        stub = (sys.executable, str(STUB))
        worker = worker or (*stub, "worker", "DARKROOM_HEALTH_PORT", str(notes), temper)
        api = (*stub, "api", "DARKROOM_API_PORT", str(notes))
        launcher = tmp_path / f"launch-{len(made)}.py"
        launcher.write_text(
            f"import sys\nsys.path.insert(0, {str(PROJECT)!r})\nimport dev\n"
            f"sys.exit(dev.main(worker={worker!r}, api={api!r}))\n"
        )
        made.append(Stack(tmp_path / "data", (sys.executable, str(launcher)), extra))
        return made[-1]

    yield make
    left = [pid for stack in made for pid in stack.pids()]
    for stack in made:
        stack.clean_up()
    assert left == []


def read_lines(notes: Path) -> list[str]:
    return notes.read_text().splitlines() if notes.exists() else []


def test_run_says_that_a_key_is_asked_for_where_one_is(make_stack: MakeStack) -> None:
    stack = make_stack()
    keys = stack.data_dir / "artifacts/config/keys"
    keys.mkdir(parents=True)
    (keys / "0.json").write_text("{}")
    with running(stack):
        stack.wait_for_line(r'curl -s -H "Authorization: Bearer \$KEY" .*/v1/jobs')
        assert stack.stop() == 0


def test_run_says_where_everything_is_and_stops_with_zero(make_stack: MakeStack) -> None:
    with running(make_stack()) as stack:
        stack.wait_until_ready()
        assert is_listening(stack.temporal_port)
        assert is_listening(stack.ui_port)
        stack.wait_for_line("curl .*picture.png")
        stack.wait_for_line(r"worker \| WARNING worker is a stub")
        assert stack.stop() == 0
        assert f"API      {stack.api_url} " in stack.out
        assert stack.err == ""


def test_sigterm_stops_the_api_then_the_worker_then_the_server(
    make_stack: MakeStack, notes: Path
) -> None:
    with running(make_stack()) as stack:
        stack.wait_until_ready()
        assert stack.stop(signal.SIGTERM) == 0
        assert read_lines(notes) == IN_ORDER
        assert stack.pids() == []


def test_ctrl_c_on_the_terminal_reaches_only_dev(make_stack: MakeStack, notes: Path) -> None:
    with running(make_stack()) as stack:
        stack.wait_until_ready()
        os.killpg(stack.process.pid, signal.SIGINT)
        assert stack.process.wait(30) == 0
        assert read_lines(notes) == IN_ORDER


def test_a_closed_terminal_stops_in_order(make_stack: MakeStack, notes: Path) -> None:
    with running(make_stack()) as stack:
        stack.wait_until_ready()
        assert stack.stop(signal.SIGHUP) == 0
        assert read_lines(notes) == IN_ORDER


def test_a_second_ctrl_c_kills_everything_at_once(make_stack: MakeStack) -> None:
    with running(make_stack("stubborn")) as stack:
        stack.wait_until_ready()
        stack.process.send_signal(signal.SIGINT)
        stack.wait_for_line("press Ctrl-C again")
        time.sleep(0.7)
        assert stack.stop(signal.SIGINT, timeout=5.0) == 1
        assert stack.pids() == []


def test_a_part_that_outstays_its_grace_is_killed(make_stack: MakeStack) -> None:
    with running(make_stack("stubborn", DARKROOM_GRACE_SECONDS="-0")) as stack:
        stack.wait_until_ready()
        assert stack.stop() == 0
        stack.wait_for_line("worker did not stop within 10 s: killed")


def test_a_stop_during_the_start_leaves_nothing(make_stack: MakeStack) -> None:
    with running(make_stack(worker=NOBODY)) as stack:
        stack.wait_for_line("starting")
        assert stack.stop() == 0
    with running(make_stack(worker=NOBODY)) as stack:
        wait_until("the worker has been started", lambda: stack.pids("sleep(600)") != [])
        assert stack.stop() == 0
        assert stack.pids() == []


@pytest.mark.parametrize(
    ("variable", "port"),
    [
        ("DARKROOM_TEMPORAL_PORT", "temporal_port"),
        ("DARKROOM_TEMPORAL_UI_PORT", "ui_port"),
        ("DARKROOM_API_PORT", "api_port"),
    ],
)
def test_a_taken_port_is_named_with_its_variable(
    make_stack: MakeStack, variable: str, port: str
) -> None:
    stack = make_stack()
    with socket.create_server(("127.0.0.1", getattr(stack, port))), running(stack):
        assert stack.process.wait(20) == 1
    assert stack.err == (
        f"make run: port {getattr(stack, port)} is taken; set {variable} to another one\n"
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DARKROOM_API_PORT", "eighty"),
        ("DARKROOM_API_PORT", "70000"),
        ("DARKROOM_TEMPORAL_PORT", "0"),
        ("DARKROOM_API_HOST", "no.such.host.invalid"),
        ("DARKROOM_GRACE_SECONDS", "nan"),
        ("DARKROOM_DATA_DIR", "/dev/null/data"),
    ],
)
def test_a_bad_setting_is_named_in_one_line(
    make_stack: MakeStack, variable: str, value: str
) -> None:
    with running(make_stack(**{variable: value})) as stack:
        assert stack.process.wait(20) == 2
        assert stack.err.startswith(f"make run: {variable}: ")
        assert stack.err.count("\n") == 1


def test_a_part_that_dies_while_starting_ends_the_run_with_its_last_words(
    make_stack: MakeStack,
) -> None:
    with running(make_stack(worker=BROKEN)) as stack:
        assert stack.process.wait(30) == 1
        assert "worker died while starting (exit code 1); its log is " in stack.err
        assert "| no such model: lighthouse" in stack.err
        assert stack.pids() == []


@pytest.mark.parametrize(("part", "program"), [("worker", "DARKROOM_HEALTH"), ("api", " api ")])
def test_a_killed_part_is_started_again(make_stack: MakeStack, part: str, program: str) -> None:
    with running(make_stack()) as stack:
        stack.wait_until_ready()
        (pid,) = stack.pids(program)
        os.kill(pid, signal.SIGKILL)
        stack.wait_for_line(rf"{part} died \(killed by signal 9\); starting it again at once")
        stack.wait_for_line(f"{part} runs again")
        assert stack.stop() == 0


def test_a_part_that_keeps_dying_ends_the_run(make_stack: MakeStack, notes: Path) -> None:
    with running(make_stack("fragile")) as stack:
        assert stack.process.wait(60) == 1
        assert "worker died 5 times within 60 s (killed by signal 6)" in stack.err
        assert read_lines(notes) == ["api SIGTERM server up"]
        assert stack.pids() == []


def test_kill_9_of_dev_leaves_nothing_and_the_next_run_waits_for_that(
    make_stack: MakeStack, notes: Path
) -> None:
    with running(make_stack()) as killed:
        killed.wait_until_ready()
        assert killed.stop(signal.SIGKILL) == -signal.SIGKILL
        with running(make_stack()) as following:
            following.wait_for_line("was killed; waiting")
            following.wait_until_ready()
            assert read_lines(notes) == IN_ORDER
            assert following.stop() == 0
        wait_until("everything is gone", lambda: killed.pids() == [])


def test_a_second_run_on_the_same_data_folder_is_refused(make_stack: MakeStack) -> None:
    with running(make_stack()) as first:
        first.wait_until_ready()
        second = make_stack()
        second.start()
        assert second.process.wait(20) == 1
        assert f"another `make run` (pid {first.process.pid}) uses" in second.err
        assert first.stop() == 0


def test_a_database_whose_making_was_cut_short_is_made_anew(make_stack: MakeStack) -> None:
    stack = make_stack()
    stack.data_dir.mkdir()
    with closing(sqlite3.connect(stack.data_dir / "temporal.db")) as half_made:
        half_made.execute("CREATE TABLE namespaces (id INT)")
    with running(stack):
        stack.wait_until_ready()
        assert stack.stop() == 0


async def test_workflows_and_retention_outlive_the_server(make_stack: MakeStack) -> None:
    with running(make_stack()) as stack:
        stack.wait_until_ready()
        client = await Client.connect(stack.temporal_address)
        await client.start_workflow("Nobody", id="kept", task_queue="nobody")
        (pid,) = stack.pids("start-dev")
        os.kill(pid, signal.SIGKILL)
        stack.wait_for_line("temporal runs again")
        assert await retention_days(stack) == 30
        assert stack.stop() == 0
    with running(make_stack()) as stack:
        stack.wait_until_ready()
        client = await Client.connect(stack.temporal_address)
        assert (await client.get_workflow_handle("kept").describe()).id == "kept"
        assert stack.stop() == 0


async def retention_days(stack: Stack) -> int:
    client = await Client.connect(stack.temporal_address)
    namespace = await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace="default")
    )
    return namespace.config.workflow_execution_retention_ttl.ToTimedelta().days


def test_make_going_away_stops_the_run(make_stack: MakeStack, notes: Path) -> None:
    stack = make_stack()
    launcher = stack.command[-1]
    make = (sys.executable, "-c", "import subprocess, sys; subprocess.call(sys.argv[1:])")
    stack.command = (*make, sys.executable, launcher)
    stack.extra = {"MAKELEVEL": "1"}
    with running(stack):
        stack.wait_until_ready()
        stack.stop(signal.SIGKILL)
        wait_until("everything is gone", lambda: stack.pids() == [])
        assert read_lines(notes) == IN_ORDER
