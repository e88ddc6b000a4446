"""`python -m api keys`: makes, lists and revokes API keys, beside whatever API processes run."""

import argparse
import asyncio
import logging
import sys
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from pydantic import TypeAdapter, ValidationError

from activities.artifacts import ArtifactStore
from activities.errors import WorkError
from api.keys import (
    MAX_NAME_LENGTH,
    add_key,
    is_key_id,
    list_key_files,
    read_key,
    revoke_key,
)
from workflows.messages import Tenant

_MAX_DAYS = 36_500
_COLUMNS = "{:<12}  {:<8}  {:<20}  {:<20}  {:<20}  {}\n"
_HEAD = ("id", "state", "created", "expires", "tenant", "name")


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe these commands to whoever parses a command line."""
    keys = commands.add_parser("keys", help="make, list and revoke API keys")
    parsers = keys.add_subparsers(dest="action", required=True, metavar="COMMAND")
    add = parsers.add_parser("add", help="make a key for a tenant; its text is shown this once")
    add.add_argument("tenant", type=_tenant, metavar="TENANT")
    add.add_argument("--name", type=_name, default="", help="what the key is for")
    add.add_argument("--expires-days", type=_days, metavar="N", help="good for so many days")
    parsers.add_parser("list", help="all keys, without their texts")
    revoke = parsers.add_parser("revoke", help="make a key count no more, within seconds")
    revoke.add_argument("key_id", type=_key_id, metavar="KEY_ID")


def run(asked: argparse.Namespace, store: ArtifactStore) -> int:
    """Do what was asked; returns the exit code."""
    logging.basicConfig(level="WARNING", format="api: %(message)s")
    try:
        return asyncio.run(_run(asked, store))
    except WorkError as error:
        sys.stderr.write(f"api: {error.message}\n")
        return 1


async def _run(asked: argparse.Namespace, store: ArtifactStore) -> int:
    if asked.action == "add":
        return await _add(store, asked.tenant, asked.name, asked.expires_days)
    if asked.action == "revoke":
        return await _revoke(store, asked.key_id)
    return await _list(store)


async def _add(store: ArtifactStore, tenant: str, name: str, days: int | None) -> int:
    key, text = await add_key(store, tenant, name, timedelta(days=days) if days else None)
    # The key alone goes where a script can take it from.
    sys.stdout.write(f"{text}\n")
    until = f"until {_shown(key.expires_at)}" if key.expires_at else "until it is revoked"
    sys.stderr.write(
        f"Key {key.id} of tenant {tenant}, good {until}. It is shown this once, and can't be told "
        "again.\n"
    )
    return 0


async def _revoke(store: ArtifactStore, key_id: str) -> int:
    if not await revoke_key(store, key_id):
        sys.stderr.write(f"api: there is no key {key_id}\n")
        return 1
    sys.stdout.write(f"Key {key_id} is revoked.\n")
    return 0


async def _list(store: ArtifactStore) -> int:
    files, rows = await list_key_files(store), []
    for key_id in files.ids:
        key = await read_key(store, key_id)
        is_revoked = key_id in files.revoked
        if key is None:
            rows.append(("", key_id, "revoked" if is_revoked else "damaged", "", "", "", ""))
            continue
        is_over = key.has_expired(datetime.now(UTC))
        state = "revoked" if is_revoked else "expired" if is_over else "active"
        times = (_shown(key.created_at), _shown(key.expires_at))
        # A file may have been written by hand, and a terminal obeys what it is shown.
        name = "".join(c if c.isprintable() else "?" for c in key.name)
        rows.append((str(key.created_at), key_id, state, *times, key.tenant, name))
    sys.stdout.write(_COLUMNS.format(*_HEAD))
    for _, *row in sorted(rows):
        sys.stdout.write(_COLUMNS.format(*row).rstrip() + "\n")
    return 0


def _shown(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ") if at else "never"


def _tenant(text: str) -> str:
    try:
        return TypeAdapter[str](Tenant).validate_python(text)
    except ValidationError:
        _refuse("must be 1 to 64 letters, digits and _ . @ : - and begin with a letter or a digit")


def _name(text: str) -> str:
    if len(text) > MAX_NAME_LENGTH or not text.isprintable():
        _refuse(f"must be at most {MAX_NAME_LENGTH} printable characters")
    return text


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 1 <= int(text) <= _MAX_DAYS):
        _refuse(f"must be a whole number of days, 1 to {_MAX_DAYS}")
    return int(text)


def _key_id(text: str) -> str:
    # Whoever gives the whole key here had better not see it again in a log.
    if not is_key_id(text):
        _refuse("must be the id of a key, 12 characters of 0-9 and a-f, as `keys list` shows it")
    return text


def _refuse(why: str) -> NoReturn:
    raise argparse.ArgumentTypeError(why)
