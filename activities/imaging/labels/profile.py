"""Which mark an image of a given size carries, and where: known for every size, kept as JSON."""

import base64
import binascii
import io
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from PIL import Image, UnidentifiedImageError
from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from activities.imaging.labels.mark import Floats, Mark
from activities.values import Model

MAX_TEMPLATE_SIDE = 4096
MAX_TEMPLATE_BYTES = 8 * 2**20
_TOO_LARGE = f"has a side of more than {MAX_TEMPLATE_SIDE} pixels"
_MAX_PROFILE_BYTES = 2 * MAX_TEMPLATE_BYTES


class Anchor(StrEnum):
    """The corner, side or centre of the image that a mark keeps its distance from."""

    TOP_LEFT = "top-left"
    TOP = "top"
    TOP_RIGHT = "top-right"
    LEFT = "left"
    CENTRE = "centre"
    RIGHT = "right"
    BOTTOM_LEFT = "bottom-left"
    BOTTOM = "bottom"
    BOTTOM_RIGHT = "bottom-right"

    @property
    def names_a_side(self) -> bool:
        """Whether the mark keeps to the left or to the right."""
        return "left" in self or "right" in self

    @property
    def names_an_end(self) -> bool:
        """Whether the mark keeps to the top or to the bottom."""
        return "top" in self or "bottom" in self


class Sizing(StrEnum):
    """What the lengths of a profile are counted in."""

    # Shares of the image's shorter side: the mark grows with the image.
    SHARE = "share"
    PIXELS = "pixels"


def _png_bytes(value: object) -> bytes:
    """Base64 where it comes from JSON; decodes the picture, so that a profile always has one."""
    if isinstance(value, str):
        try:
            value = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError("is not base64") from error
    if not isinstance(value, bytes):
        raise ValueError("must be the bytes of a PNG file")
    if not _template(value)[0].any():
        raise ValueError("is wholly transparent")
    return value


TemplateBytes = Annotated[
    bytes,
    BeforeValidator(_png_bytes),
    PlainSerializer(lambda png: base64.b64encode(png).decode("ascii"), return_type=str),
]


class LabelProfile(Model):
    """A mark for images of every size, and the rule by which it is placed.

    `height` is the mark's, its width follows from the template. `margin_x` and `margin_y` are
    distances from the sides that the anchor names, or from the centre where it names none. The
    mark's alpha is the template's times `opacity`. `made_from` is the size of the images that it
    was learnt from, where it was learnt.
    """

    name: str = Field(min_length=1, max_length=100)
    anchor: Anchor = Anchor.BOTTOM_RIGHT
    sizing: Sizing = Sizing.SHARE
    margin_x: float = Field(ge=-65_536, le=65_536, allow_inf_nan=False)
    margin_y: float = Field(ge=-65_536, le=65_536, allow_inf_nan=False)
    height: float = Field(gt=0, le=65_536, allow_inf_nan=False)
    min_height: int = Field(default=1, ge=1, le=1024)
    opacity: float = Field(gt=0, le=1, allow_inf_nan=False)
    made_from: tuple[int, int] | None = None
    template: TemplateBytes = Field(repr=False)

    @model_validator(mode="after")
    def _keeps_off_the_sides(self) -> "LabelProfile":
        """Only from the centre may a distance be negative: elsewhere it would leave the image."""
        for field, distance, is_from_a_side in (
            ("margin_x", self.margin_x, self.anchor.names_a_side),
            ("margin_y", self.margin_y, self.anchor.names_an_end),
        ):
            if distance < 0 and is_from_a_side:
                raise ValueError(f"{field} must not be negative with the anchor {self.anchor}")
        return self

    def mark_on(self, width: int, height: int) -> Mark:
        """The mark in its place on an image of this size: always inside, never empty.

        It is made smaller where it would not fit between its margins.
        """
        unit = float(min(width, height)) if self.sizing is Sizing.SHARE else 1.0
        margin_x, margin_y = self.margin_x * unit, self.margin_y * unit
        rows, columns = _template(self.template)[0].shape
        wanted = max(self.height * unit, float(self.min_height))
        scale = min(wanted / rows, _room(width, margin_x) / columns, _room(height, margin_y) / rows)
        mark_width, mark_height = max(1, round(columns * scale)), max(1, round(rows * scale))
        alpha, colour = _scaled(self.template, mark_width, mark_height)
        return Mark(
            left=_start(width, mark_width, margin_x, self._side("left", "right")),
            top=_start(height, mark_height, margin_y, self._side("top", "bottom")),
            alpha=alpha * np.float32(self.opacity),
            colour=colour,
        )

    def _side(self, first: str, last: str) -> float:
        """0 at the first side, 1 at the last one, 0.5 between them."""
        if first in self.anchor:
            return 0.0
        return 1.0 if last in self.anchor else 0.5

    @classmethod
    def read(cls, path: Path) -> "LabelProfile":
        """Raises `ValueError`, naming the file and the field, where it is no profile."""
        try:
            if path.stat().st_size > _MAX_PROFILE_BYTES:
                raise ValueError(f"{path} is no label profile: larger than any can be")
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise ValueError(f"{path} is no label profile: {_first_fault(error)}") from error

    def write(self, path: Path) -> None:
        """As JSON, for people to look at and for `read`."""
        path.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in fault["loc"])
    reason = fault["msg"].removeprefix("Value error, ")
    return f"{field}: {reason}" if field else reason


