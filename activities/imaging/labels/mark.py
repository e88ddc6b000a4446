"""A visible mark as it lies on one image."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True)
class Mark:
    """A mark in its place: what it does to the pixels of its box.

    A marked pixel is `(1 - alpha) * pixel + alpha * colour`, rounded, in the image's own 8-bit
    values. `alpha` is (height, width) in 0…1, opacity included; `colour` is (height, width, 3) in
    0…255; `left` and `top` are in pixels. The box lies inside the image.
    """

    left: int
    top: int
    alpha: Floats
    colour: Floats

    @property
    def width(self) -> int:
        """In pixels."""
        return int(self.alpha.shape[1])

    @property
    def height(self) -> int:
        """In pixels."""
        return int(self.alpha.shape[0])

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, right, bottom, as Pillow counts them."""
        return self.left, self.top, self.left + self.width, self.top + self.height

    def over(self, pixels: Floats) -> Floats:
        """The pixels of the box, (height, width, 3) in 0…255, with the mark on them; unrounded."""
        alpha = self.alpha[..., None]
        return (1 - alpha) * pixels + alpha * self.colour
