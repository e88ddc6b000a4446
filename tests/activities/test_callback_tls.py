"""TLS: who may receive a message is whoever has a certificate for the name, and nobody else."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from activities.callbacks.models import CallbackAttempt
from activities.callbacks.sending import CallbackSender, SendLimits
from tests.activities.callback_bench import Bench, FakeResolver
from tests.activities.receivers import Behaviour, answering, receiving, resetting, saying, silent

NAME = "receiver.test"
LONG = SendLimits(connect_seconds=30, exchange_seconds=60)


def certified(names: list[str], folder: Path, *, days: int = 10) -> tuple[ssl.SSLContext, Path]:
    """The side of a server for these names or addresses, and the file of whom it trusts itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receiver")])
    now = datetime.now(UTC)
    alternatives = x509.SubjectAlternativeName(
        [
            x509.IPAddress(ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
            for name in names
        ]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=20))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(alternatives, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, key_pem = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem, key_pem)
    return server, pem


def trusting(certificate: Path | None) -> ssl.SSLContext:
    """The side of a client that trusts this one; without one, nobody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if certificate:
        context.load_verify_locations(certificate)
    return context


async def attempt_with(
    tmp_path: Path,
    server: ssl.SSLContext | None,
    client: ssl.SSLContext,
    *,
    name: str = NAME,
) -> CallbackAttempt:
    """An attempt over TLS; no message may have arrived unless it was delivered."""
    async with receiving(answering(204), tls=server, name=name) as receiver:
        resolver = FakeResolver(["127.0.0.1"])
        sender = CallbackSender(receiver.rules, resolver=resolver, tls=client, limits=LONG)
        attempt = await Bench(tmp_path, receiver.rules, sender).send(
            f"https://{receiver.authority}/hook"
        )
    assert len(receiver.requests) == (attempt.outcome == "delivered")
    return attempt


@pytest.mark.parametrize("name", [NAME, "127.0.0.1"])
async def test_receiver_with_a_trusted_certificate_for_its_name_gets_the_message(
    tmp_path: Path, name: str
) -> None:
    server, certificate = certified([name], tmp_path)
    attempt = await attempt_with(tmp_path, server, trusting(certificate), name=name)
    assert (attempt.outcome, attempt.status_code) == ("delivered", 204)


async def test_server_is_told_the_name_and_not_the_address(tmp_path: Path) -> None:
    server, certificate = certified([NAME], tmp_path)
    names: list[str | None] = []
    server.sni_callback = lambda _, name, __: names.append(name)
    await attempt_with(tmp_path, server, trusting(certificate))
    assert names == [NAME]


@pytest.mark.parametrize(
    ("names", "days", "is_trusted", "reason"),
    [
        (["other.test"], 10, True, "Hostname mismatch"),
        (["127.0.0.1"], 10, True, "Hostname mismatch"),
        ([NAME], -10, True, "certificate has expired"),
        ([NAME], 10, False, "self-signed certificate"),
    ],
)
async def test_receiver_with_a_bad_certificate_gets_nothing_and_the_tenant_is_told_why(
    tmp_path: Path, names: list[str], days: int, is_trusted: bool, reason: str
) -> None:
    server, certificate = certified(names, tmp_path, days=days)
    client = trusting(certificate if is_trusted else None)
    attempt = await attempt_with(tmp_path, server, client)
    assert (attempt.outcome, attempt.status_code) == ("failed", None)
    assert attempt.message.startswith(f"the certificate of the host is not trusted: {reason}")
    assert "127.0.0.1" not in attempt.message


async def test_usual_sender_trusts_no_certificate_of_our_own(tmp_path: Path) -> None:
    server, _ = certified([NAME], tmp_path)
    async with receiving(answering(204), tls=server, name=NAME) as receiver:
        sender = CallbackSender(receiver.rules, resolver=FakeResolver(["127.0.0.1"]))
        bench = Bench(tmp_path, receiver.rules, sender)
        attempt = await bench.send(f"https://{receiver.authority}/")
    assert attempt.message.startswith("the certificate of the host is not trusted")
    assert receiver.requests == []


async def attempt_without_tls(
    tmp_path: Path, behave: Behaviour, limits: SendLimits
) -> CallbackAttempt:
    async with receiving(behave, is_reading=False) as receiver:
        sender = CallbackSender(receiver.rules, tls=trusting(None), limits=limits)
        bench = Bench(tmp_path, receiver.rules, sender)
        return await bench.send(f"https://{receiver.authority}/hook")


@pytest.mark.parametrize(
    "behave",
    [saying(b"no TLS at all"), saying(b""), resetting],
    ids=["other words", "nothing", "reset"],
)
async def test_receiver_that_speaks_no_tls_gets_nothing_where_it_was_asked_for(
    tmp_path: Path, behave: Behaviour
) -> None:
    attempt = await attempt_without_tls(tmp_path, behave, LONG)
    assert attempt.outcome == "failed"
    assert attempt.message == "no TLS connection could be agreed on with the host"


async def test_handshake_that_does_not_end_is_given_up_at_the_limit(tmp_path: Path) -> None:
    limits = SendLimits(connect_seconds=1, exchange_seconds=60)
    attempt = await attempt_without_tls(tmp_path, silent, limits)
    assert attempt.outcome == "failed"
    assert attempt.message == "the host did not finish the TLS handshake"
