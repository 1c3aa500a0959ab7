import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import BadRequest, InvalidField
from penstock.gateway.openai import head


def test_a_request_id_is_kept_and_made_unique() -> None:
    """A well-formed id of the caller is recognisable and still collides with nobody's."""
    assert head.request_id({b"x-request-id": b"abc.1"}, "77") == "abc.1-77"
    assert head.request_id({}, "77") == "req-77"


@pytest.mark.parametrize("given_id", [b"", b"a b", b"a\nb", b"\xff", b"a" * 65, b"../x", b'"'])
def test_a_damaged_request_id_is_replaced(given_id: bytes) -> None:
    """Nothing that could harm a log or a header is taken over."""
    assert head.request_id({b"x-request-id": given_id}, "77") == "req-77"


@given(st.binary(max_size=80))
def test_every_request_id_is_safe_in_headers_and_logs(given_id: bytes) -> None:
    """Whatever comes, the id holds only letters, digits and three marks."""
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,75}", head.request_id({b"x-request-id": given_id}, "0123456789"))


def test_trace_context_is_taken_only_whole() -> None:
    """A damaged, empty or reserved traceparent is dropped."""
    good = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"
    assert head.traceparent({b"traceparent": good}) == good.decode()
    for bad in (b"", b"00-" + b"0" * 32 + good[35:], b"ff" + good[2:], good + b"\n", good.upper()):
        assert head.traceparent({b"traceparent": bad}) == ""


@pytest.mark.parametrize(("given_ms", "seconds"), [(b"1", 0.001), (b"1500", 1.5), (b"3600000", 3600.0)])
def test_a_deadline_is_read_in_milliseconds(given_ms: bytes, seconds: float) -> None:
    """The header counts milliseconds, the platform seconds."""
    assert head.deadline_s({b"x-penstock-deadline-ms": given_ms}) == seconds


@pytest.mark.parametrize("given_ms", [b"", b"0", b"-5", b"1.5", b"1e3", b"3600001", b"9" * 400, b"\xb2", b" 5", b"x"])
def test_a_senseless_deadline_is_refused(given_ms: bytes) -> None:
    """A deadline that can't be meant is a mistake that the caller should hear of."""
    with pytest.raises(InvalidField):
        head.deadline_s({b"x-penstock-deadline-ms": given_ms})


def test_an_idempotency_key_is_printable_and_short() -> None:
    """Keys that can't be stored or logged are refused."""
    assert head.idempotency_key({}) == ""
    assert head.idempotency_key({b"idempotency-key": b"order-17"}) == "order-17"
    for bad in (b"", b"a b", b"\x00", b"\xff", b"k" * 256):
        with pytest.raises(BadRequest):
            head.idempotency_key({b"idempotency-key": bad})


def test_a_session_is_printable_and_short() -> None:
    """An empty one is none; what could be a separator, or is longer than a name, is refused."""
    assert [head.session(one) for one in ({}, {b"x-penstock-session": b""})] == ["", ""]
    for good in (b"a", b"conversation 17 ~!", b"s" * 256):
        assert head.session({b"x-penstock-session": good}) == good.decode()
    for bad in (
        b"a\x1fb",
        b"a\x1eb",
        b"a\tb",
        b"a\n",
        b"\x00",
        b"\x7f",
        b"\xff",
        "é".encode(),
        b"s" * 257,
        b"s" * 10**7,
    ):
        with pytest.raises(InvalidField, match="at most 256 printable ASCII characters"):
            head.session({b"x-penstock-session": bad})


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, ""),
        ({b"authorization": b"Bearer psk_x"}, "psk_x"),
        ({b"authorization": b"bearer  psk_x "}, "psk_x"),
        ({b"authorization": b"Basic eDp5"}, ""),
        ({b"authorization": b"psk_x"}, ""),
        ({b"x-api-key": b"psk_y"}, "psk_y"),
        ({b"authorization": b"Bearer psk_x", b"x-api-key": b"psk_x"}, "psk_x"),
        ({b"authorization": b"Basic eDp5", b"x-api-key": b"psk_y"}, ""),
    ],
)
def test_the_credential_is_found_where_both_sdks_put_it(headers: dict[bytes, bytes], key: str) -> None:
    """OpenAI's SDK sends a bearer token, Anthropic's a header of its own."""
    assert head.credential(headers) == key


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"/v1/models", "/v1/models"),
        (b"/v1/ch%61t", "/v1/chat"),
        (b"/v1%2fchat/completions", "/v1%2Fchat/completions"),
        (b"/v1/models/org%2Fname", "/v1/models/org%2Fname"),
    ],
)
def test_an_encoded_slash_does_not_part_a_path(raw: bytes, path: str) -> None:
    """Finding 17: ``/v1%2fchat/completions`` is no route of ours."""
    assert head.path(raw) == path


def test_two_different_keys_are_refused() -> None:
    """One tenant's bearer token beside another's ``x-api-key`` was the first one's request."""
    with pytest.raises(BadRequest, match="different keys"):
        head.credential({b"authorization": b"Bearer psk_x", b"x-api-key": b"psk_y"})


def test_a_second_credential_is_refused() -> None:
    """Finding 17: the last one won."""
    with pytest.raises(BadRequest, match="authorization"):
        head.check_single([(b"authorization", b"a"), (b"accept", b"x"), (b"accept", b"y"), (b"authorization", b"b")])


def test_a_price_cap_is_dollars_for_a_million_tokens() -> None:
    """Exact to a micro-dollar; what is no such number is refused, and never silence."""
    assert head.price_cap({}) == 0
    for told, cap in ((b"0.40", 400_000), (b"12", 12_000_000), (b"0.000001", 1), (b"999999.999999", 999_999_999_999)):
        assert head.price_cap({b"x-penstock-price-cap": told}) == cap
    for bad in (b"", b"0", b"0.0", b"-1", b"nan", b"inf", b"1e3", b".5", b"1.", b"$1", b"1,5", b"1 ", b"9" * 400):
        with pytest.raises(InvalidField, match="dollars for a million tokens"):
            head.price_cap({b"x-penstock-price-cap": bad})


def test_a_kept_rule_is_a_name_or_nothing() -> None:
    """A conversation that says where it was can only be believed or not: what is no name is none."""
    assert head.kept_rule({b"x-penstock-auto": b"short-1.a_b"}) == "short-1.a_b"
    for told in ({}, {b"x-penstock-auto": b""}, {b"x-penstock-auto": b"a\x00"}, {b"x-penstock-auto": b"a" * 64}):
        assert head.kept_rule(told) == ""
