"""Signatures: verified by the reference library of Standard Webhooks."""

import base64
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from activities.callbacks.signing import key_of, new_secret, signed_headers

BODY = '{"text": "Grüße \\u0000 \U0001f310"}'


def secret_of(size: int) -> str:
    return "whsec_" + base64.b64encode(bytes(range(size))).decode()


def test_known_message_has_the_known_signature() -> None:
    # The example of the specification's own test suites.
    headers = signed_headers(
        [key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize("size", [24, 25, 32, 63, 64])
def test_reference_library_agrees_with_secrets_of_every_size(size: int) -> None:
    secret = secret_of(size)
    headers = signed_headers([key_of(secret)], "msg_1", int(time.time()), BODY.encode())
    assert Webhook(secret).verify(BODY, headers)["text"].startswith("Grüße")


def test_each_of_several_secrets_convinces_alone_and_no_other_does() -> None:
    secrets = [new_secret() for _ in range(3)]
    keys = [key_of(secret) for secret in secrets]
    headers = signed_headers(keys, "msg_1", int(time.time()), BODY.encode())
    for secret in secrets:
        Webhook(secret).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(BODY, headers)


@pytest.mark.parametrize("change", ["webhook-id", "webhook-timestamp"])
def test_signature_holds_for_one_id_and_one_time(change: str) -> None:
    secret, now = new_secret(), int(time.time())
    headers = signed_headers([key_of(secret)], "msg_1", now, BODY.encode())
    other = {"webhook-id": "msg_2", "webhook-timestamp": str(now + 1)}
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(BODY, {**headers, change: other[change]})


def test_new_secrets_are_256_bits_and_never_the_same() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert {len(key_of(secret)) for secret in secrets} == {32}


@pytest.mark.parametrize(
    "secret",
    [
        *("", "whsec_", secret_of(23), secret_of(65), "x" + secret_of(32), secret_of(32)[6:]),
        *("WHSEC_" + secret_of(32)[6:], secret_of(32) + "\n", secret_of(32)[:-1], "whsec_é"),
        *("whsec_" + "!" * 44, "whsec_" + "-_" * 22, secret_of(32).replace("A", "A ", 1)),
    ],
)
def test_text_that_is_no_secret_is_refused_without_being_repeated(secret: str) -> None:
    with pytest.raises(ValueError, match="a secret is whsec_ and 24 to 64 bytes") as refusal:
        key_of(secret)
    assert secret not in str(refusal.value) or secret in ("", "whsec_")
