"""What the engine's own process and its checkpoints cost, beside calling the engine directly.

`python -m benchmarks.engine_cost [--rounds 5]`

Each round runs the same jobs three times, one after the other: directly, in a child process
without checkpoints, and in a child process with checkpoints as `activities/engines/child.py` takes
them. Ratios are of one round; what is printed is their median, and how far the rounds differ.
"""

import argparse
import asyncio
import os
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from activities.models import GenerationParameters
from benchmarks.engine_sides import (
    DIFFUSERS,
    PROCEDURAL,
    Cost,
    Direct,
    InChild,
    Specs,
    in_child,
    run_directly,
    snapshot_cost,
)
from benchmarks.stack import percentile, scratch_folder


@dataclass(frozen=True)
class Size:
    """A job's size, and how many of them make a measurement."""

    width: int
    height: int
    steps: int
    jobs: int = 1

    def __str__(self) -> str:
        return f"{self.width}x{self.height}x{self.steps}"

    @property
    def parameters(self) -> GenerationParameters:
        """A job of this size."""
        return GenerationParameters(
            prompt="a lighthouse at dusk",
            width=self.width,
            height=self.height,
            num_inference_steps=self.steps,
            seed=1,
        )


# The longer ones, because a checkpoint is taken after two seconds at the earliest.
PROCEDURAL_SIZES = (
    Size(64, 64, 8, jobs=40),
    Size(512, 512, 30),
    Size(1024, 1024, 30),
    Size(1024, 1024, 150),
    Size(2048, 2048, 30),
)
# A million random weights on one thread.
DIFFUSERS_SIZES = (Size(64, 64, 8, jobs=5), Size(128, 128, 30), Size(256, 256, 30))


@dataclass(frozen=True)
class Round:
    """The three sides of one round."""

    direct: Cost
    without: Cost
    kept: Cost


async def measure(
    direct: Direct, specs: Specs, size: Size, rounds: int, folder: Path
) -> list[Round]:
    """All rounds of one size, after one job for warmth on each side."""
    async with in_child(specs.without, folder) as without, in_child(specs.kept, folder) as kept:

        async def one(size: Size) -> Round:
            return await _round(direct, specs.direct, without, kept, size)

        await one(Size(64, 64, 4))
        return [await one(size) for _ in range(rounds)]


async def _round(direct: Direct, spec: str, without: InChild, kept: InChild, size: Size) -> Round:
    return Round(
        await direct.call(run_directly, spec, size.parameters, size.jobs),
        await without.run(size.parameters, size.jobs),
        await kept.run(size.parameters, size.jobs),
    )


def show(size: Size, rounds: list[Round], snapshot: tuple[float, int]) -> None:
    """Print the figures of one size."""
    seconds, byte_size = snapshot
    taken = [r.kept.checkpoints for r in rounds]
    shares = [r.kept.checkpoint_seconds / r.kept.seconds for r in rounds]
    print(
        f"{size}: direct {_median([r.direct.seconds for r in rounds]):.4f} s a job, in the child "
        f"{_median([r.without.seconds for r in rounds]):.4f} s, with checkpoints "
        f"{_median([r.kept.seconds for r in rounds]):.4f} s"
    )
    print(f"  child / direct: {_ratios([(r.without, r.direct) for r in rounds])}")
    print(f"  checkpoints / none: {_ratios([(r.kept, r.without) for r in rounds])}")
    print(
        f"  snapshot {seconds * 1000:.2f} ms, {byte_size:,} bytes; {_median(taken):.0f} taken in a "
        f"job, {_median(shares):.2%} of its time (max {max(shares):.2%})",
        flush=True,
    )


def _ratios(pairs: list[tuple[Cost, Cost]]) -> str:
    clock = [ours.seconds / base.seconds for ours, base in pairs]
    processor = [ours.processor / base.processor for ours, base in pairs]
    return "  ".join(
        f"{name} {_median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        for name, ratios in (("clock", clock), ("processor", processor))
    )


def _median(values: list[float]) -> float:
    return percentile(values, 0.5)


async def compare(
    direct: Direct, specs: Specs, sizes: tuple[Size, ...], rounds: int, folder: Path
) -> None:
    """Measure and print one engine at all sizes."""
    print(f"{specs.name} engine, {rounds} rounds, load {os.getloadavg()[0]:.1f}:")
    for size in sizes:
        measured = await measure(direct, specs, size, rounds, folder)
        show(size, measured, await direct.call(snapshot_cost, specs.direct, size.parameters))
    print(f"load at the end {os.getloadavg()[0]:.1f}")


def build_tiny_pipeline(folder: Path) -> None:
    """Save a pipeline with random weights."""
    # Not at the top: this is the border behind which the extra is needed.
    from tests.activities.tiny_pipelines import stable_diffusion  # noqa: PLC0415

    stable_diffusion(folder)


async def main() -> None:
    """Measure the procedural engine, and the diffusers engine where it can be imported."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        model = folder / "model"
        os.environ["DARKROOM_DIFFUSERS_MODEL"] = str(model)
        os.environ["DARKROOM_DIFFUSERS_DEVICE"] = "cpu"
        os.environ["DARKROOM_DIFFUSERS_THREADS"] = "1"
        direct = Direct()
        stack.callback(direct.stop)
        await compare(direct, PROCEDURAL, PROCEDURAL_SIZES, args.rounds, folder)
        if not all(map(find_spec, ("torch", "diffusers", "transformers"))):
            print("diffusers engine: skipped, torch, diffusers or transformers is not installed")
            return
        await direct.call(build_tiny_pipeline, model)
        await compare(direct, DIFFUSERS, DIFFUSERS_SIZES, args.rounds, folder)


if __name__ == "__main__":
    asyncio.run(main())
