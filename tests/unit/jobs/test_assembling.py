import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.jobs.batch import EndedLine, Tokens
from penstock.domain.jobs.errors import PayloadGone
from penstock.domain.jobs.file import object_of
from penstock.domain.jobs.ids import FileId, JobName, ObjectId
from penstock.domain.jobs.job import JobState, Reason
from penstock.jobs.assembling import assemble
from tests.unit.domain.jobs.test_batch import NEW
from tests.unit.jobs.test_validation import line

FILES = (FileId("file-2"), FileId("file-3"))
ANSWER = b'{"object": "chat.completion",\n "choices": []}'


class Writer:
    def __init__(self, kept: dict[ObjectId, bytes], name: ObjectId) -> None:
        self._kept, self._name, self._data = kept, name, b""

    async def write(self, data: bytes) -> None:
        self._data += data

    async def commit(self) -> int:
        self._kept[self._name] = self._data
        return len(self._data)


class Kept:
    """Objects in a dictionary: for tests of what is written, not of how it is kept."""

    def __init__(self) -> None:
        self.objects: dict[ObjectId, bytes] = {}

    @asynccontextmanager
    async def writer(self, tenant: TenantId, name: ObjectId) -> AsyncIterator[Writer]:
        yield Writer(self.objects, name)

    async def read(
        self, tenant: TenantId, name: ObjectId, at: int = 0, size: int | None = None
    ) -> AsyncIterator[bytes]:
        yield await self.get(tenant, name, at, size)

    async def get(self, tenant: TenantId, name: ObjectId, at: int = 0, size: int | None = None) -> bytes:
        if name not in self.objects:
            raise PayloadGone
        return self.objects[name][at:][: len(self.objects[name]) if size is None else size]

    async def put(self, tenant: TenantId, name: ObjectId, data: bytes) -> None:
        self.objects[name] = data

    async def delete(self, name: ObjectId) -> None:
        self.objects.pop(name, None)

    async def names(self, before: float) -> AsyncIterator[tuple[ObjectId, ...]]:
        yield tuple(self.objects)

    async def sweep(self, before: float) -> int:
        return 0


class Way(NamedTuple):
    """How a line can end."""

    state: JobState
    reason: Reason = Reason.NONE
    error: str = ""
    status: int = 0


DONE = Way(JobState.SUCCEEDED, status=200)
REFUSED = Way(JobState.FAILED, Reason.REFUSED, "invalid_field", 400)
DEAD = Way(JobState.FAILED, Reason.DEAD_LETTER, "worker_lost")
LATE = Way(JobState.FAILED, Reason.DEADLINE, "deadline_exceeded", 504)
CANCELLED = Way(JobState.CANCELLED, Reason.CALLER)
REVOKED = Way(JobState.CANCELLED, Reason.KEY_REVOKED)


def ended(number: int, way: Way, answer: str = "", *, at: int = 0) -> EndedLine:
    return EndedLine(
        number=number,
        name=JobName(f"batch_req_{number}"),
        state=way.state,
        reason=way.reason,
        error=way.error,
        status=way.status,
        request=RequestId(f"req-{number}" if way.status else ""),
        answer=ObjectId(answer),
        at=at,
        size=len(ANSWER) if answer else 0,
        prompt_tokens=3,
        output_tokens=5,
    )


def lines_of(kept: Kept, file: FileId) -> list[dict[str, object]]:
    return [json.loads(one) for one in kept.objects.get(object_of(file), b"").splitlines()]


async def paged(rows: Sequence[EndedLine], size: int = 3) -> AsyncIterator[Sequence[EndedLine]]:
    rows = sorted(rows, key=lambda row: (row.answer, row.at))
    for at in range(0, len(rows), size):
        yield rows[at : at + size]


def stored(rows: Sequence[EndedLine]) -> Kept:
    kept = Kept()
    kept.objects[NEW.input_object] = b"\n".join(line(row.number) for row in sorted(rows, key=lambda row: row.number))
    for row in rows:
        if row.answer and "lost" not in row.answer:
            kept.objects[row.answer] = kept.objects.get(row.answer, b"").ljust(row.at, b"?") + ANSWER
    return kept


async def test_both_files() -> None:
    """Answers stand in the output file; errors of the API with status and body, and other ends, in the error file."""
    rows = [
        ended(1, DONE, "batch/1/1-1"),
        ended(2, REFUSED, "batch/1/1-2"),
        ended(3, LATE, "batch/1/1-2", at=len(ANSWER)),
        ended(4, CANCELLED),
        ended(5, DEAD),
        ended(6, DONE, "batch/1/lost"),
        ended(7, REVOKED),
    ]
    kept = stored(rows)
    done = await assemble(kept, NEW, paged(rows), FILES)
    (answer,) = lines_of(kept, FILES[0])
    assert answer == {
        "id": "batch_req_1",
        "custom_id": "c1",
        "response": {"status_code": 200, "request_id": "req-1", "body": json.loads(ANSWER)},
        "error": None,
    }
    errors = {one["custom_id"]: one for one in lines_of(kept, FILES[1])}
    assert errors["c2"]["response"] == {"status_code": 400, "request_id": "req-2", "body": json.loads(ANSWER)}
    assert errors["c2"]["error"] is None
    codes = {name: one["error"]["code"] for name, one in errors.items() if isinstance(one["error"], dict)}
    assert codes == {
        "c3": "batch_expired",
        "c4": "batch_cancelled",
        "c5": "worker_lost",
        "c6": "result_lost",
        "c7": "key_revoked",
    }
    assert all(one["error"]["message"] for one in errors.values() if isinstance(one["error"], dict))
    assert (done.counts.total, done.counts.completed, done.counts.failed) == (7, 1, 3)
    assert done.tokens == Tokens(prompt=3, output=5)
    assert (done.output_bytes, done.error_bytes) == tuple(len(kept.objects[object_of(file)]) for file in FILES)


async def test_a_file_without_a_line_is_not_made() -> None:
    """If all lines were answered there is no error file, and the other way round."""
    rows = [ended(1, DONE, "batch/1/1-1")]
    kept = stored(rows)
    assert (await assemble(kept, NEW, paged(rows), FILES)).error_bytes == 0
    assert object_of(FILES[1]) not in kept.objects


WAYS = st.sampled_from([DONE, REFUSED, DEAD, LATE, CANCELLED, REVOKED])


@given(ends=st.lists(st.tuples(WAYS, st.integers(1, 3)), max_size=30), size=st.integers(1, 7))
async def test_each_line_once_in_one_file(ends: list[tuple[Way, int]], size: int) -> None:
    """However lines end, in whichever segments: output + error = total, and each ``custom_id`` once."""
    rows, lengths = [], dict[str, int]()
    for number, (way, segment) in enumerate(ends, start=1):
        answer = f"batch/1/{segment}" if way.status else ""
        rows.append(ended(number, way, answer, at=lengths.get(answer, 0)))
        lengths[answer] = lengths.get(answer, 0) + len(ANSWER)
    kept = stored(rows)
    done = await assemble(kept, NEW, paged(rows, size), FILES)
    output, errors = (lines_of(kept, file) for file in FILES)
    assert len(output) + len(errors) == done.counts.total == len(ends)
    assert sorted(str(one["custom_id"]) for one in output + errors) == sorted(f"c{row.number}" for row in rows)
    assert done.counts.completed == len(output) == sum(way is DONE for way, _ in ends)
    assert done.counts.failed == sum(way in (REFUSED, DEAD) for way, _ in ends)
