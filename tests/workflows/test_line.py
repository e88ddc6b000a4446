"""Who is ahead of whom, without a server."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from tests.workflows.pure import START, image_request
from workflows.line import Line, Place, line_query

EQUAL: Mapping[str, float] = {}


def place(text: str, weights: Mapping[str, float] = EQUAL) -> Place:
    """`a5@3` waits in level 5 since second 3, and is of the tenant a."""
    tenant, level, second = text[0], *text[1:].split("@")
    since = START + timedelta(seconds=int(second))
    return Place(int(level), tenant, since, weights.get(tenant, 1.0))


def line(*places: str, weights: Mapping[str, float] = EQUAL) -> Line:
    return Line(place(one, weights) for one in places)


@pytest.mark.parametrize(
    ("waiting", "of", "ahead"),
    [
        ((), "a5@0", 0),
        (("a5@0",), "a5@0", 0),
        (("a5@0", "a5@1", "a5@2"), "a5@2", 2),
        (("a5@2", "a5@1", "a5@0"), "a5@1", 1),
        (("a5@0", "a5@1", "a5@9"), "a5@0", 0),
        # What has come since the line was read is behind all of it.
        (("a5@0", "a5@1"), "a5@7", 2),
        (("a4@8", "a3@9", "a5@0"), "a5@1", 3),
        (("a6@0", "a7@0", "a5@1"), "a5@1", 0),
    ],
)
def test_higher_priorities_and_older_jobs_come_first(
    waiting: Sequence[str], of: str, ahead: int
) -> None:
    assert line(*waiting).ahead_of(place(of)) == ahead


@pytest.mark.parametrize(
    ("of", "ahead"),
    [("b5@100", 1), ("c5@101", 2), ("b5@102", 4), ("a5@0", 0), ("a5@1", 3), ("a5@2", 5)],
)
def test_tenants_of_a_priority_take_turns(of: str, ahead: int) -> None:
    many = [f"a5@{second}" for second in range(50)]
    assert line(*many, "b5@100", "b5@102", "c5@101").ahead_of(place(of)) == ahead


@pytest.mark.parametrize(
    ("of", "ahead"), [("b5@100", 3), ("b5@102", 7), ("a5@0", 0), ("a5@2", 2), ("a5@3", 4)]
)
def test_tenant_of_a_greater_weight_takes_more_turns(of: str, ahead: int) -> None:
    waiting = [*(f"a5@{second}" for second in range(50)), "b5@100", "b5@102"]
    weights = {"a": 3.0}
    assert line(*waiting, weights=weights).ahead_of(place(of, weights)) == ahead


def test_every_place_of_a_line_is_taken_once() -> None:
    waiting = [f"{tenant}{level}@{n}" for tenant in "abc" for level in (3, 5) for n in (2, 4, 8)]
    # No two at the same second: those are side by side.
    told = [f"{one}{'abc'.index(one[0])}" for one in waiting]
    whole = line(*told)
    assert sorted(whole.ahead_of(place(one)) for one in told) == list(range(len(told)))


def test_those_that_wait_for_other_workers_stand_in_other_lines() -> None:
    queries = {line_query(image_request(engine=engine)) for engine in ("a", "b")}
    assert len(queries) == 2
