"""What an error says can be sent and stored anywhere, whoever worded it."""

import pytest

from activities.errors import ErrorKind, InvalidParametersError, WorkError


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("the prompt is not allowed", "the prompt is not allowed"),
        ("größer als 😀", "größer als 😀"),
        ("", ""),
        ("a\nb\tc\x00d\x7fe\x9bf", "a b c d e f"),
        ("\x1b[31mred", " [31mred"),
        ("a\ud800b\udfffc", "a\ufffdb\ufffdc"),
        ("x" * 1000, "x" * 1000),
        ("x" * 1001, "x" * 999 + "…"),
    ],
)
def test_a_message_is_one_short_line_of_characters(said: str, told: str) -> None:
    error = WorkError(ErrorKind.CONTENT_REJECTED, said)
    assert (error.message, str(error)) == (told, told)
    assert InvalidParametersError(said).message == told
    assert error.message.encode()[:1] == told.encode()[:1]
