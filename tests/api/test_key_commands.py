"""The command line of `python -m api`: what it refuses, and how it is told."""

import pytest

from api.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("add",), "TENANT"),
        (("add", "a b"), "TENANT"),
        (("add", "../etc"), "TENANT"),
        (("add", ""), "TENANT"),
        (("add", "a" * 65), "TENANT"),
        (("add", "anne", "--name", "a\x1b[31m"), "--name"),
        (("add", "anne", "--name", "x" * 101), "--name"),
        (("add", "anne", "--expires-days", "0"), "--expires-days"),
        (("add", "anne", "--expires-days", "-1"), "--expires-days"),
        (("add", "anne", "--expires-days", "1e3"), "--expires-days"),
        (("add", "anne", "--expires-days", "9" * 5000), "--expires-days"),
        (("revoke", "../../x"), "KEY_ID"),
        (("remove",), "COMMAND"),
        ((), "COMMAND"),
    ],
)
def test_unusable_argument_is_named(
    arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["keys", *arguments])
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert named in told.err.splitlines()[-1]
    assert told.out == ""


def test_whole_key_given_for_its_id_is_not_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    key = f"dk_{'0' * 12}_{'1' * 64}"
    with pytest.raises(SystemExit):
        main(["keys", "revoke", key])
    assert key not in capsys.readouterr().err


def test_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve"])
    assert ended.value.code == 2
    assert "serve" in capsys.readouterr().err
