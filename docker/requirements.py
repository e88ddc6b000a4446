"""Writes the run-time requirements of pyproject.toml, and those of the extras given as arguments.

    python docker/requirements.py s3 > requirements.txt

So that an image can hold what Darkroom needs without holding Darkroom as an installed package.
"""

import sys
import tomllib
from pathlib import Path


def requirements(pyproject: str, extras: list[str]) -> list[str]:
    """An extra that pyproject.toml doesn't define is a KeyError: a build must not go on without."""
    project = tomllib.loads(pyproject)["project"]
    optional = project.get("optional-dependencies", {})
    return [*project["dependencies"], *(line for extra in extras for line in optional[extra])]


if __name__ == "__main__":
    text = Path("pyproject.toml").read_text(encoding="utf-8")
    sys.stdout.writelines(f"{line}\n" for line in requirements(text, sys.argv[1:]))
