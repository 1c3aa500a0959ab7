"""Shapes of deferred work's routes: what is refused names its field, and never quotes a caller's content."""

from typing import Any

import msgspec
import pytest

from penstock.domain.errors import BadRequest, InvalidField, UnknownObject
from penstock.gateway.deferred import shapes


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    kind: str


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    seconds: float = 0.0
    inner: Inner | None = None
    metadata: dict[str, str] = {}


@pytest.mark.parametrize(
    ("raw", "code", "param"),
    [
        (b'{"name": "a", "colour": "secret"}', "unsupported_field", "colour"),
        (b'{"name": "a", "inner": {"kind": "b", "x": "secret"}}', "unsupported_field", "inner.x"),
        (b"{}", "invalid_field", "name"),
        (b'{"name": "a", "inner": {}}', "invalid_field", "inner.kind"),
        (b'{"name": "a", "seconds": "secret"}', "invalid_field", "seconds"),
        (b'{"name": "a", "metadata": {"k": 7}}', "invalid_field", "metadata"),
        (b'["secret"]', "invalid_field", None),
        (b'{"name": "secret', "malformed_body", None),
        (b'{"name": "\xff"}', "malformed_body", None),
        (b"", "malformed_body", None),
        (b"[" * 20_000, "invalid_field", None),
    ],
)
def test_a_bad_body_is_refused_by_the_name_of_its_field(raw: bytes, code: str, param: str | None) -> None:
    """The refusal has code and field, and none of the caller's values."""
    with pytest.raises(BadRequest) as refused:
        shapes.body(raw, Asked)
    assert (refused.value.code, refused.value.param) == (code, param)
    assert "secret" not in refused.value.message


def test_a_good_body_is_a_struct() -> None:
    """Fields that are left out have their defaults."""
    assert shapes.body(b'{"name": "a", "inner": {"kind": "k"}}', Asked) == Asked("a", 0.0, Inner("k"))


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "٣"}, "limit"),
        ({"limit": "1" * 5000}, "limit"),
        ({"order": "new"}, "order"),
        ({"after": "x"}, "after"),
        ({"after": "job_" + "g" * 12}, "after"),
    ],
)
def test_a_bad_page_is_refused_by_its_parameter(query: dict[str, str], param: str) -> None:
    """Limits are from 1 to the most, orders are two, and an id looks like one."""
    with pytest.raises(InvalidField) as refused:
        shapes.paged(query)
    assert refused.value.param == param


def test_a_page_has_defaults_and_bounds_of_its_own() -> None:
    """The newest objects come first; a list may have larger pages than another."""
    assert shapes.paged({}) == shapes.Paged(after="", limit=20, is_oldest_first=False)
    asked = {"after": "job_0123456789ab", "limit": "10000", "order": "asc"}
    assert shapes.paged(asked, most=10_000) == shapes.Paged(
        after="job_0123456789ab", limit=10_000, is_oldest_first=True
    )


def test_a_list_names_its_ends() -> None:
    """Clients go on after the last one; an empty list has no ends."""
    told: dict[str, Any] = msgspec.json.decode(shapes.listed([{"id": "a"}, {"id": "b"}], has_more=True).body)
    assert told == {
        "object": "list",
        "data": [{"id": "a"}, {"id": "b"}],
        "first_id": "a",
        "last_id": "b",
        "has_more": True,
    }
    empty: dict[str, Any] = msgspec.json.decode(shapes.listed([], has_more=False).body)
    assert (empty["first_id"], empty["last_id"]) == (None, None)


@pytest.mark.parametrize(
    "given", ["", "job_", "file-0123456789ab", "job_../../etc", "job_0123456789ab\n", "job_é1234567"]
)
def test_what_is_no_id_names_no_object(given: str) -> None:
    """A path's id of another kind, or of no form that we give, is answered like an unknown one."""
    with pytest.raises(UnknownObject):
        shapes.named(given, "job_")
    assert shapes.named("job_0123456789ab", "job_") == "job_0123456789ab"


@pytest.mark.parametrize(
    "given",
    [
        {f"k{number}": "v" for number in range(17)},
        {"k" * 65: "v"},
        {"": "v"},
        {"k": "v" * 513},
        {"k": "a\0b"},
    ],
)
def test_metadata_is_bounded(given: dict[str, str]) -> None:
    """At most 16 pairs, of 64 and 512 characters, which the database can hold."""
    with pytest.raises(InvalidField) as refused:
        shapes.check_metadata(given)
    assert refused.value.param == "metadata"
    shapes.check_metadata({f"k{number}": "v" * 512 for number in range(16)})
