"""Files: batches' inputs are uploaded as multipart forms, their outputs read, both listed and deleted.

An upload is parsed as it comes and handed on piece by piece; the order of its parts is free. Its fields are checked as
soon as they are known, at the latest at its end.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from penstock.domain.errors import (
    BodyTooLarge,
    InvalidField,
    OverLimit,
    Overloaded,
    UnsupportedField,
)
from penstock.domain.ids import TenantId
from penstock.domain.jobs.file import (
    LEAST_KEPT_S,
    MOST_FILE_BYTES,
    MOST_KEPT_S,
    MOST_NAME_CHARS,
    PREFIX,
    FilePage,
    FilePurpose,
    StoredFile,
)
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.deferred import shapes
from penstock.gateway.deferred.access import Access
from penstock.gateway.deferred.forms import FormReader, Part
from penstock.gateway.openai import head
from penstock.intake.bodies import QUESTION, BodyBound
from penstock.intake.share import SharedRoom
from penstock.intake.types import Scope

MOST_JOB_BYTES = 16 << 20
"""A prompt that fills a context of a million tokens, in any language; the caller's own models lower it."""

MOST_FORM_BYTES = 64 << 10
"""Bytes of an upload beside its file."""
LEAST_UPLOAD_BYTES_S = 128 << 10
"""A slow home's line uploads; the largest file takes at most 27 minutes of one of the gateway's uploads."""
UPLOAD_BYTES = 2 << 20
"""Bytes of an upload in memory: a piece from the network, and what is sealed and not yet written."""

BODIES: Mapping[tuple[str, str], BodyBound] = {
    ("POST", "/v1/jobs"): BodyBound(most_bytes=MOST_JOB_BYTES),
    ("POST", "/v1/files"): BodyBound(
        most_bytes=MOST_FILE_BYTES + MOST_FORM_BYTES, least_bytes_s=LEAST_UPLOAD_BYTES_S, held_bytes=UPLOAD_BYTES
    ),
}


def bound_of(scope: Scope) -> BodyBound:
    return BODIES.get((scope.get("method", ""), scope.get("path", "")), QUESTION)


