"""Telling a record of generation parameters from any other comment."""

import re

# The last line of AUTOMATIC1111's format, and how ComfyUI's graphs begin inside EXIF.
_SETTINGS = re.compile(r"(?:^|\n)Steps: \d{1,9}, [^\n]*\bSeed: \d")
_GRAPH = re.compile(r"\s*(?:prompt|workflow):\s*\{")


def is_parameters(text: str) -> bool:
    """Whether a tool recorded there what the picture was made from."""
    return bool(_SETTINGS.search(text) or _GRAPH.match(text))
