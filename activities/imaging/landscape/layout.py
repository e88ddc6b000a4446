"""Which layers of land a scene has, from the farthest to the nearest."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from activities.imaging.landscape.frame import Frame, mixed
from activities.imaging.landscape.land import (
    Ridge,
    Trees,
    dune_crest,
    hill_crest,
    mountain_crest,
    sides_of,
    skyline_crest,
)
from activities.imaging.landscape.noise import F32
from activities.imaging.landscape.recipe import Colour, Recipe

Layer = Ridge | Trees
_Crest = Callable[[int, F32, float, float, float], F32]

# What the near land is made of in daylight.
_SOIL: dict[str, Colour] = {
    "sea": (0.20, 0.34, 0.36),
    "forest": (0.10, 0.24, 0.17),
    "desert": (0.86, 0.54, 0.27),
    "snow": (0.80, 0.86, 0.94),
    "city": (0.19, 0.23, 0.32),
    "spring": (0.40, 0.52, 0.26),
    "mountain": (0.18, 0.30, 0.22),
    "meadow": (0.36, 0.52, 0.18),
}
_ROCK: Colour = (0.27, 0.32, 0.42)
_BLOSSOM: Colour = (0.95, 0.66, 0.74)
# How much daylight's own colours show in each light.
_DAYLIGHT = {"day": 0.85, "dawn": 0.55, "sunset": 0.45, "night": 0.12}


@dataclass(frozen=True)
class _Shape:
    """The form of a ridge: how its crest is drawn, the height of its foot, its own height, and
    how near it is to the viewer, in 0..1."""

    crest: _Crest
    base: float
    tall: float
    nearness: float


class Layout:
    """Lays out the land of one recipe in one frame."""

    def __init__(self, recipe: Recipe, frame: Frame) -> None:
        self._recipe = recipe
        self._frame = frame
        self._dice = recipe.dice
        self._xs = frame.xs
        self._horizon = recipe.horizon * frame.high
        # A very wide or tall frame still gets land of a natural shape.
        self._scale = min(frame.high, 1.25)
        self._mist = (1.6 - 1.2 * recipe.vividness) * (1.7 if "mist" in recipe.traits else 1.0)

    def far(self) -> Iterator[Layer]:
        """What stands on the horizon, and is mirrored where there is water."""
        base = self._horizon + (0.004 if self._recipe.has_water else 0.06 * self._scale)
        yield from self._mountains(base)
        if self._recipe.ground == "city":
            yield from self._skylines(base)
        elif self._recipe.has_water:
            yield from self._shore(base)

    def near(self) -> Iterator[Layer]:
        """What lies in front: the ground up to the viewer, or a bank of the water."""
        if self._recipe.has_water:
            yield from self._bank()
        else:
            yield from self._ground()

    def _mountains(self, base: float) -> Iterator[Layer]:
        ground = self._recipe.ground
        count = {"desert": 2, "city": 2, "sea": 2}.get(ground, 3)
        tall = {"mountain": 0.44, "snow": 0.36, "city": 0.18, "desert": 0.17, "sea": 0.17}
        for index in range(count):
            nearness = 0.1 + 0.5 * index / count
            height = tall.get(ground, 0.28) * self._scale * (1.0 - 0.2 * index)
            crest: _Crest = dune_crest if ground == "desert" and index else mountain_crest
            shape = _Shape(crest, base, height, nearness)
            yield self._ridge(f"mountain {index}", shape, relief=0.26)

    def _skylines(self, base: float) -> Iterator[Layer]:
        for index, nearness in enumerate((0.35, 0.6, 0.9)):
            tall = (0.34 - 0.07 * index) * self._scale
            name = f"skyline {index}"
            windows = self._dice.word(name) if self._recipe.light != "day" and index else None
            shape = _Shape(skyline_crest, base, tall, nearness)
            yield self._ridge(name, shape, relief=0.0, windows=windows)

    def _shore(self, base: float) -> Iterator[Layer]:
        if self._recipe.ground == "sea":
            return
        shape = _Shape(hill_crest, base, 0.045 * self._scale, 0.72)
        shore = self._ridge("shore", shape, relief=0.1)
        yield shore
        if self._recipe.ground in ("forest", "spring", "mountain", "snow"):
            yield from self._trees("shore", shore, 0.62, 0.05)

    def _ground(self) -> Iterator[Layer]:
        ground = self._recipe.ground
        crest: _Crest = dune_crest if ground == "desert" else hill_crest
        for index in range(4):
            t = index / 3
            base = self._horizon + (self._frame.high - self._horizon) * (0.16 + 0.72 * t)
            tall = (0.13 + 0.03 * index) * self._scale
            shape = _Shape(crest, base, tall, 0.5 + 0.5 * t)
            ridge = self._ridge(f"ground {index}", shape, relief=0.05)
            yield ridge
            if ground in ("forest", "spring", "snow", "mountain"):
                size = 0.06 + (0.07 if ground == "spring" else 0.13) * t * t
                yield from self._trees(f"ground {index}", ridge, 0.45 + 0.55 * t, size)

    def _bank(self) -> Iterator[Layer]:
        if not self._dice.chance("bank", 0.75):
            return
        shape = _Shape(hill_crest, self._frame.high * 1.01, 0.14 * self._scale, 1.0)
        bank = self._ridge("bank", shape, relief=0.1)
        yield bank
        if self._recipe.ground in ("forest", "spring", "mountain", "snow"):
            size = 0.14 if self._recipe.ground == "spring" else 0.2
            yield from self._trees("bank", bank, 1.0, size)

    def _ridge(
        self, name: str, shape: _Shape, *, relief: float, windows: int | None = None
    ) -> Ridge:
        roughness = self._dice.between(f"{name} roughness", 0.8, 1.3)
        crest = shape.crest(self._dice.word(name), self._xs, shape.base, shape.tall, roughness)
        return Ridge(
            crest=crest,
            colour=self._aired(self._land_colour(shape.crest), shape.nearness),
            haze=self._haze(shape.nearness),
            # The mist thickens towards the foot, and most of all far away.
            mist=self._mist * (1.2 - 1.0 * shape.nearness) / (shape.tall + 0.05),
            relief=relief,
            sides=sides_of(self._frame, crest, self._recipe.sun_x > 0.5),
            snow=self._snow(shape.nearness) if shape.crest is mountain_crest else None,
            snow_line=shape.tall * (0.5 if self._recipe.ground == "snow" else 0.16),
            windows=windows,
        )

    def _trees(self, name: str, ridge: Ridge, nearness: float, tall: float) -> Iterator[Trees]:
        is_round = self._recipe.ground == "spring"
        base = _BLOSSOM if is_round else mixed(_SOIL["forest"], self._recipe.palette.land, 0.4)
        # Blossom shines by itself; needles take the light that there is.
        tint = mixed(self._lit(base), base, 0.0 if not is_round or self._recipe.is_night else 0.7)
        leaf = self._aired(tint, nearness)
        # The row behind is a shade deeper; blossom would turn brown with the green of the ground.
        back = mixed(leaf, (0.62, 0.34, 0.55), 0.5) if is_round else ridge.colour
        dense = {"forest": 0.36, "spring": 0.62}.get(self._recipe.ground, 0.8)
        for row in range(2):
            yield Trees(
                salt=self._dice.word(f"{name} trees {row}"),
                crest=ridge.crest + 0.006 * (row + 1),
                colour=mixed(leaf, back, 0.5 - 0.5 * row),
                spacing=tall * dense * (1.0 + 0.3 * row),
                tallest=tall * self._scale * (1.0 - 0.2 * row),
                is_round=is_round,
            )

    def _land_colour(self, crest: _Crest) -> Colour:
        return self._lit(_ROCK if crest is mountain_crest else _SOIL[self._recipe.ground])

    def _lit(self, colour: Colour) -> Colour:
        daylight = _DAYLIGHT[self._recipe.light]
        # Sand is bright, and stays warm when little light is left.
        if self._recipe.ground == "desert":
            daylight += 0.6 * (0.9 - daylight)
        return mixed(self._recipe.palette.land, colour, daylight)

    def _aired(self, colour: Colour, nearness: float) -> Colour:
        """The farther it is, the more of the air's colour it has."""
        return mixed(self._air(), colour, 0.15 + 0.85 * nearness)

    def _air(self) -> Colour:
        return mixed(self._recipe.palette.horizon, self._recipe.palette.middle, 0.5)

    def _haze(self, nearness: float) -> Colour:
        return mixed(self._recipe.palette.horizon, self._air(), nearness)

    def _snow(self, nearness: float) -> Colour | None:
        if self._recipe.ground not in ("snow", "mountain") and "snow" not in self._recipe.traits:
            return None
        white = mixed((0.97, 0.98, 1.0), self._recipe.palette.light, 0.4)
        dim = 0.55 if self._recipe.is_night else 0.95
        return mixed(self._air(), mixed((0.0, 0.0, 0.0), white, dim), 0.35 + 0.6 * nearness)
