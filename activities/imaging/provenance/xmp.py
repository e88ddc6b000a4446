"""XMP packets (ISO 16684-1): our properties in and out, everybody else's kept."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, Self

from activities.imaging.provenance.errors import DamagedMetadataError, UnreadableXmpError
from activities.imaging.provenance.files import MAX_XMP_BYTES
from activities.imaging.provenance.wording import Mentions
from activities.imaging.provenance.xml import Element, Scope, parse_xml, resolved

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_META = "adobe:ns:meta/"
_NOTE = "http://ns.adobe.com/xmp/note/"
_XML = "http://www.w3.org/XML/1998/namespace"
_XMLNS = "http://www.w3.org/2000/xmlns/"
_IMPLIED: Scope = {"xml": _XML, "xmlns": _XMLNS}
_BEGIN = '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
_END = '<?xpacket end="w"?>'


class Property(NamedTuple):
    """The expanded name of a property."""

    namespace: str
    name: str


DIGITAL_SOURCE_TYPE = Property("http://iptc.org/std/Iptc4xmpExt/2008-02-29/", "DigitalSourceType")
# TC260-PG-20258A, the practice guide to GB 45438-2025.
IMPLICIT_LABEL = Property("http://www.tc260.org.cn/ns/AIGC/1.0/", "AIGC")
CREATOR_TOOL = Property("http://ns.adobe.com/xap/1.0/", "CreatorTool")
PARAMETERS = Property("urn:darkroom:provenance:1/", "Parameters")
_EXTENSION = Property(_NOTE, "HasExtendedXMP")
# What every reader must find.
_CORE = frozenset({DIGITAL_SOURCE_TYPE, IMPLICIT_LABEL, CREATOR_TOOL})
_PREFIXES: Mapping[str, str] = MappingProxyType(
    {
        DIGITAL_SOURCE_TYPE.namespace: "Iptc4xmpExt",
        IMPLICIT_LABEL.namespace: "TC260",
        CREATOR_TOOL.namespace: "xmp",
        PARAMETERS.namespace: "darkroom",
        _NOTE: "xmpNote",
    }
)


class Xmp:
    """The properties of one picture, as a tree that is changed in place."""

    def __init__(self, root: Element) -> None:
        self._root = root
        self._rdf, self._scope = _find_rdf(root)

    @classmethod
    def empty(cls) -> Self:
        rdf = Element("rdf:RDF", {"xmlns:rdf": _RDF})
        return cls(Element("x:xmpmeta", {"xmlns:x": _META, "x:xmptk": "Darkroom"}, [rdf]))

    @classmethod
    def from_packets(cls, packets: tuple[bytes, ...]) -> Self:
        """Of the packet and its extension, put together. Raises `UnreadableXmpError`, or
        `DamagedMetadataError` where it is too large to look at."""
        if not packets:
            return cls.empty()
        xmp, *extensions = (cls(_parsed(packet)) for packet in packets)
        for extension in extensions:
            for description, scope in extension._descriptions():
                xmp._append(description.attributes, description.children, scope)
        xmp._remove({_EXTENSION})
        return xmp

    def _descriptions(self) -> Iterator[tuple[Element, Scope]]:
        for element in self._rdf.elements:
            scope = element.scope(self._scope)
            if resolved(element.name, scope) == (_RDF, "Description"):
                yield element, scope

    def get(self, wanted: Property) -> str | None:
        """The value of a simple property, in any of the three ways to write one."""
        for description, scope in self._descriptions():
            for name, value in description.attributes.items():
                if resolved(name, scope, is_attribute=True) == wanted:
                    return value
            for element in description.elements:
                inner = element.scope(scope)
                if resolved(element.name, inner) == wanted:
                    return _simple_value(element, inner)
        return None

    def put(self, values: Mapping[Property, str | None]) -> None:
        """Write these and remove those which are None."""
        self._remove(set(values))
        written = {key: value for key, value in values.items() if value is not None}
        if not written:
            return
        scope = {_PREFIXES[key.namespace]: key.namespace for key in written}
        elements: list[Element | str] = [
            Element(f"{_PREFIXES[key.namespace]}:{key.name}", {}, [value])
            for key, value in written.items()
        ]
        self._append({}, elements, scope)

    def without_mentions(self, mentions: Mentions) -> "Xmp":
        """Without any property of which that is true; empty where it stands beside those."""
        for description, scope in list(self._descriptions()):
            gone = [one for one in description.elements if any(map(mentions, one.texts()))]
            description.attributes = {
                name: value
                for name, value in description.attributes.items()
                if _is_declaration(name) or not mentions(value)
            }
            self._take_out(description, gone, scope)
        return Xmp.empty() if any(map(mentions, self._root.texts())) else self

    def _append(
        self, attributes: Mapping[str, str], content: list[Element | str], scope: Scope
    ) -> None:
        """A description at the end that needs none of the namespaces around it."""
        own = {
            name: value
            for name, value in attributes.items()
            if not _is_declaration(name) and not _is_about(name, scope)
        }
        within = (child.names() for child in content if isinstance(child, Element))
        used = {name.rpartition(":")[0] for name in chain(own, *within)}
        declared = {
            f"xmlns:{prefix}" if prefix else "xmlns": scope[prefix]
            for prefix in sorted((used & set(scope)) - set(_IMPLIED) - {"rdf"})
        }
        head = {"xmlns:rdf": _RDF, "rdf:about": self._about, **declared, **own}
        self._rdf.children.append(Element("rdf:Description", head, content))

    @property
    def _about(self) -> str:
        """What all descriptions are about; it must be the same for all."""
        for description, scope in self._descriptions():
            for name, value in description.attributes.items():
                if _is_about(name, scope):
                    return value
        return ""

    def _remove(self, properties: set[Property]) -> None:
        for description, scope in list(self._descriptions()):
            gone = [
                child
                for child in description.elements
                if resolved(child.name, child.scope(scope)) in properties
            ]
            kept = {
                name: value
                for name, value in description.attributes.items()
                if resolved(name, scope, is_attribute=True) not in properties
            }
            if gone or kept != description.attributes:
                description.attributes = kept
                self._take_out(description, gone, scope)

    def _take_out(self, description: Element, gone: list[Element], scope: Scope) -> None:
        """Elements of a description, and the description with them if it then says nothing."""
        # By identity: what is equal to it elsewhere stays.
        out = {id(child) for child in gone}
        description.children = [c for c in description.children if id(c) not in out]
        names = description.attributes
        says_more = any(not _is_declaration(n) and not _is_about(n, scope) for n in names)
        if not description.elements and not says_more:
            self._rdf.children = [c for c in self._rdf.children if c is not description]

    def to_packets(self, limit: int | None) -> tuple[bytes, ...]:
        """One packet, or one within the limit and its extension; `DamagedMetadataError` where
        even that doesn't do."""
        packet = self._to_packet()
        if len(packet) > MAX_XMP_BYTES:
            raise DamagedMetadataError("The file's XMP packet is too large.")
        if limit is None or len(packet) <= limit:
            return (packet,)
        return self._split(limit)

    def _to_packet(self) -> bytes:
        return f"{_BEGIN}{self._root.to_xml()}{_END}".encode()

    def _split(self, limit: int) -> tuple[bytes, ...]:
        """The parameters move to the extension, and only where that isn't enough everything else
        that can: what stays is found by readers that know of no extensions.

        By kind and never by size, so that the same properties go whichever packet they were in.
        """
        for is_moved in (PARAMETERS.__eq__, lambda name: name not in _CORE):
            packets = self._moved(is_moved)
            if len(packets[0]) <= limit and len(packets[1]) <= MAX_XMP_BYTES:
                return packets
        raise DamagedMetadataError("The file's XMP packet is too large for a JPEG file.")

    def _moved(self, is_moved: Callable[[object], bool]) -> tuple[bytes, bytes]:
        """Works on a copy, so that this one stays whole."""
        main, extension = Xmp(_parsed(self._to_packet())), Xmp.empty()
        for description, scope in list(main._descriptions()):
            gone = [
                child
                for child in description.elements
                if is_moved(resolved(child.name, child.scope(scope)))
            ]
            if gone:
                main._take_out(description, gone, scope)
                extension._append({}, [*gone], scope)
        body = extension._root.to_xml().encode()
        # The name of an extension is its MD5, by the specification.
        name = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
        main.put({_EXTENSION: name})
        return main._to_packet(), body


def _find_rdf(root: Element) -> tuple[Element, Scope]:
    """The element that has all descriptions, and the namespaces in it."""
    outer = root.scope(_IMPLIED)
    for element in (root, *root.elements):
        scope = element.scope(outer)
        if resolved(element.name, scope) == (_RDF, "RDF"):
            return element, scope
    raise UnreadableXmpError("The file's XMP packet has no RDF.")


def _parsed(packet: bytes) -> Element:
    if len(packet) > MAX_XMP_BYTES:
        raise DamagedMetadataError("The file's XMP packet is too large.")
    # Some writers end it like a C string.
    return parse_xml(packet.rstrip(b"\0"))


def _is_declaration(name: str) -> bool:
    return name == "xmlns" or name.startswith("xmlns:")


def _is_about(name: str, scope: Scope) -> bool:
    return resolved(name, scope, is_attribute=True) == (_RDF, "about")


def _simple_value(element: Element, scope: Scope) -> str | None:
    for name, value in element.attributes.items():
        if resolved(name, scope, is_attribute=True) == (_RDF, "resource"):
            return value
    return None if element.elements else element.text
