"""The socket that the API listens on."""

import socket

from api.__main__ import listen


def test_answers_on_a_kept_connection_do_not_wait_for_the_client() -> None:
    with listen("127.0.0.1", 0) as listener, socket.socket() as client:
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
