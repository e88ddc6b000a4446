"""Finding words that must not stand in a file, however an engine wrote them there."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

Mentions: TypeAlias = Callable[[str], bool]

_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[a-z0-9]")


def mentions_of(texts: Iterable[str]) -> Mentions:
    """Tells whether one of these texts stands in another, on its own or inside of JSON.

    Case and white space don't matter. Blank texts stand nowhere. The letters "cat" do not stand in
    "location", so that a prompt of one word takes nothing away that has nothing to do with it.
    """
    forms = {form for text in texts if text.strip() for form in _forms(text)}
    if not forms:
        return lambda _: False
    pattern = re.compile("|".join(map(_bounded, sorted(forms))))
    return lambda text: pattern.search(_plain(text)) is not None


def read_every_way(data: bytes) -> tuple[str, ...]:
    """Bytes of which nobody knows the encoding, as each of the usual ones reads them."""
    odd = data[1:]
    return (
        data.decode("utf-8", "replace"),
        data.decode("latin-1"),
        *(
            part.decode(code, "replace")
            for part in (data, odd)
            for code in ("utf-16-le", "utf-16-be")
        ),
    )


def _forms(text: str) -> Iterator[str]:
    for written in _as_written(text.strip()):
        yield _plain(written)
        for is_ascii in (True, False):
            once = json.dumps(written, ensure_ascii=is_ascii)[1:-1]
            yield _plain(once)
            # A graph inside of JSON is often a string itself.
            yield _plain(json.dumps(once, ensure_ascii=is_ascii)[1:-1])


def _as_written(text: str) -> Iterator[str]:
    """As it is, and as old encodings write it, which tell of some characters only."""
    yield text
    for code in ("ascii", "latin-1"):
        for errors in ("replace", "ignore"):
            left = text.encode(code, errors).decode(code).strip()
            # Of nothing but question marks, it tells nothing.
            if any(map(str.isalnum, left)):
                yield left


def _plain(text: str) -> str:
    return _SPACE.sub(" ", text).casefold()


def _bounded(form: str) -> str:
    before = r"(?<![a-z0-9])" if _WORD.match(form[0]) else ""
    after = r"(?![a-z0-9])" if _WORD.match(form[-1]) else ""
    return before + re.escape(form) + after
