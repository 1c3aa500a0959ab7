"""Judges the input file of a batch, line by line, before anything runs: as each API's own parser would.

Each fault has a code, a parameter and a line. Memory holds one line and, for each accepted one, its range, version and
cost. Large bodies are parsed in a child process, small ones here, in slices.

Trade-off: prompts are not tokenised, so one that is too long for its model fails when it runs.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import takewhile
from typing import NamedTuple, Protocol

import msgspec

from penstock.domain.errors import BadRequest, InvalidField, MalformedBody, UnknownModel, UnsupportedByModel
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import RequestId, VersionId
from penstock.domain.jobs.batch import MOST_LINES, LineFault
from penstock.domain.money import MicroUsd
from penstock.domain.serving.auto import Auto
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.deferred import shapes
from penstock.gateway.openai.bounds import BodyBounds
from penstock.gateway.openai.parse import Parsed
from penstock.jobs.accepting import check
from penstock.jobs.lines import Line, LineReader

MOST_FAULTS = 100
"""Faults that are told: a file with more has one cause."""
MOST_INPUTS = 50_000
"""Inputs of all embeddings requests of one batch: OpenAI's bound."""
MOST_ID_CHARS = 512
"""Characters of a ``custom_id``: those of a value in metadata."""
ENVELOPE_BYTES = 8 << 10
"""Bytes of a line beside its body: the longest ``custom_id``, escaped, and the names of fields."""
SLICE_S = 0.004
"""Seconds of judging after which the loop's other tasks run: a token of a stream comes no later."""
BYTES_PER_TOKEN = 4
"""A token is 4 to 5 characters of English, and two or three bytes of Chinese."""
METHOD = "POST"
FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}(\[\d{1,9}\])*")
"""Names of fields that a fault keeps, since its row is in the clear: no API's own is longer, or holds a sentence."""
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,127}")
"""Names of models that a fault keeps."""
UNTOLD = "a field in this place has a name that the API does not have: leave it out"
_ENVELOPE = {"custom_id": "invalid_custom_id", "method": "invalid_method", "url": "invalid_url"}


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


class Asked(NamedTuple):
    custom_id: str
    method: str
    url: str
    body: bytes


class CheckedLine(NamedTuple):
    """An accepted line: its body's range in the file, its model by name and version, what it may cost."""

    number: int
    at: int
    size: int
    model: str
    version: VersionId
    cost_tokens: int
    cost_micro_usd: MicroUsd


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A judged file: without faults all of its lines may run."""

    lines: list[CheckedLine] = field(default_factory=list)
    faults: list[LineFault] = field(default_factory=list)
    versions: Mapping[str, VersionId] = field(default_factory=dict)


class Names(Protocol):
    """The routing table's names, as a caller sees them."""

    def resolve(self, request: InferenceRequest, principal: Principal) -> VersionEntry: ...

    def auto(self, name: str, principal: Principal) -> Auto | None: ...