FILES = "/v1/files"
ONE = f"{FILES}/{{file}}"
MOST_VALUE_BYTES = 1024
"""Bytes of a field: a purpose, or a number of seconds."""
MOST_UPLOADS = 16
"""Uploads in progress at one gateway: each holds some 3 MB, in S3 some 20. One tenant may have a half of them."""
RETRY_S = 5.0
PIECE_BYTES = 256 << 10
"""Bytes written to a client at once: a megabyte takes 2 to 5 ms of the loop."""
USUAL_PAGE, MOST_PAGE = 1000, 10_000
"""OpenAI lists 10,000 files at a time; a page is never longer than the first, so that no stream waits for it."""
_ANCHOR, _SECONDS = "expires_after[anchor]", "expires_after[seconds]"
_FIELDS = frozenset({"purpose", _ANCHOR, _SECONDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWish:
    name: str
    purpose: FilePurpose
    expires_after_s: float


class Upload(Protocol):
    async def write(self, data: bytes) -> None: ...

    async def finish(self, wish: FileWish) -> StoredFile:
        """The file of an earlier upload under the idempotency key, if it is the same."""
        ...


class Files(Protocol):
    """The service behind these routes; files of other tenants raise ``UnknownObject``."""

    def upload(self, who: Principal, key: str, declared_bytes: int) -> AbstractAsyncContextManager[Upload]:
        """Reserves room; nothing of an upload that breaks off stays."""
        ...

    async def find(self, who: Principal, file: str) -> StoredFile: ...

    async def page(self, who: Principal, wanted: FilePage) -> tuple[tuple[StoredFile, ...], bool]:
        """Return a page's files, and whether there are more."""
        ...

    def content(self, who: Principal, file: StoredFile) -> AsyncIterator[bytes]: ...

    async def delete(self, who: Principal, file: str) -> None: ...


def add_files(api: FastAPI, access: Access, files: Files) -> None:
    room = SharedRoom(MOST_UPLOADS)

    @api.post(FILES)
    async def create(request: Request) -> Response:
        who = access.caller(request)
        key = head.idempotency_key(dict(request.headers.raw))
        form = _Form(request.headers.get("content-type", ""))
        with _one_upload(room, who.tenant):
            async with files.upload(who, key, _declared(request)) as upload:
                async for data in request.stream():
                    for piece in form.feed(data):
                        await upload.write(piece)
                return shapes.answer(told(await upload.finish(form.wish())))

    @api.get(FILES)
    async def page(request: Request) -> Response:
        who = access.caller(request)
        found, has_more = await files.page(who, _wanted(request))
        return shapes.listed([told(one) for one in found], has_more=has_more)

    @api.get(ONE)
    async def one(request: Request, file: str) -> Response:
        return shapes.answer(told(await files.find(access.caller(request), shapes.named(file, PREFIX))))

    @api.get(f"{ONE}/content")
    async def content(request: Request, file: str) -> Response:
        who = access.caller(request)
        found = await files.find(who, shapes.named(file, PREFIX))
        headers = {
            "content-length": str(found.size_bytes),
            "content-disposition": f"attachment; filename*=UTF-8''{quote(found.name, safe='')}",
        }
        pieces = files.content(who, found)
        first = await anext(pieces, b"")  # what can't be read is refused before the answer begins
        return StreamingResponse(_joined(first, pieces), headers=headers, media_type="application/octet-stream")

    @api.delete(ONE)
    async def delete(request: Request, file: str) -> Response:
        await files.delete(access.caller(request), shapes.named(file, PREFIX))
        return shapes.answer({"id": file, "object": "file", "deleted": True})


def told(file: StoredFile) -> dict[str, object]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size_bytes,
        "created_at": int(file.created_at),
        "expires_at": int(file.expires_at) or None,
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
    }


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the bytes in pieces that no stream beside waits long for."""
    for at in range(0, len(first), PIECE_BYTES):
        yield first[at : at + PIECE_BYTES]
    async for piece in rest:
        for at in range(0, len(piece), PIECE_BYTES):
            yield piece[at : at + PIECE_BYTES]


@contextmanager
def _one_upload(room: SharedRoom, tenant: TenantId) -> Iterator[None]:
    if not room.take(tenant, 1):
        if 2 * room.held(tenant) >= room.used:
            says = "this tenant has too many uploads in progress at this gateway"
            raise OverLimit(says, retry_after_s=RETRY_S, reason="tenant_uploads")
        raise Overloaded("this gateway has too many uploads in progress", retry_after_s=RETRY_S)
    try:
        yield
    finally:
        room.give(tenant, 1)


def _declared(request: Request) -> int:
    return int(request.headers.get("content-length", "0"))  # the HTTP parser lets only digits through


def _wanted(request: Request) -> FilePage:
    query = request.query_params
    asked = shapes.paged(query, usual=USUAL_PAGE, most=MOST_PAGE)
    purpose = query.get("purpose", "")
    if purpose and purpose not in set(FilePurpose):
        raise InvalidField(f"purpose is one of {', '.join(FilePurpose)}", param="purpose")
    limit = min(asked.limit, USUAL_PAGE)
    return FilePage(purpose=purpose, after=asked.after, limit=limit, is_oldest_first=asked.is_oldest_first)


class _Form:
    """Bytes of the file pass through, fields are kept."""

    def __init__(self, content_type: str) -> None:
        self._reader = FormReader(content_type)
        self._fields: dict[str, bytes] = {}
        self._part = Part("", None)
        self._file_name: str | None = None
        self._file_bytes = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        for found in self._reader.feed(data):
            if isinstance(found, Part):
                self._begin(found)
            elif self._part.name == "file":
                self._file_bytes += len(found)
                if self._file_bytes > MOST_FILE_BYTES:
                    raise BodyTooLarge(f"a file has at most {MOST_FILE_BYTES} bytes", param="file")
                yield found
            else:
                self._fields[self._part.name] += found
                if len(self._fields[self._part.name]) > MOST_VALUE_BYTES:
                    raise InvalidField(f"the field has more than {MOST_VALUE_BYTES} bytes", param=self._part.name)

    def wish(self) -> FileWish:
        """Raises the first fault, naming its field."""
        self._end_part()
        self._reader.end()
        if self._file_name is None:
            raise InvalidField("file is required", param="file")
        if "purpose" not in self._fields:
            raise InvalidField(f"purpose is required: {FilePurpose.BATCH}", param="purpose")
        has_anchor, seconds = _ANCHOR in self._fields, self._fields.get(_SECONDS)
        if has_anchor != (seconds is not None):
            missing = _SECONDS if has_anchor else _ANCHOR
            raise InvalidField("expires_after has both an anchor and seconds", param=missing)
        return FileWish(
            name=self._file_name, purpose=FilePurpose.BATCH, expires_after_s=0.0 if seconds is None else float(seconds)
        )

    def _begin(self, part: Part) -> None:
        self._end_part()
        if part.name == "file":
            if self._file_name is not None:
                raise InvalidField("the form has two files: send one", param="file")
            self._file_name = _file_name(part.filename)
        elif part.name not in _FIELDS:
            raise UnsupportedField("there is no such field: leave it out", param=part.name)
        elif part.name in self._fields:
            raise InvalidField("the field is given twice: give it once", param=part.name)
        else:
            self._fields[part.name] = b""
        self._part = part

    def _end_part(self) -> None:
        name = self._part.name
        if name in self._fields:
            _check_field(name, self._fields[name])


def _file_name(given: str | None) -> str:
    if given is None:
        raise InvalidField("send the file with a file name", param="file")
    if len(given) > MOST_NAME_CHARS or not given.isprintable():
        raise InvalidField(f"a file's name has at most {MOST_NAME_CHARS} printable characters", param="file")
    return given or "file"


def _check_field(name: str, value: bytes) -> None:
    if name == "purpose" and value != FilePurpose.BATCH.encode():
        raise InvalidField("purpose is batch: files are the inputs of batches here", param="purpose")
    if name == _ANCHOR and value != b"created_at":
        raise InvalidField("the anchor is created_at", param=name)
    if name == _SECONDS and not (value.isdigit() and LEAST_KEPT_S <= int(value[:9]) <= MOST_KEPT_S):
        raise InvalidField(f"a whole number of seconds from {LEAST_KEPT_S:.0f} to {MOST_KEPT_S:.0f}", param=name)
