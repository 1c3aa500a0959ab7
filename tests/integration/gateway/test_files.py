"""Files over HTTP: the official SDK unchanged, bounds, keys, and what an upload leaves behind."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import openai
import pytest

from penstock.connectors.postgres.files import PostgresFiles
from penstock.domain.clock import DAY_S
from penstock.domain.tenancy.tenant import FETCHED_S, Plan
from penstock.gateway.deferred.files import MOST_UPLOADS
from penstock.jobs.files import TenantFiles
from tests.support.clock import ManualClock
from tests.support.gateways.dispatch import until
from tests.support.gateways.filing import (
    ACME,
    ACME_KEY,
    LINES,
    SECRET,
    SHOP_KEY,
    Home,
    begin,
    database,
    database_dsn,
    gone,
    home,
    postgres_dsn,
    postgres_server,
)
from tests.support.patience import patient
from tests.support.samples.calls import principal

__all__ = ["database", "database_dsn", "home", "postgres_dsn", "postgres_server"]
pytestmark = pytest.mark.integration


async def test_the_official_sdk_works_unchanged(home: Home) -> None:
    """Create, retrieve, list, read and delete through the SDK, which checks the shapes."""
    async with home.sdk() as sdk:
        made = await sdk.files.create(
            file=("in.jsonl", LINES), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
        )
        assert (made.bytes, made.filename, made.purpose, made.status) == (len(LINES), "in.jsonl", "batch", "processed")
        assert made.expires_at is not None
        assert made.expires_at - made.created_at == 3600
        assert await sdk.files.retrieve(made.id) == made
        assert (await sdk.files.content(made.id)).content == LINES
        other = await sdk.files.create(file=("b.jsonl", b"{}"), purpose="batch")
        assert other.expires_at is not None
        assert other.expires_at - other.created_at == 30 * DAY_S
        assert [one.id async for one in sdk.files.list(limit=1)] == [other.id, made.id]
        assert [one.id async for one in sdk.files.list(limit=1, order="asc", purpose="batch")] == [made.id, other.id]
        assert [one async for one in sdk.files.list(purpose="batch_output")] == []
        assert (await sdk.files.delete(made.id)).deleted
        for act in (sdk.files.retrieve, sdk.files.content, sdk.files.delete):
            with pytest.raises(openai.NotFoundError):
                await act(made.id)
        assert [one.id async for one in sdk.files.list()] == [other.id]


async def test_files_of_other_tenants_are_not_there(home: Home) -> None:
    """Another tenant's id answers as one that never was, for every method."""
    async with home.sdk() as mine, home.sdk(SHOP_KEY) as other:
        made = await mine.files.create(file=("in.jsonl", b"{}"), purpose="batch")
        told = []
        for one in (made.id, "file-" + "0" * 32):
            for act in (other.files.retrieve, other.files.content, other.files.delete):
                with pytest.raises(openai.NotFoundError) as refused:
                    await act(one)
                told.append((refused.value.code, refused.value.message.partition("'request_id'")[0]))
        assert told[:3] == told[3:]
        assert [one async for one in other.files.list()] == []
        assert (await mine.files.content(made.id)).content == b"{}"


@pytest.mark.parametrize(
    "content", [b"", b"no newline", b"\xef\xbb\xbf{}\r\n{}\r\n", b"\xff\xfe\x00", b"\n" * 70_000, SECRET * 3000]
)
async def test_bytes_are_kept_as_they_came(home: Home, content: bytes) -> None:
    """Empty, without an end of line, with CRLF, a mark or invalid UTF-8: what lines mean is a batch's matter."""
    async with home.sdk() as sdk:
        made = await sdk.files.create(file=("in.jsonl", content), purpose="batch")
        assert (await sdk.files.content(made.id)).content == content


async def test_the_order_of_parts_is_free(home: Home) -> None:
    """Clients that send the file first, or without a length, are understood, too."""
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
    tail = b'\r\n--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--x--\r\n'

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(LINES), 50_000):
            yield (head if at == 0 else b"") + LINES[at : at + 50_000]
        yield tail

    async with home.http() as http:
        kind = {"content-type": "multipart/form-data; boundary=x"}
        made = await http.post("/v1/files", content=pieces(), headers=kind)
        assert (made.status_code, made.json()["bytes"]) == (200, len(LINES))
        whole = await http.get(f"/v1/files/{made.json()['id']}/content")
        assert (whole.content, whole.headers["content-length"]) == (LINES, str(len(LINES)))


