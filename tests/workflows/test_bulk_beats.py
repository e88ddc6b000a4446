"""When a bulk's heartbeats tell something. Pure."""

from workflows.bulk_messages import BulkProgress
from workflows.bulk_sweep import Beats
from workflows.options import BULK_HEARTBEAT_TIMEOUT, BULK_STILL_HEARTBEAT

STILL = BULK_STILL_HEARTBEAT.total_seconds()


def test_news_is_told_at_once_and_no_news_seldom() -> None:
    beats, nothing, one = Beats(BulkProgress()), BulkProgress(), BulkProgress(matched=1, asked=1)
    assert beats.due(nothing, 0.0) == nothing
    assert beats.due(nothing, STILL - 0.1) is None
    assert beats.due(one, STILL - 0.1) == one
    assert beats.due(one, STILL) is None
    assert beats.due(one, 2 * STILL) == one


def test_bulk_that_begins_anew_is_not_told_backwards() -> None:
    before = BulkProgress(matched=2, asked=2)
    beats = Beats(before)
    assert beats.due(BulkProgress(matched=1, asked=1), 0.0) == before
    after = BulkProgress(matched=3, asked=3)
    assert beats.due(after, 0.1) == after


def test_no_news_comes_long_before_the_worker_is_missed() -> None:
    assert BULK_HEARTBEAT_TIMEOUT.total_seconds() >= 3 * STILL