class Bodies(Protocol):
    async def read(self, who: str, api: Api, raw: bytes, bounds: BodyBounds) -> tuple[Parsed, str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Validator:
    """Judges files; ``monotonic`` is the clock of its slices."""

    names: Names
    bodies: Bodies
    bounds: Callable[[Principal], BodyBounds]
    region: str
    monotonic: Callable[[], float]

    async def judge(self, pieces: AsyncIterator[bytes], who: Principal, api: Api) -> Checked:
        """Return the lines, or the file's first faults; raises what ``pieces`` raises."""
        bounds = self.bounds(who)
        judging = _Judging(self, who, api, bounds)
        reader = LineReader(bounds.body_bytes(api) + ENVELOPE_BYTES)
        until = self.monotonic() + SLICE_S
        async for piece in pieces:
            for line in reader.feed(piece):
                await judging.take(line)
                if judging.is_done:
                    return judging.checked()
                if self.monotonic() > until:
                    await asyncio.sleep(0)
                    until = self.monotonic() + SLICE_S
        for line in reader.end():
            await judging.take(line)
        return judging.checked()


class _Judging:
    def __init__(self, by: Validator, who: Principal, api: Api, bounds: BodyBounds) -> None:
        self._by, self._who, self._api, self._bounds = by, who, api, bounds
        self._lines: list[CheckedLine] = []
        self._faults: list[LineFault] = []
        self._versions: dict[str, VersionEntry | BadRequest] = {}
        self._seen: dict[bytes, int] = {}
        self._inputs = 0
        self.is_done = False

    async def take(self, line: Line) -> None:
        if len(self._lines) == MOST_LINES:
            self._file_fault("too_many_lines", f"a batch has at most {MOST_LINES} requests: split the file")
            self.is_done = True
            return
        try:
            self._lines.append(await self._checked(line))
        except LineRefused as refused:
            self._fault(refused.fault, line.number)
        except BadRequest as error:
            param = f"body.{error.param}" if error.param else "body"
            self._fault(LineFault(code=error.code, message=error.message, param=param), line.number)

    def checked(self) -> Checked:
        if not self._lines and not self._faults:
            self._file_fault("empty_file", "the file has no request: write one on each line")
        versions = {name: one.id for name, one in self._versions.items() if isinstance(one, VersionEntry)}
        return Checked(lines=self._lines, faults=self._faults, versions=versions)

    async def _checked(self, line: Line) -> CheckedLine:
        if not line.raw:
            most = self._bounds.body_bytes(self._api)
            raise LineRefused("line_too_large", f"the line has {line.size} bytes; a body has at most {most} here")
        asked = taken_apart(line.raw)
        self._once(asked.custom_id, line.number)
        if asked.method != METHOD:
            raise LineRefused("invalid_method", "method must be POST", "method")
        if asked.url != self._api:
            raise LineRefused("invalid_url", f"url must be the batch's endpoint, {self._api}", "url")
        parsed, _ = await self._by.bodies.read(self._who.tenant, self._api, asked.body, self._bounds)
        self._check(parsed)
        version = self._version(parsed.model)
        prompt, output = tokens_of(parsed.cost, version, self._who)
        price = version.price.at(self._who.tier.price_factor).of(prompt=prompt, cached=0, output=output)
        at = line.at + line.raw.find(asked.body)
        return CheckedLine(line.number, at, len(asked.body), parsed.model, version.id, prompt + output, price)

    def _once(self, custom_id: str, number: int) -> None:
        mark = blake2b(custom_id.encode(), digest_size=16).digest()
        first = self._seen.setdefault(mark, number)
        if first != number:
            raise LineRefused("duplicate_custom_id", f"line {first} has this custom_id already", "custom_id")

    def _check(self, parsed: Parsed) -> None:
        check(self._who, self._api, parsed, self._by.region)
        if self._api is Api.EMBEDDINGS:
            self._inputs += parsed.cost.prompts
            if self._inputs > MOST_INPUTS:
                raise InvalidField(f"the inputs of a batch are at most {MOST_INPUTS} in all", param="input")

    def _version(self, name: str) -> VersionEntry:
        found = self._versions.get(name)
        if found is None:
            try:
                found = self._resolved(name)
            except BadRequest as error:
                found = error if MODEL.fullmatch(name) else UnknownModel(param="model")
            self._versions[name] = found
        if isinstance(found, BadRequest):
            raise found
        return found

    def _resolved(self, name: str) -> VersionEntry:
        if self._by.names.auto(name, self._who) is not None:
            raise UnsupportedByModel("an auto alias has a model for each request: name one of them", param="model")
        request = InferenceRequest(
            id=RequestId(""),
            api=self._api,
            model=name,
            body={},
            stream=False,
            include_usage=False,
            cost=Cost(),
            arrived_at=0.0,
        )
        return self._by.names.resolve(request, self._who)

    def _fault(self, fault: LineFault, number: int) -> None:
        self._faults.append(_told(fault, number))
        self.is_done = len(self._faults) >= MOST_FAULTS

    def _file_fault(self, code: str, message: str) -> None:
        self._faults.append(LineFault(code=code, message=message))


def _told(fault: LineFault, number: int) -> LineFault:
    names = fault.param.split(".") if fault.param else []
    known = list(takewhile(FIELD.fullmatch, names))
    if len(known) < len(names):
        return LineFault(code=fault.code, message=UNTOLD, param=".".join(known), line=number)
    return LineFault(code=fault.code, message=fault.message, param=fault.param, line=number)


class LineRefused(Exception):
    """A fault of a line beside its body."""

    def __init__(self, code: str, message: str, param: str = "") -> None:
        super().__init__(message)
        self.fault = LineFault(code=code, message=message, param=param)


def taken_apart(raw: bytes) -> Asked:
    """Return a line's parts, the body as its JSON; raises ``LineRefused``, and ``MalformedBody`` for a body only."""
    try:
        line = shapes.body(raw, _Line)
    except MalformedBody as error:
        raise LineRefused("invalid_json_line", "the line is not a JSON object in UTF-8") from error
    except InvalidField as error:
        code = "invalid_json_line" if error.param is None else _ENVELOPE.get(error.param, error.code)
        raise LineRefused(code, error.message, error.param or "") from error
    if not 1 <= len(line.custom_id) <= MOST_ID_CHARS:
        raise LineRefused("invalid_custom_id", f"custom_id has 1 to {MOST_ID_CHARS} characters", "custom_id")
    return Asked(line.custom_id, line.method, line.url, bytes(line.body))


def tokens_of(cost: Cost, version: VersionEntry, who: Principal) -> tuple[int, int]:
    """Return a request's tokens before it is tokenised: its prompt's by bytes, its output's by bounds."""
    if version.handler is not None and version.counts_by_item:
        return version.handler.item_tokens * cost.prompts + cost.decode_tokens, 0
    context = who.context(version.max_model_len)
    counted = cost.with_prompt(max(1, cost.body_bytes // BYTES_PER_TOKEN), is_counted=True).within(context)
    most = who.plan.max_output_tokens
    output = min(counted.output_tokens, most * cost.sequences) if most else counted.output_tokens
    return counted.prompt_tokens, output