def _room(extent: int, margin: float) -> float:
    """What a mark may fill of the extent: half of it at least, however large the margin is."""
    return max(extent - 2 * abs(margin), extent / 2)


def _start(extent: int, size: int, margin: float, side: float) -> int:
    """Where a mark of `size` begins; the margin counts inwards from either end."""
    start = (extent - size) * side + (margin if side < 1 else -margin)
    return min(max(round(start), 0), extent - size)


@lru_cache(maxsize=8)
def _template(png: bytes) -> tuple[Floats, Floats]:
    """Its alpha (rows, columns) in 0…1 and its colour (rows, columns, 3) in 0…255."""
    if len(png) > MAX_TEMPLATE_BYTES:
        raise ValueError(f"is larger than {MAX_TEMPLATE_BYTES:,} bytes")
    try:
        with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
            if max(image.size) > MAX_TEMPLATE_SIDE:
                raise ValueError(_TOO_LARGE)
            pixels = np.asarray(image.convert("RGBA"), np.float32)
    except UnidentifiedImageError as error:
        raise ValueError("is not a PNG file") from error
    # Pillow's own limits, which are above ours, and looked at earlier.
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(_TOO_LARGE) from error
    # SyntaxError is Pillow's word for a bad checksum.
    except (OSError, SyntaxError) as error:
        raise ValueError("is a damaged PNG file") from error
    return pixels[..., 3] / np.float32(255), pixels[..., :3]


@lru_cache(maxsize=32)
def _scaled(png: bytes, width: int, height: int) -> tuple[Floats, Floats]:
    """The template in the size wanted, and read-only because it is shared.

    The colour is weighted by the alpha while it is scaled, so that what lies under wholly
    transparent pixels does not bleed into the edges.
    """
    alpha, colour = _template(png)
    if alpha.shape != (height, width):
        weighted = [_resized(alpha * colour[..., channel], width, height) for channel in range(3)]
        alpha = _resized(alpha, width, height)
        colour = _divided(np.stack(weighted, axis=-1), alpha)
    alpha, colour = _within(alpha, 1), _within(colour, 255)
    alpha.setflags(write=False)
    colour.setflags(write=False)
    return alpha, colour


def _divided(weighted: Floats, alpha: Floats) -> Floats:
    return np.asarray(weighted / np.maximum(alpha, 1e-6)[..., None], np.float32)


def _within(values: Floats, most: float) -> Floats:
    return np.clip(values, 0, most).astype(np.float32)


def _resized(plane: Floats, width: int, height: int) -> Floats:
    image = Image.fromarray(plane).resize((width, height), Image.Resampling.HAMMING)
    return np.asarray(image, np.float32)


def png_template(alpha: Floats, colour: Floats) -> bytes:
    """A template of this alpha (rows, columns) in 0…1 and colour (rows, columns, 3) in 0…255."""
    planes: Any = np.concatenate([colour, alpha[..., None] * 255], axis=-1)
    buffer = io.BytesIO()
    Image.fromarray(np.rint(np.clip(planes, 0, 255)).astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()
