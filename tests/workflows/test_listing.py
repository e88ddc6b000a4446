"""Filters as queries: nothing that is sent can leave its quotes, or the tenant's jobs."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.pure import START, image_request, quick
from workflows.job_record import JobRecord
from workflows.listing import (
    JobFilter,
    UnquotableError,
    in_state,
    is_quotable,
    is_wanted,
    job_query,
    quoted,
)
from workflows.messages import DEFAULT_TENANT, JobView
from workflows.search_attributes import label_entries, label_entry, label_texts
from workflows.state_machine import JobState

LITERAL = re.compile(r'"[^"]*"')
NEVER_QUOTED = set("\"'`\\") | {chr(code) for code in range(32)} | {"\x7f"}

hostile = st.text(
    st.one_of(st.sampled_from("\"'`\\%_;()\0\n\r\t♡=- "), st.characters(exclude_categories=()))
)
labels = st.dictionaries(
    st.text(min_size=1, max_size=63), st.text(max_size=255), min_size=1, max_size=16
)


def skeleton(query: str) -> str:
    """A query without its literals."""
    return LITERAL.sub("?", query)


def view_of(**fields: object) -> JobView:
    return JobRecord("x", START, image_request(**fields)).view()


@quick
@given(hostile)
def test_no_text_leaves_its_quotes(text: str) -> None:
    try:
        literal = quoted(text)
    except UnquotableError:
        assert not is_quotable(text)
    else:
        assert literal == f'"{text}"'
        assert not NEVER_QUOTED & set(text)
        text.encode()


@quick
@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\"'`\\"))
)
def test_every_harmless_text_can_be_quoted(text: str) -> None:
    assert quoted(text) == f'"{text}"'


@quick
@given(hostile, hostile, hostile, hostile)
def test_no_filter_changes_what_a_query_says(
    tenant: str, engine: str, worker: str, label: str
) -> None:
    plain = JobFilter(tenant="t", engines=("e",), workers=("w",), labels=("l",))
    sent = JobFilter(tenant=tenant, engines=(engine,), workers=(worker,), labels=(label,))
    if not all(map(is_quotable, (tenant, engine, worker))):
        with pytest.raises(UnquotableError):
            job_query(sent, START)
        return
    if tenant != DEFAULT_TENANT:
        assert skeleton(job_query(sent, START)) == skeleton(job_query(plain, START))


@quick
@given(hostile)
def test_any_label_can_be_asked_for(label: str) -> None:
    entry = label_entry(label)
    assert re.fullmatch(r"[A-Za-z0-9_.:/@-]{1,48}", entry)
    assert f'JobLabels IN ("{entry}")' in job_query(JobFilter(tenant="t", labels=(label,)), START)


@quick
@given(labels)
def test_labels_of_a_job_fit_their_search_attribute(given_labels: dict[str, str]) -> None:
    entries = label_entries(given_labels)
    # As JSON: what the server measures, and refuses beyond 2,048 bytes.
    assert sum(len(entry) + 4 for entry in entries) + 2 <= 2048
    assert set(entries) == {label_entry(text) for text in label_texts(given_labels)}


@pytest.mark.parametrize("tenant", ["acme", DEFAULT_TENANT])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"states": tuple(JobState)},
        {"states": (JobState.FAILED,), "labels": ("a",), "updated_before": START},
        {"running_longer_than_seconds": 3.0, "workers": ("w", "v")},
        {"created_after": START, "created_before": START, "priorities": (0, 9)},
    ],
)
def test_every_query_begins_with_the_tenant_and_has_no_open_alternative(
    tenant: str, fields: dict[str, object]
) -> None:
    query = job_query(JobFilter.model_validate({"tenant": tenant} | fields), START)
    owner = f'JobTenant = "{tenant}"'
    if tenant == DEFAULT_TENANT:
        owner = f"({owner} OR JobTenant IS NULL)"
    assert query.startswith(f'WorkflowType = "ImageJobWorkflow" AND {owner}')
    # An OR outside of brackets would take the tenant's place.
    depth = 0
    for word in re.findall(r"\(|\)|\bOR\b", skeleton(query)):
        depth += {"(": 1, ")": -1}.get(word, 0)
        assert word != "OR" or depth > 0, query
    assert depth == 0


def test_times_are_asked_for_in_utc_to_the_microsecond() -> None:
    at = datetime(2027, 1, 31, 18, 0, 0, 123456, tzinfo=UTC)
    query = job_query(JobFilter(tenant="t", created_before=at), START)
    assert query.endswith('StartTime < "2027-01-31T18:00:00.123456Z"')


def test_state_of_a_run_that_was_ended_is_not_the_stored_one() -> None:
    assert 'ExecutionStatus = "Running"' in in_state(JobState.PROCESSING)
    assert 'ExecutionStatus NOT IN ("Running", "TimedOut")' in in_state(JobState.FAILED)
    assert 'ExecutionStatus = "TimedOut"' in in_state(JobState.TIMEOUT_CANCELLED)
    assert in_state(JobState.SUCCESS) == '(JobState = "SUCCESS")'


@pytest.mark.parametrize(
    ("fields", "is_so"),
    [
        ({}, True),
        ({"tenant": "other"}, False),
        ({"states": (JobState.PENDING, JobState.PAUSED)}, True),
        ({"states": (JobState.PAUSED,)}, False),
        ({"labels": ("customer", "none")}, True),
        ({"labels": ("customer:42",)}, True),
        ({"labels": ("customer:4",)}, False),
        ({"labels": ("Customer",)}, False),
        ({"priorities": (3, 5)}, True),
        ({"priorities": (9,)}, False),
        ({"updated_before": START}, False),
        ({"running_longer_than_seconds": 0.0}, False),
    ],
)
def test_what_was_found_is_looked_at_again(fields: dict[str, object], is_so: bool) -> None:
    wanted = JobFilter.model_validate({"tenant": "acme"} | fields)
    view = view_of(tenant="acme", labels={"customer": "42"})
    assert is_wanted(wanted, view, START) is is_so