async def test_limits_of_the_plan(home: Home) -> None:
    """Count and bytes of a tenant's files are bounded, said by name, and free again after a deletion."""
    async with home.sdk(SHOP_KEY) as sdk:
        first = await sdk.files.create(file=("a", b"x" * 600), purpose="batch")
        with pytest.raises(openai.RateLimitError) as refused:
            await sdk.files.create(file=("b", b"x" * 600), purpose="batch")
        assert refused.value.response.headers["x-penstock-reason"] == "tenant_file_bytes"
        second = await sdk.files.create(file=("b", b"x" * 300), purpose="batch")
        with pytest.raises(openai.RateLimitError) as refused:
            await sdk.files.create(file=("c", b""), purpose="batch")
        assert refused.value.response.headers["x-penstock-reason"] == "tenant_files"
        await sdk.files.delete(first.id)
        await sdk.files.create(file=("b", b"x" * 600), purpose="batch")
        assert {one.id async for one in sdk.files.list()} >= {second.id}
    assert await home.rows() == 2


async def test_an_idempotency_key_makes_one_file(home: Home) -> None:
    """The same upload again is the same file, also if both run at once; another is a 422."""
    key = {"Idempotency-Key": "k-1"}
    async with home.sdk() as sdk, home.sdk(SHOP_KEY) as other:
        make = partial(sdk.files.create, purpose="batch", extra_headers=key)
        first, beside = await asyncio.gather(make(file=("a", LINES)), make(file=("a", LINES)))
        again = await make(file=("a", LINES))
        assert first.id == beside.id == again.id
        with pytest.raises(openai.UnprocessableEntityError):
            await make(file=("a", LINES + b"x"))
        with pytest.raises(openai.UnprocessableEntityError):
            await make(file=("b", LINES))
        theirs = await other.files.create(file=("a", b"x"), purpose="batch", extra_headers=key)
        assert theirs.id != first.id
        await home.retention().step(time.time())
        assert (len(home.stored()), await home.rows()) == (2, 2)
        await sdk.files.delete(first.id)
        assert (await make(file=("b", b"new"))).id != first.id


async def test_a_client_that_leaves_leaves_nothing(home: Home) -> None:
    """Half an upload that ends with its connection holds neither bytes nor room."""
    client = await begin(home)
    await until(lambda: len(home.stored()) == 1)
    assert await home.rows() == 1
    client.close()
    await gone(home)


async def test_a_stalled_upload_is_ended(home: Home) -> None:
    """A client that sends nothing more is told so within the time of a small body, whatever it had sent before."""
    client = await begin(home)
    began = time.monotonic()
    told = await asyncio.to_thread(client.recv, 4096)
    assert told.startswith(b"HTTP/1.1 408")
    assert time.monotonic() - began < patient(8.0)
    await gone(home)
    client.close()


async def test_a_slow_upload_may_take_longer_than_a_small_body(home: Home) -> None:
    """Bytes that keep coming above the least rate are taken for longer than any small body may last."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(24):
            await asyncio.sleep(0.2)
            yield b"x" * 100_000
        yield b"\r\n--x--\r\n"

    async with home.http() as http:
        kind = {"content-type": "multipart/form-data; boundary=x"}
        told = await http.post("/v1/files", content=pieces(), headers=kind)
    assert (told.status_code, told.json()["bytes"]) == (200, 2_400_000)


async def test_uploads_of_a_tenant_are_bounded(home: Home) -> None:
    """One tenant's uploads leave room for another's; the one too many is told to come back."""
    clients = [await begin(home) for _ in range(MOST_UPLOADS // 2)]
    await until(lambda: len(home.stored()) == len(clients))
    async with home.sdk() as sdk, home.sdk(SHOP_KEY) as other:
        with pytest.raises(openai.RateLimitError) as refused:
            await sdk.files.create(file=("a", b"{}"), purpose="batch")
        assert refused.value.response.headers["x-penstock-reason"] == "tenant_uploads"
        await other.files.create(file=("a", b"{}"), purpose="batch")
        for client in clients:
            client.close()
        await until(lambda: len(home.stored()) == 1)
        patient_sdk = sdk.with_options(max_retries=5)  # the seat is free a moment after the bytes are gone
        await patient_sdk.files.create(file=("a", b"{}"), purpose="batch")


async def test_deleted_bytes_go_and_rows_after_them(home: Home) -> None:
    """A deletion is at once for callers; the next round of retention takes the bytes, also of what has expired."""
    async with home.sdk() as sdk:
        first = await sdk.files.create(file=("a", SECRET), purpose="batch")
        await sdk.files.create(file=("b", SECRET), purpose="batch")
        await sdk.files.delete(first.id)
    assert len(home.stored()) == 2
    await home.retention().step(time.time())
    assert len(home.stored()) == 1
    await home.retention().step(time.time() + 31 * DAY_S)
    assert (home.stored(), await home.database.rows("select id from file")) == ([], [])


async def test_what_was_altered_is_told_though_the_answer_has_begun(home: Home) -> None:
    """The download breaks off, and the log has the error's own kind."""
    async with home.http() as http:
        form = {"files": {"file": ("in.jsonl", 3 * LINES)}, "data": {"purpose": "batch"}}
        made = (await http.post("/v1/files", **form)).json()["id"]  # type: ignore[arg-type]
        (path,) = home.stored()
        raw = bytearray(path.read_bytes())
        raw[-1000] ^= 1
        path.write_bytes(raw)
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get(f"/v1/files/{made}/content")
    assert home.seen.crashed == ["PayloadUnreadable"]


