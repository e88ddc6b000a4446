"""One attempt to tell an application: what is sent, and what each answer comes to."""

import base64
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from activities.artifacts import LocalArtifactStore
from activities.callbacks.book import CallbackBook
from activities.callbacks.rules import CallbackRules
from activities.callbacks.sending import USER_AGENT
from activities.callbacks.signing import new_secret
from activities.callbacks.tenant_files import Endpoint
from activities.errors import ErrorKind, WorkError
from tests.activities.callback_bench import BODY, bench_for
from tests.activities.receivers import answering, receiving

SOON = "Retry-After: 7"


@pytest.mark.parametrize("status", [200, 201, 202, 204, 226, 299])
async def test_message_is_delivered_by_any_answer_of_success(tmp_path: Path, status: int) -> None:
    async with receiving(answering(status, SOON)) as receiver:
        attempt = await bench_for(tmp_path, receiver.rules).send(receiver.url())
    assert (attempt.outcome, attempt.status_code) == ("delivered", status)
    assert (attempt.message, attempt.retry_after_seconds) == ("", None)
    assert len(receiver.requests) == 1


async def test_request_has_the_body_and_the_headers_of_a_webhook(tmp_path: Path) -> None:
    async with receiving(answering(204)) as receiver:
        attempt = await bench_for(tmp_path, receiver.rules).send(receiver.url("/a%20b/?c=d&e"))
    [request] = receiver.requests
    assert request.line == "POST /a%20b/?c=d&e HTTP/1.1"
    assert request.body == BODY.encode()
    assert request.headers.pop("webhook-signature").startswith("v1,")
    assert request.headers == {
        "host": receiver.authority,
        "content-type": "application/json",
        "content-length": str(len(BODY.encode())),
        "user-agent": USER_AGENT,
        "connection": "close",
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(attempt.at.timestamp())),
    }


async def test_signature_convinces_the_reference_library_and_only_with_the_secret(
    tmp_path: Path,
) -> None:
    async with receiving(answering(204)) as receiver:
        bench = bench_for(tmp_path, receiver.rules)
        await bench.send(receiver.url())
    [request], [secret] = receiver.requests, await bench.book.secrets("anne")
    told = Webhook(secret).verify(request.body, request.headers)
    assert told == {"type": "job.finished", "text": "Grüße"}
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(request.body, request.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(request.body + b" ", request.headers)


async def test_old_and_new_secret_both_sign_after_a_rotation(tmp_path: Path) -> None:
    async with receiving(answering(204)) as receiver:
        bench = bench_for(tmp_path, receiver.rules)
        [old] = await bench.book.secrets("anne")
        new = await bench.book.rotate("anne")
        await bench.send(receiver.url())
    [request] = receiver.requests
    assert old != new
    for secret in (old, new):
        Webhook(secret).verify(request.body, request.headers)
    assert len(request.headers["webhook-signature"].split(" ")) == 2


async def test_second_attempt_has_the_same_id_and_a_connection_of_its_own(tmp_path: Path) -> None:
    async with receiving(answering(500)) as receiver:
        bench = bench_for(tmp_path, receiver.rules)
        for _ in range(2):
            await bench.send(receiver.url(), "msg_2")
    assert {request.headers["webhook-id"] for request in receiver.requests} == {"msg_2"}
    assert (len(receiver.requests), receiver.connections) == (2, 2)


async def test_message_for_the_endpoint_goes_to_where_the_tenant_said_last(tmp_path: Path) -> None:
    async with receiving(answering(204)) as receiver:
        bench = bench_for(tmp_path, receiver.rules)
        for target in ("/old", "/new"):
            await bench.book.set_endpoint("anne", Endpoint(url=receiver.url(target)))
        await bench.book.set_endpoint("bob", Endpoint(url=receiver.url("/of-bob")))
        attempt = await bench.send(None)
    assert attempt.outcome == "delivered"
    assert [request.line for request in receiver.requests] == ["POST /new HTTP/1.1"]


async def test_message_for_an_endpoint_that_was_removed_has_nobody_to_go_to(
    tmp_path: Path,
) -> None:
    async with receiving(answering(204)) as receiver:
        bench = bench_for(tmp_path, receiver.rules)
        await bench.book.set_endpoint("anne", Endpoint(url=receiver.url()))
        await bench.book.remove_endpoint("anne")
        attempt = await bench.send(None)
    assert (attempt.outcome, attempt.message) == ("gone", "there is no endpoint any more")
    assert receiver.connections == 0


async def test_receiver_that_is_gone_wants_no_more(tmp_path: Path) -> None:
    async with receiving(answering(410, SOON)) as receiver:
        attempt = await bench_for(tmp_path, receiver.rules).send(receiver.url())
    assert (attempt.outcome, attempt.status_code) == ("gone", 410)
    assert attempt.retry_after_seconds is None
    assert "410" in attempt.message


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503, 999])
async def test_any_other_answer_is_a_failure_and_its_wish_for_patience_counts(
    tmp_path: Path, status: int
) -> None:
    async with receiving(answering(status, SOON)) as receiver:
        attempt = await bench_for(tmp_path, receiver.rules).send(receiver.url())
    assert (attempt.outcome, attempt.status_code) == ("failed", status)
    assert attempt.retry_after_seconds == 7
    assert attempt.message == f"the receiver answered {status}"


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
async def test_redirect_is_a_failure_and_not_followed(tmp_path: Path, status: int) -> None:
    async with (
        receiving(answering(204)) as other,
        receiving(answering(status, f"Location: {other.url()}")) as receiver,
    ):
        rules = CallbackRules.parse(private_hosts=f"{receiver.authority},{other.authority}")
        attempt = await bench_for(tmp_path, rules).send(receiver.url())
    assert (attempt.outcome, attempt.status_code) == ("failed", status)
    assert attempt.message == f"the receiver answered {status}, and redirects are not followed"
    assert (other.connections, len(receiver.requests)) == (0, 1)


@pytest.mark.parametrize(
    "url",
    ["", "http://127.0.0.1/x", "http://localhost/", "ftp://example.com/", "http://[::1]/", "\x00é"],
)
async def test_address_that_is_not_allowed_fails_in_words(tmp_path: Path, url: str) -> None:
    attempt = await bench_for(tmp_path, CallbackRules()).send(url)
    assert (attempt.outcome, attempt.status_code) == ("failed", None)
    assert attempt.message.startswith("the address is not allowed: it must ")
    assert "127" not in attempt.message


async def test_store_that_can_not_be_read_raises_and_nothing_is_sent(tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "config").write_text("no folder")
    async with receiving(answering(204)) as receiver:
        bench = bench_for(tmp_path, receiver.rules)
        for url in (None, receiver.url()):
            with pytest.raises(WorkError) as failure:
                await bench.send(url)
            assert failure.value.kind is ErrorKind.STORAGE
            assert str(tmp_path) not in failure.value.message
    assert receiver.connections == 0


async def test_no_secret_is_in_what_the_log_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with receiving(answering(500)) as receiver:
        bench = bench_for(tmp_path, receiver.rules)
        await bench.send(receiver.url())
    [secret] = await CallbackBook(LocalArtifactStore(tmp_path / "artifacts")).secrets("anne")
    raw = base64.b64decode(secret.removeprefix("whsec_"))
    assert caplog.records
    assert secret not in caplog.text
    assert repr(raw) not in caplog.text
    assert receiver.requests[0].headers["webhook-signature"] not in caplog.text
