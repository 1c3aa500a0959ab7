"""What the API server's answers are read as, and which are refused."""

import json

import pytest

from penstock.connectors.kubernetes import answers
from penstock.connectors.kubernetes.answers import ApiRefused, Json
from penstock.connectors.kubernetes.backoff import LONGEST_S
from penstock.connectors.kubernetes.pods import running
from penstock.domain.ids import WorkerId

META: Json = {
    "name": "w-1",
    "uid": "u-1",
    "resourceVersion": "7",
    "creationTimestamp": "2026-11-22T10:00:00Z",
    "annotations": {"penstock.io/version": "tiny@0123456789ab"},
}
DEEP = b'{"a":' * 100_000


def encoded(found: object) -> bytes:
    return json.dumps(found).encode()


def listed(items: object) -> bytes:
    return encoded({"metadata": {"resourceVersion": "9"}, "items": items})


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        b"[]",
        b"null",
        b"",
        b"\xff",
        DEEP,
        listed(None),
        listed([None]),
        listed([{"metadata": None}]),
        listed([{"metadata": {**META, "name": 1}}]),
        listed([{"metadata": META, "status": {"startTime": "yesterday"}}]),
        encoded({"items": []}),
    ],
)
def test_a_list_that_cannot_be_read_is_refused(raw: bytes) -> None:
    """A list that lacks what we read of it is no answer, and never an empty cluster."""
    with pytest.raises(ApiRefused, match="can't be read") as refused:
        answers.page(raw)
    assert refused.value.status == answers.NO_ANSWER


@pytest.mark.parametrize("raw", [b"[]", b"{}", b"\xff", encoded({"metadata": {"generation": "x"}})])
def test_a_write_that_answers_nothing_is_refused(raw: bytes) -> None:
    """A PATCH whose answer names no object has not been seen to work."""
    with pytest.raises(ApiRefused, match="can't be read"):
        answers.written(raw)


@pytest.mark.parametrize(
    "found",
    [
        [],
        {"type": "ADDED"},
        {"type": "BOOKMARK", "object": {}},
        {"type": "MODIFIED", "object": {"metadata": {"resourceVersion": "1"}}},
        {"type": "ERROR", "object": {"message": "gone", "code": "410"}},
    ],
)
def test_a_watch_line_that_cannot_be_read_is_refused(found: object) -> None:
    """A line without what we read of it ends the watch in words."""
    with pytest.raises(ApiRefused, match="can't be read"):
        answers.event(encoded(found))


def test_an_error_in_a_watch_is_what_it_says() -> None:
    """A 410 in the stream is raised with its code, by which a list is begun anew."""
    with pytest.raises(ApiRefused, match="too old") as refused:
        answers.event(encoded({"type": "ERROR", "object": {"code": 410, "message": "too old"}}))
    assert refused.value.status == answers.GONE


def test_a_null_is_a_field_that_is_not_there() -> None:
    """A pod with `status: null` is one whose status nobody told; the others in its list are as they are."""
    objects, version, following = answers.page(listed([{"metadata": {**META, "labels": None}, "status": None}]))
    assert (version, following) == ("9", "")
    assert objects == [{"metadata": META}]
    found = running(objects[0])
    assert found is not None
    assert found.worker == WorkerId("w-1")


@pytest.mark.parametrize(
    ("said", "expected"),
    [("3", 3.0), ("\u00b2", 0.0), ("\u0663", 0.0), ("-1", 0.0), ("", 0.0), ("9" * 400, LONGEST_S)],
)
def test_only_a_number_says_when_to_come_back(said: str, expected: float) -> None:
    """What Python calls a digit and no number is no time to wait, and no server asks for longer than our bound."""
    assert answers.refusal(429, b"{}", said).retry_after_s == expected
    assert answers.refusal(429, DEEP, said).message == "status 429"
