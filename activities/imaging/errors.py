"""What is wrong with an image, in words for its owner."""


class UnfitImageError(Exception):
    """An image of a kind whose label can be neither drawn nor removed; the message names it."""