async def test_no_clear_byte_leaves_the_process(
    home: Home, database_dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A secret of an upload, whole or broken off, is in no file, no row, no log and no temporary folder."""
    marker = b"planted-secret-7f3a"
    began = time.time()
    async with home.sdk() as sdk:
        made = await sdk.files.create(file=("a", marker * 100_000), purpose="batch")
        with pytest.raises(openai.BadRequestError):
            await sdk.files.create(file=("a", marker * 100_000), purpose="assistants")
    client = await begin(home)
    client.sendall(marker * 1000)
    await until(lambda: len(home.stored()) == 2)
    dump = await asyncio.create_subprocess_exec(
        "grep", "-rlaF", marker.decode(), str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    found, _ = await dump.communicate()
    rows = [json.dumps(dict(row)) for row in await home.database.rows("select * from file")]
    recent = [path for path in await asyncio.to_thread(recent_files, began) if marker in path.read_bytes()]
    client.close()
    told = caplog.text + "".join(capfd.readouterr())
    assert (found, recent) == (b"", [])
    assert marker.decode() not in told + "".join(rows)
    assert made.bytes == 100_000 * len(marker)


def recent_files(since: float) -> list[Path]:
    """Return the files of the machine's temporary folders that were written since."""
    paths = [path for folder in ("/tmp", "/var/tmp", "/dev/shm") for path in Path(folder).glob("*")]
    return [path for path in paths if path.is_file() and path.stat().st_mtime >= since]


async def test_a_slow_reader_holds_no_memory(home: Home) -> None:
    """Content is read from the store as fast as its client reads it."""
    size = 40 << 20
    async with home.sdk() as sdk:
        made = await sdk.files.create(file=("a", b"x" * size), purpose="batch")
    client = socket.create_connection(("127.0.0.1", home.gateway.port))
    client.sendall(
        f"GET /v1/files/{made.id}/content HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ACME_KEY}\r\n\r\n".encode()
    )
    await asyncio.sleep(0.5)
    [connection] = [one for one in home.gateway.server._connections() if one._replies]
    assert connection.transport.get_write_buffer_size() < 4 << 20
    received = await asyncio.to_thread(drained, client, size)
    assert received == size


def drained(client: socket.socket, size: int) -> int:
    with client, client.makefile("rb") as file:
        while file.readline() != b"\r\n":
            pass
        return len(file.read(size))


@pytest.mark.parametrize(
    ("purpose", "is_zero", "goes"),
    [("batch_output", True, True), ("batch_output", False, False), ("batch", True, False)],
)
async def test_without_retention_results_go_a_minute_after_their_fetch(
    home: Home, purpose: str, is_zero: bool, goes: bool
) -> None:
    """Once they were read to the end; inputs and other tenants' results stay as long as they were promised."""
    async with home.sdk() as sdk:
        made = await sdk.files.create(file=("a", SECRET), purpose="batch")
    await home.database.rows("update file set purpose = $1, expires_at = 0", purpose)
    clock = ManualClock(time.time())
    files = TenantFiles(PostgresFiles(home.database), home.payloads, clock)
    who = principal(tenant=ACME, plan=Plan(zero_retention=is_zero))
    file = await files.find(who, made.id)
    assert b"".join([piece async for piece in files.content(who, file)]) == SECRET
    (row,) = await home.database.rows("select expires_at from file")
    assert row["expires_at"] == (clock.now() + FETCHED_S if goes else 0)
