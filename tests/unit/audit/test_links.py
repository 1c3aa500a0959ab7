"""The encoding that links hash, and segments' files."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.audit.links import GENESIS, Link, hashed
from penstock.audit.segments import Head, Unreadable, name_of, read, signed, written
from penstock.audit.verification import Report, Row, Walk

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
links = st.builds(
    Link,
    number=st.integers(1, 1 << 62),
    event=st.integers(1, 1 << 62),
    hash=st.just(b""),
    at=st.floats(allow_nan=False, allow_infinity=False),
    who=texts,
    what=texts,
    target=texts,
    detail=texts,
    tenant=texts,
)


class Signs:
    fingerprint = "key"

    def sign(self, message: bytes) -> bytes:
        return message[:8]


LONG = written(
    signed(Signs(), Head(first=1, last=1, before=GENESIS, hash=GENESIS, region="eu", at=1.0, key="key")),
    [Link(1 << 63, 1, b"", 1.0, "", "", "", "", "")],
)
"""With a number that no database holds."""


@given(links, links)
def test_two_acts_never_have_one_hash(one: Link, other: Link) -> None:
    """Fields that run into each other differ by their lengths; only equal acts have equal hashes."""
    is_same = repr(one) == repr(other)
    assert (hashed(GENESIS, one) == hashed(GENESIS, other)) is is_same
    assert hashed(b"x" * 32, one) != hashed(GENESIS, one)


@given(st.lists(links, max_size=5))
def test_a_segment_is_read_as_it_was_written(found: list[Link]) -> None:
    """Whatever acts say: line ends, quotes and control characters of theirs end no line."""
    head = Head(first=1, last=5, before=GENESIS, hash=GENESIS, region="eu", at=1.0, key="key")
    one = signed(Signs(), head)
    content = written(one, found)
    assert read(content) == (one, found)
    assert name_of(one, content) == name_of(one, content) != name_of(one, content + b" ")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff", b'{"head":"{}","signature":""}', b'{"head":"x","signature":"!"}\n', LONG]
)
def test_what_is_no_segment_is_said_to_be_none(content: bytes) -> None:
    """Empty, cut off, or another format of JSON: one error, which says so."""
    with pytest.raises(Unreadable):
        read(content)


def test_a_head_of_another_format_is_refused() -> None:
    """A program of today does not guess what a later format means."""
    head = Head(format=99, first=1, last=1, before=GENESIS, hash=GENESIS, region="eu", at=1.0, key="key")
    with pytest.raises(Unreadable, match="format 99"):
        read(written(signed(Signs(), head), []))


def test_findings_are_bounded_and_counted() -> None:
    """A log of which every act was edited gives a hundred findings and the count of all."""
    report = Report()
    walk = Walk([], report)
    walk.take(Row(number, number, b"x" * 32, (1.0, "", "", "", "", "")) for number in range(1, 1001))
    walk.end()
    assert (len(report.findings), sum(report.counts.values())) == (100, 1000)


def test_a_number_that_is_there_twice_is_one_finding() -> None:
    """The owner may drop the key: the link that comes second was inserted, and the walk goes on behind the first."""
    own, links, before = Link(0, 7, b"", 1.0, "", "", "", "", ""), list[Row](), GENESIS
    for number in (1, 2, 3):
        before = hashed(before, msgspec.structs.replace(own, number=number))
        links.append(Row(number, 7, before, (1.0, "", "", "", "", "")))
    report = Report()
    walk = Walk([], report)
    walk.take([*links[:2], links[1], links[2]])
    assert (walk.end(), report.counts) == (3, {"inserted": 1})
