"""Multipart forms: parts come out as any client wrote them, in whatever pieces the bytes arrive."""

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.domain.errors import MalformedBody
from penstock.domain.jobs.errors import NotAForm
from penstock.gateway.deferred.forms import MOST_HEAD_BYTES, MOST_PARTS, FormReader, Part

KIND = "multipart/form-data; boundary=xyz"


def read(body: bytes, kind: str = KIND, step: int = 7) -> list[tuple[Part, bytes]]:
    reader, found = FormReader(kind), list[tuple[Part, bytes]]()
    for at in range(0, len(body), step):
        for one in reader.feed(body[at : at + step]):
            if isinstance(one, Part):
                found.append((one, b""))
            else:
                found[-1] = (found[-1][0], found[-1][1] + one)
    reader.end()
    return found


def form(*parts: bytes, end: bytes = b"--xyz--\r\n") -> bytes:
    return b"".join(b"--xyz\r\n" + part + b"\r\n" for part in parts) + end


FIELD = b'Content-Disposition: form-data; name="purpose"\r\n\r\nbatch'
NEAR = st.sampled_from(
    [b"\r\n--xy", b"\r\n--xyz ", b"--xyz--", b"\r\n", b"\r", b"-", b"x", b"\r\n--", b"\0\xff", b"xyz"]
)


@example(b"--xyz--", 60)
@given(st.lists(NEAR | st.binary(max_size=30), max_size=12).map(b"".join), st.integers(1, 60))
def test_bytes_come_as_they_were(content: bytes, step: int) -> None:
    """Whatever a file holds, short of its delimiter, comes out of any cut of the form."""
    content = content.replace(b"\r\n--xyz", b"\r\n-+xyz")
    file = b'Content-Disposition: form-data; name="file"; filename="a.jsonl"\r\nContent-Type: x/y\r\n\r\n' + content
    assert read(form(FIELD, file), step=step) == [
        (Part("purpose", None), b"batch"),
        (Part("file", "a.jsonl"), content),
    ]


@pytest.mark.parametrize(
    "name", ["a.jsonl", 'with "quotes".jsonl', "ünïcode.jsonl", "semi;colon=1.jsonl", "back\\slash"]
)
def test_a_real_client_is_read(name: str) -> None:
    """The official SDK's HTTP client writes forms that come out the same; it escapes quotes its own way."""
    request = httpx.Request(
        "POST",
        "http://x/",
        data={"purpose": "batch", "expires_after[seconds]": "3600"},
        files={"file": (name, b"{}\r\n")},
    )
    parts = read(request.read(), request.headers["content-type"], 3)
    assert [(part.name, data) for part, data in parts] == [
        ("purpose", b"batch"),
        ("expires_after[seconds]", b"3600"),
        ("file", b"{}\r\n"),
    ]
    assert parts[2][0].filename == name.replace('"', "%22").replace("\\\\", "\\")


def test_an_empty_file_is_one() -> None:
    """A part without a byte, and one without headers of its own, are told apart from none."""
    empty = b'Content-Disposition: form-data; name="file"; filename=""\r\n\r\n'
    assert read(form(empty)) == [(Part("file", ""), b"")]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        form(FIELD)[:-6],
        form(FIELD, end=b""),
        form(b"\r\n\r\nbatch"),
        form(b'Content-Disposition: form-data; filename="x"\r\n\r\nbatch'),
        form(b'Content-Disposition: attachment; name="x"\r\n\r\nbatch'),
        form(b'Content-Disposition: form-data; name="\xff"\r\n\r\nbatch'),
        form(b'Content-Disposition: form-data; name="x"\r\nContent-Transfer-Encoding: base64\r\n\r\nYQ=='),
        form(FIELD).replace(b"--xyz--", b"--xyz++"),
        b"x" * (MOST_HEAD_BYTES + 10),
        form(b"X: " + b"x" * MOST_HEAD_BYTES + b"\r\n" + FIELD),
        b"--xyz\r\nX: " + b"x" * (2 * MOST_HEAD_BYTES),
        form(*[FIELD] * (MOST_PARTS + 1)),
    ],
)
@pytest.mark.parametrize("step", [1, 10_000_000])
def test_what_is_no_form_is_refused(body: bytes, step: int) -> None:
    """A body that is cut off, not a form, or has heads without bound is refused in words, without its content."""
    with pytest.raises(MalformedBody) as refused:
        read(body, step=step)
    assert "batch" not in refused.value.message


@pytest.mark.parametrize(
    "kind",
    ["", "application/json", "multipart/form-data", "multipart/form-data; boundary=", "multipart/mixed; boundary=x"],
)
def test_another_content_type_is_refused(kind: str) -> None:
    """Without a boundary there is nothing to read by."""
    with pytest.raises(NotAForm):
        FormReader(kind)


def test_no_content_is_dear() -> None:
    """A file of nothing but beginnings of delimiters is handed on in pieces of about the size that came."""
    reader = FormReader(KIND)
    list(reader.feed(b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'))
    pieces = [len(piece) for _ in range(10) for piece in reader.feed(b"\r\n--xy" * 10_000)]
    assert len(pieces) == 10
    assert sum(pieces) == 600_000 - len(b"\r\n--xyz") + 1
