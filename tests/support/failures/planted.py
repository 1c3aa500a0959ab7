"""Text planted in every field of every API, and the sinks of a platform that are searched for it."""

import asyncio
import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import boto3
import redis

from penstock.domain.serving.request import Api
from penstock.gateway.openai.verdicts import ANY, TABLE, Field
from tests.support.samples.least_bodies import BODIES

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SECRET = "plantedZq7Content"
"""In every field, header and file of requests."""
LABEL = "plantedZq7Label"
"""In what a caller writes beside the content so that it finds it again: it stands in rows until it is deleted."""
LABELS = frozenset({"job.metadata", "batch.metadata", "file.name", "webhook_endpoint.url"})
DEPTH = 3
"""Levels of objects below a body."""
LEAST: dict[Api, dict[str, int]] = {Api.RESPONSES: {"max_output_tokens": 1}, Api.EMBEDDINGS: {}, Api.CLASSIFY: {}}
"""What ends an answer early, other than `max_tokens`."""
Body = dict[str, Any]


def bodies(api: Api, model: str) -> Iterator[Body]:
    """Yield the API's least body with the text in each of its fields in turn, in each form that has one."""
    least = {**BODIES[api], "model": model, **LEAST.get(api, {"max_tokens": 1})}
    for name, field in TABLE[api].kinds[ANY].fields.items():
        for value in forms(field, DEPTH):
            yield {**least, name: value}
    yield {**least, SECRET: SECRET}
    yield {**least, "model": SECRET}


def forms(field: Field, depth: int) -> Iterator[object]:
    """Yield values of a field that hold the text: right ones and wrong ones."""
    yield SECRET
    yield [SECRET]
    yield {SECRET: SECRET}
    if depth and field.items is not None:
        yield from ([one] for one in forms(field.items, depth - 1))
    for name, kind in field.kinds.items() if depth else ():
        named = {field.key: name} if field.key and name != ANY else {}
        for inner, one in kind.fields.items():
            yield {**named, inner: next(iter(forms(one, depth - 1)))}


def encoded(text: str) -> tuple[bytes, ...]:
    """Return the text as a sink may hold it: plain, UTF-16, hexadecimal, and Base64 at each offset."""
    raw = text.encode()
    shifted = (base64.b64encode(b"x" * pad + raw)[4 if pad else 0 : -4] for pad in range(3))
    return (raw, text.encode("utf-16-le"), raw.hex().encode(), *shifted)


@dataclass(frozen=True)
class Bucket:
    """The payloads in S3."""

    endpoint: str
    name: str

    def names(self) -> list[str]:
        return [one["Key"] for one in self._client.list_objects_v2(Bucket=self.name).get("Contents", [])]

    def found(self, wanted: tuple[bytes, ...]) -> Iterator[str]:
        """Yield the objects that have it in their content, name or headers."""
        for name in self.names():
            told = self._client.get_object(Bucket=self.name, Key=name)
            raw = told["Body"].read() + str({**told, "Key": name}).encode()
            if any(one in raw for one in wanted):
                yield f"s3 {name}"

    @property
    def _client(self) -> "S3Client":
        return boto3.client("s3", endpoint_url=self.endpoint)


@dataclass(frozen=True)
class Sinks:
    """Everything that outlives a request: rows, stores, files, open files of processes, pages of metrics, spans."""

    home: Path
    dsn: str
    redis_url: str
    bucket: Bucket

    def found(self, text: str) -> list[str]:
        """Return the places of the text, in the database by column."""
        wanted = encoded(text)
        stores = (*self._in_redis(wanted), *self._in_files(wanted), *self.bucket.found(wanted))
        return sorted({*asyncio.run(self._in_rows(wanted)), *stores})

    async def _in_rows(self, wanted: tuple[bytes, ...]) -> list[str]:
        connection = await asyncpg.connect(self.dsn)
        try:
            tables = await connection.fetch("select tablename from pg_tables where schemaname = 'public'")
            places = set[str]()
            for (table,) in tables:
                for row in await connection.fetch(f"select * from {table}"):  # noqa: S608  our own names
                    for column, value in row.items():
                        raw = value if isinstance(value, bytes) else str(value).encode()
                        if any(one in raw for one in wanted):
                            places.add(f"{table}.{column}")
            return sorted(places)
        finally:
            await connection.close()

    def _in_redis(self, wanted: tuple[bytes, ...]) -> Iterator[str]:
        databases = (f"{self.redis_url}?db={number}" for number in (0, 1))
        for client in map(redis.Redis.from_url, databases):
            for key in client.scan_iter(count=1000):
                stored = client.dump(key) or b""
                if any(one in key or one in stored for one in wanted):
                    yield f"redis {key!r}"

    def _in_files(self, wanted: tuple[bytes, ...]) -> Iterator[str]:
        """Of the home, but not the database's own: its rows were read, and labels stand in them."""
        for path in self.home.rglob("*"):
            if path.is_file() and "postgres" not in path.relative_to(self.home).parts[:1]:
                raw = path.read_bytes()
                if any(one in raw for one in wanted):
                    yield str(path.relative_to(self.home))

    def in_database_files(self, text: str) -> list[str]:
        """Return the database's own files, with its log and its write-ahead log, that hold the text."""
        wanted = encoded(text)
        files = (path for path in (self.home / "postgres").rglob("*") if path.is_file())
        return [path.name for path in files if any(one in path.read_bytes() for one in wanted)]


def open_files(pids: list[int]) -> Iterator[bytes]:
    """Yield the content of each regular file that a process has open for writing, deleted or not."""
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                flags = int(Path(f"/proc/{pid}/fdinfo/{link.name}").read_text().split("flags:")[1].split()[0], 8)
                if flags & 3 and link.is_file():
                    yield link.read_bytes()
            except OSError:
                continue


def line(model: str) -> bytes:
    """Return a batch's line with the text in its request and its id."""
    body = {"model": model, "messages": [{"role": "user", "content": SECRET}], "max_tokens": 4, "user": SECRET}
    told = {"custom_id": SECRET, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(told).encode()
