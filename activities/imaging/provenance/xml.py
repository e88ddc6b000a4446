"""A small XML tree that keeps names as they were written: no DTD, no entities, bounded size."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias
from xml.parsers import expat

from activities.imaging.provenance.errors import DamagedMetadataError, UnreadableXmpError

_MAX_DEPTH, _MAX_ELEMENTS = 50, 20_000
_DAMAGED = "The file's XMP packet is damaged."
Scope: TypeAlias = dict[str, str]


@dataclass
class Element:
    """`name` and the keys of `attributes` have the document's own prefixes."""

    name: str
    attributes: dict[str, str]
    children: list["Element | str"] = field(default_factory=list)

    @property
    def elements(self) -> list["Element"]:
        return [child for child in self.children if isinstance(child, Element)]

    @property
    def text(self) -> str:
        return "".join(child for child in self.children if isinstance(child, str))

    def scope(self, outer: Scope) -> Scope:
        """The namespaces by prefix that hold in here."""
        own = {
            name.partition(":")[2]: uri
            for name, uri in self.attributes.items()
            if name == "xmlns" or name.startswith("xmlns:")
        }
        return {**outer, **own}

    def names(self) -> Iterator[str]:
        """Every name that is used in here."""
        yield self.name
        yield from self.attributes
        for child in self.elements:
            yield from child.names()

    def texts(self) -> Iterator[str]:
        """Everything that anybody can read in here but the names."""
        yield self.text
        yield from self.attributes.values()
        for child in self.elements:
            yield from child.texts()

    def to_xml(self) -> str:
        attributes = "".join(f' {n}="{_quoted(value)}"' for n, value in self.attributes.items())
        content = "".join(
            child.to_xml() if isinstance(child, Element) else _escaped(child)
            for child in self.children
        )
        if not content:
            return f"<{self.name}{attributes}/>"
        return f"<{self.name}{attributes}>{content}</{self.name}>"


def resolved(name: str, scope: Scope, *, is_attribute: bool = False) -> tuple[str, str]:
    """Namespace and local name; an attribute without a prefix has no namespace."""
    prefix, colon, local = name.rpartition(":")
    if is_attribute and not colon:
        return "", local
    return scope.get(prefix, ""), local


def parse_xml(document: bytes) -> Element:
    """The root element; comments and instructions are left out.

    Raises `UnreadableXmpError`, or `DamagedMetadataError` where it is too large to look at.
    """
    builder = _Builder()
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = builder.refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.add_text
    try:
        parser.Parse(document, True)
    except expat.ExpatError as error:
        raise UnreadableXmpError(_DAMAGED) from error
    return builder.root


class _Builder:
    """Grows the tree as the parser calls."""

    def __init__(self) -> None:
        self._document = Element("", {})
        self._open = [self._document]
        self._elements = 0

    @property
    def root(self) -> Element:
        return self._document.elements[0]

    def refuse(self, *_: object) -> None:
        """Entities are declared in a DTD: without one there are neither bombs nor outside reads."""
        raise UnreadableXmpError("The file's XMP packet has a DTD, which is not allowed.")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > _MAX_ELEMENTS or len(self._open) > _MAX_DEPTH:
            raise DamagedMetadataError("The file's XMP packet is too large.")
        element = Element(name, attributes)
        self._open[-1].children.append(element)
        self._open.append(element)

    def end(self, _: str) -> None:
        self._open.pop()

    def add_text(self, text: str) -> None:
        self._open[-1].children.append(text)


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\r", "&#13;")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")
