"""Writes the two result files of a batch: each line of its input once, in exactly one of them.

The output file has the lines that were answered with a status below 400, the error file all others with their error.
Bodies are copied as they were stored, segment by segment.

Trade-off: identifiers stay in memory, 50,000 at most, so that results are read in the order in which they were stored.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import msgspec

from penstock.domain.errors import PenstockError
from penstock.domain.ids import TenantId
from penstock.domain.jobs.batch import Batch, Counts, EndedLine, Tokens
from penstock.domain.jobs.errors import PayloadGone, PayloadUnreadable
from penstock.domain.jobs.file import object_of
from penstock.domain.jobs.ids import FileId, ObjectId
from penstock.domain.jobs.job import Reason
from penstock.domain.jobs.payload import PayloadStore, PayloadWriter
from penstock.jobs.lines import LineReader
from penstock.jobs.validation import LineRefused, taken_apart

WINDOW_BYTES = 4 << 20
"""Bytes of stored results in memory at once, beside those of one longer answer."""
LONGEST_LINE = 256 << 20
"""Bytes of an input line: the file was judged, so that its own size bounds it."""
RESULT_LOST = "result_lost"
CODES = {Reason.DEADLINE: "batch_expired", Reason.CALLER: "batch_cancelled", Reason.KEY_REVOKED: "key_revoked"}
MESSAGES = {
    "batch_expired": "This request could not be executed before the completion window expired.",
    "batch_cancelled": "This request was not executed because the batch was cancelled.",
    "key_revoked": "This request was not executed because the key of its batch was revoked.",
    RESULT_LOST: "This request was answered, and its stored answer can't be read.",
}
"""OpenAI's own words, if it has any."""


class Assembled(NamedTuple):
    """What was written: bytes of both files (0 if a file has no line, and there is none), counts, tokens."""

    output_bytes: int
    error_bytes: int
    counts: Counts
    tokens: Tokens


@dataclass(slots=True)
class _Sum:
    completed: int = 0
    failed: int = 0
    total: int = 0
    prompt: int = 0
    output: int = 0

    def add(self, line: EndedLine, *, is_answered: bool) -> None:
        self.total += 1
        if is_answered:
            self.completed += 1
            self.prompt += line.prompt_tokens
            self.output += line.output_tokens
        elif line.reason not in CODES:
            self.failed += 1


class _File:
    def __init__(self, writer: PayloadWriter) -> None:
        self._writer, self._has_lines = writer, False

    async def write(self, lines: Sequence[bytes]) -> None:
        if lines:
            self._has_lines = True
            await self._writer.write(b"".join(lines))

    async def close(self) -> int:
        """Return the file's bytes; 0 if it would be empty, and is left out."""
        return await self._writer.commit() if self._has_lines else 0


async def assemble(
    payloads: PayloadStore, batch: Batch, pages: AsyncIterator[Sequence[EndedLine]], files: tuple[FileId, FileId]
) -> Assembled:
    """Write both files from the lines' rows, which come in the order of their stored answers."""
    ids, total = await _custom_ids(payloads, batch), _Sum()
    output, errors = (payloads.writer(batch.tenant, object_of(file)) for file in files)
    async with output as answers, errors as refusals:
        into = (_File(answers), _File(refusals))
        async for page in pages:
            for name, lines in groupby(page, key=_answer_of):
                async for window, data in _stored(payloads, batch.tenant, name, tuple(lines)):
                    await _write(window, data, ids, into, total)
        output_bytes, error_bytes = await into[0].close(), await into[1].close()
    counts = Counts(total=total.total, completed=total.completed, failed=total.failed)
    return Assembled(output_bytes, error_bytes, counts, Tokens(prompt=total.prompt, output=total.output))


def _answer_of(line: EndedLine) -> ObjectId:
    return line.answer


async def _custom_ids(payloads: PayloadStore, batch: Batch) -> Mapping[int, str]:
    """Return the lines' identifiers by number; none if the file was lost meanwhile."""
    found: dict[int, str] = {}
    reader = LineReader(LONGEST_LINE)
    try:
        async for piece in payloads.read(batch.tenant, batch.input_object):
            for line in reader.feed(piece):
                found[line.number] = _custom_id(line.raw)
            await asyncio.sleep(0)
    except (PayloadGone, PayloadUnreadable):
        return found
    return found | {line.number: _custom_id(line.raw) for line in reader.end()}


def _custom_id(raw: bytes) -> str:
    try:
        return taken_apart(raw).custom_id
    except LineRefused:
        return ""


async def _stored(
    payloads: PayloadStore, tenant: TenantId, name: ObjectId, lines: Sequence[EndedLine]
) -> AsyncIterator[tuple[Sequence[EndedLine], bytes | None]]:
    """Yield lines with the stored bytes from the first one's answer on; None if these are lost."""
    if not name:
        yield lines, None
        return
    first = 0
    while first < len(lines):
        last, at = first, lines[first].at
        while last < len(lines) and (last == first or lines[last].at + lines[last].size - at <= WINDOW_BYTES):
            last += 1
        window = lines[first:last]
        size = window[-1].at + window[-1].size - at
        try:
            data: bytes | None = await payloads.get(tenant, name, at, size)
        except (PayloadGone, PayloadUnreadable):
            data = None
        yield window, data
        first = last


async def _write(
    lines: Sequence[EndedLine],
    data: bytes | None,
    ids: Mapping[int, str],
    into: tuple[_File, _File],
    total: _Sum,
) -> None:
    written: tuple[list[bytes], list[bytes]] = ([], [])
    for line in lines:
        body = None if data is None or line.was_stopped else data[line.at - lines[0].at :][: line.size]
        is_answered = body is not None and line.is_answered
        total.add(line, is_answered=is_answered)
        written[0 if is_answered else 1].append(line_of(line, ids.get(line.number), body))
    for file, texts in zip(into, written, strict=True):
        await file.write(texts)
    await asyncio.sleep(0)


def line_of(line: EndedLine, custom_id: str | None, body: bytes | None) -> bytes:
    """Return a line of a result file, as OpenAI writes it."""
    response = error = None
    if body is not None:
        raw = msgspec.Raw(body.replace(b"\n", b" ").replace(b"\r", b" "))
        response = {"status_code": line.status, "request_id": line.request, "body": raw}
    else:
        code = code_of(line)
        error = {"code": code, "message": MESSAGES.get(code) or _said().get(code) or "The request failed."}
    return msgspec.json.encode({"id": line.name, "custom_id": custom_id, "response": response, "error": error}) + b"\n"


def code_of(line: EndedLine) -> str:
    """Return why a line has no answer."""
    return CODES.get(line.reason) or (RESULT_LOST if line.answer else line.error or PenstockError.code)


def _said() -> Mapping[str, str]:
    """Return each error's own sentence by its code."""
    kinds, found = [PenstockError], dict[str, str]()
    while kinds:
        kind = kinds.pop()
        found.setdefault(kind.code, (kind.__doc__ or "").strip())
        kinds += kind.__subclasses__()
    return found
