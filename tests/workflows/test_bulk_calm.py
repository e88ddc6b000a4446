"""When a bulk takes visibility to have told of everything."""

from datetime import timedelta

from workflows.bulk_sweep import Calm
from workflows.options import BULK_LONGEST_QUIET


def ends(quiet: float, sweeps: dict[float, tuple[bool, bool]]) -> float | None:
    """When sweeps are over that begin at these times, with what they found and saw."""
    calm = Calm(timedelta(seconds=quiet), 0.0)
    for began, (has_found, is_visible) in sweeps.items():
        if calm.is_over(began, has_found=has_found, is_visible=is_visible):
            return began
    return None


NEWS, NOTHING, UNSEEN = (True, True), (False, True), (False, False)


def test_quiet_is_counted_from_the_last_sweep_with_news() -> None:
    assert ends(10, {0: NEWS, 1: NOTHING, 9: NOTHING, 10: NOTHING}) == 10
    # However long the first took, it says nothing of lateness.
    assert ends(10, {0: NEWS, 170: NOTHING}) == 170
    assert ends(10, {0: NOTHING, 9: NOTHING}) is None


def test_lateness_that_was_seen_is_allowed_for_once_more() -> None:
    assert ends(10, {0: NEWS, 20: NEWS, 31: NOTHING, 39: NOTHING, 40: NOTHING}) == 40
    assert ends(10, {0: NEWS, 5: NEWS, 14: NOTHING, 15: NOTHING}) == 15
    longest = BULK_LONGEST_QUIET.total_seconds()
    late = {0: NEWS, 900: NEWS, 899 + longest: NOTHING, 900 + longest: NOTHING}
    assert ends(10, late) == 900 + longest


def test_own_run_that_nobody_sees_keeps_sweeps_going() -> None:
    assert ends(0, {0: UNSEEN, 100: UNSEEN, 101: NOTHING}) is None
    assert ends(10, {0: UNSEEN, 20: UNSEEN, 39: NOTHING, 40: NOTHING}) == 40
