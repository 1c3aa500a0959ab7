"""Bad forms over HTTP: each fault is named, nothing of the file stays, and nothing of it is quoted."""

import asyncio
import socket
from contextlib import closing

import pytest

from tests.support.gateways.filing import (
    HEAD,
    SECRET,
    Home,
    database,
    database_dsn,
    home,
    postgres_dsn,
    postgres_server,
)

__all__ = ["database", "database_dsn", "home", "postgres_dsn", "postgres_server"]
pytestmark = pytest.mark.integration


Form = tuple[dict[str, str], dict[str, tuple[str, bytes]]]
FILE = {"file": ("in.jsonl", SECRET)}


@pytest.mark.parametrize(
    ("form", "param"),
    [
        (({}, FILE), "purpose"),
        (({"purpose": "batch"}, {}), None),
        (({"purpose": "fine-tune"}, FILE), "purpose"),
        (({"purpose": "batch", "extra": "x"}, FILE), "extra"),
        (({"purpose": "batch", "expires_after[seconds]": "3600"}, FILE), "expires_after[anchor]"),
        (({"purpose": "batch", "expires_after[anchor]": "created_at"}, FILE), "expires_after[seconds]"),
        (
            (
                {"purpose": "batch", "expires_after[anchor]": "created_at", "expires_after[seconds]": "60"},
                FILE,
            ),
            "expires_after[seconds]",
        ),
        (
            ({"purpose": "batch", "expires_after[anchor]": "now", "expires_after[seconds]": "3600"}, FILE),
            "expires_after[anchor]",
        ),
        (({"purpose": "batch"}, {"file": ("x" * 300, SECRET)}), "file"),
        (({"purpose": "batch"}, {"other": ("in.jsonl", SECRET)}), "other"),
        (({"purpose": "x" * 5000}, FILE), "purpose"),
    ],
)
async def test_a_bad_form_is_refused_by_field(home: Home, form: Form, param: str | None) -> None:
    """Each fault is a 400 that names its field; nothing of the file stays, and nothing of it is quoted."""
    fields, files = form
    async with home.http() as http:
        told = await http.post("/v1/files", data=fields, files=files)
    assert (told.status_code, told.json()["error"]["param"]) == (400, param)
    assert "diagnosis" not in told.text
    assert (home.stored(), await home.rows()) == ([], 0)


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"{}", 400),
        ("multipart/form-data", b"{}", 400),
        ("multipart/form-data; boundary=x", b"", 400),
        ("multipart/form-data; boundary=x", b"--x\r\nX: " + b"x" * 20_000, 400),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nba', 400),
    ],
)
async def test_what_is_no_form_is_refused(home: Home, kind: str, body: bytes, status: int) -> None:
    """A wrong type, a cut form and huge headers are the caller's faults."""
    async with home.http() as http:
        told = await http.post("/v1/files", content=body, headers={"content-type": kind})
    assert (told.status_code, home.stored(), await home.rows()) == (status, [], 0)


async def test_too_large_is_said_before_it_is_sent(home: Home) -> None:
    """A declared 300 MB is a 413 at once, and the bodies of other routes keep their bound."""
    told = await asyncio.to_thread(first_line, home.gateway.port, HEAD % (300 << 20))
    assert told == b"HTTP/1.1 413 Request Entity Too Large"
    async with home.http() as http:
        other = await http.post(f"/v1/files/file-{'0' * 32}/content", content=b"x" * 100_000)
    assert other.status_code in {405, 413}
    assert (home.stored(), await home.rows()) == ([], 0)


def first_line(port: int, data: bytes) -> bytes:
    with closing(socket.create_connection(("127.0.0.1", port))) as client:
        client.sendall(data)
        return client.makefile("rb").readline().strip()


async def test_without_its_key_nothing_of_an_upload_is_read(home: Home) -> None:
    """A stranger's upload is refused by its head."""
    async with home.http("psk_nobody") as http:
        told = await http.post("/v1/files", data={"purpose": "batch"}, files=FILE)
    assert (told.status_code, home.stored(), await home.rows()) == (401, [], 0)
