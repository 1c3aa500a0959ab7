import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from penstock.domain.fleet.table import Route, RoutingTable, Share
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.jobs.batch import LineFault
from penstock.domain.models.model import Task
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.tenant import Plan, Principal
from penstock.gateway.openai.bounds import BodyBounds
from penstock.gateway.openai.reading import BodyReader
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver
from penstock.jobs import validation
from penstock.jobs.lines import BYTE_ORDER_MARK
from penstock.jobs.validation import MOST_FAULTS, Checked, Validator, tokens_of
from tests.support.samples.calls import VERSION, principal

NEW = replace(VERSION, id=VersionId("toy@ba9876543210"), digest="ba9876543210" + "0" * 52)
THEIRS = replace(VERSION, id=VersionId("dear@ba9876543210"), digest="ba9876543210" + "1" * 52)
THEIRS = replace(THEIRS, tenants=(TenantId("globex"),))
EMBEDS = replace(VERSION, id=VersionId("embed@0123456789ab"), digest="0123456789ab" + "2" * 52, task=Task.EMBED)
CHAT = {"messages": [{"role": "user", "content": "How are you?"}], "max_tokens": 16}


def table() -> CurrentTable:
    """Return a table whose alias is half rolled out, with an embedding model, an auto alias, and another's model."""
    halves = tuple(Share(version=version.id, weight=5_000) for version in (VERSION, NEW))
    toy = Route(alias=Alias("toy"), shares=halves)
    current, auto = CurrentTable(), Auto(alias=Alias("auto"), rules=(Rule(name="all", to=Alias("toy")),))
    versions = (VERSION, NEW, THEIRS, EMBEDS)
    current.swap(RoutingTable(number=1, made_at=0.0, routes=(toy,), versions=versions, autos=(auto,)), 0.0)
    return current


def validator(*, context: int = 2048) -> Validator:
    return Validator(
        names=TableResolver(table()),
        bodies=BodyReader(),
        bounds=lambda _: BodyBounds(context_tokens=context),
        region="eu",
        monotonic=lambda: 0.0,
    )


def line(number: int | str = 1, *, body: dict[str, Any] | None = None, **changes: Any) -> bytes:  # noqa: ANN401  any JSON
    asked = {"custom_id": f"c{number}", "method": "POST", "url": str(Api.CHAT), "body": {"model": "toy", **CHAT}}
    if body is not None:
        asked["body"] = {"model": "toy", **CHAT, **body}
    return json.dumps({**asked, **changes}).encode()


async def pieces(data: bytes, size: int = 1 << 20) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def judge(*lines: bytes, who: Principal | None = None, api: Api = Api.CHAT, end: bytes = b"\n") -> Checked:
    return await validator().judge(pieces(end.join(lines)), who or principal(), api)


async def only(*lines: bytes, who: Principal | None = None, api: Api = Api.CHAT) -> LineFault:
    """Return the only fault of a file."""
    checked = await judge(*lines, who=who, api=api)
    (fault,) = checked.faults
    return fault


async def test_lines_keep_their_ranges() -> None:
    """Each line has its body's range in the file; blank lines, CRLF, a mark and a missing last end do not matter."""
    data = BYTE_ORDER_MARK + b"\r\n".join([line(1), b"", line(2), line(3)])
    checked = await validator().judge(pieces(data, size=7), principal(), Api.CHAT)
    assert checked.faults == []
    bodies = [json.loads(data[one.at : one.at + one.size]) for one in checked.lines]
    assert bodies == [{"model": "toy", **CHAT}] * 3
    assert [one.number for one in checked.lines] == [1, 3, 4]


async def test_an_alias_is_one_version_for_the_whole_batch() -> None:
    """With an alias between two versions, lines of many users still go to one; a second model may stand beside it."""
    users = [line(number, body={"user": f"u{number}"}) for number in range(50)]
    checked = await judge(*users, line("last", body={"model": str(NEW.id)}))
    assert len({one.version for one in checked.lines[:-1]}) == 1
    assert checked.versions == {"toy": checked.lines[0].version, NEW.id: NEW.id}


FAULTS = {
    "no JSON": (b'{"custom_id": ', "invalid_json_line", ""),
    "a list": (b"[1]", "invalid_json_line", ""),
    "no UTF-8": (line(2).replace(b"c2", b"c\xff"), "invalid_json_line", ""),
    "no UTF-8 in the body": (line(2).replace(b"How", b"\xc3("), "malformed_body", "body"),
    "no custom_id": (
        b'{"method": "POST", "url": "/v1/chat/completions", "body": {}}',
        "invalid_custom_id",
        "custom_id",
    ),
    "an empty custom_id": (line(2, custom_id=""), "invalid_custom_id", "custom_id"),
    "a number as custom_id": (line(2, custom_id=2), "invalid_custom_id", "custom_id"),
    "null": (b"null", "invalid_json_line", ""),
    "a number as method": (line(2, method=1), "invalid_method", "method"),
    "no url": (line(2, url=None), "invalid_url", "url"),
    "a long custom_id": (line(2, custom_id="x" * 513), "invalid_custom_id", "custom_id"),
    "a repeated custom_id": (line(1), "duplicate_custom_id", "custom_id"),
    "an unknown field": (line(2, priority=1), "unsupported_field", "priority"),
    "another method": (line(2, method="GET"), "invalid_method", "method"),
    "another url": (line(2, url="/v1/embeddings"), "invalid_url", "url"),
    "an unknown model": (line(2, body={"model": "no"}), "model_not_found", "body.model"),
    "another tenant's model": (line(2, body={"model": THEIRS.id}), "model_not_found", "body.model"),
    "a model of another kind": (line(2, body={"model": EMBEDS.id}), "unsupported_by_model", "body.model"),
    "an auto alias": (line(2, body={"model": "auto"}), "unsupported_by_model", "body.model"),
    "a body's field": (line(2, body={"temperature": "hot"}), "invalid_field", "body.temperature"),
    "a body's unknown field": (line(2, body={"tempratur": 1}), "unsupported_field", "body.tempratur"),
    "a body that is a list": (
        line(2).replace(json.dumps({"model": "toy", **CHAT}).encode(), b"[]"),
        "malformed_body",
        "body",
    ),
    "a stream": (line(2, body={"stream": True}), "invalid_field", "body.stream"),
    "a service tier": (line(2, body={"service_tier": "priority"}), "invalid_field", "body.service_tier"),
    "another region": (line(2, body={"inference_geo": "us"}), "unsupported_field", "body.inference_geo"),
    "a line of 20 MB": (line(2, body={"user": "x" * 20_000_000}), "line_too_large", ""),
}


@pytest.mark.parametrize("kind", FAULTS)
async def test_faults_name_line_code_and_parameter(kind: str) -> None:
    """Each fault is told with its line, and the good lines around it are not."""
    wrong, code, param = FAULTS[kind]
    fault = await only(line(1), b"", wrong, line(4))
    assert (fault.line, fault.code, fault.param) == (3, code, param)
    assert "How are you" not in fault.message


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        (line(2).replace(b'"method"', b'"my secret prompt": 1, "method"'), ""),
        (line(2, body={"my secret prompt": 1}), "body"),
        (line(2, body={"s" * 41: "secret"}), "body"),
        (line(2, body={"stream_options": {"my secret.prompt": 1}}), "body.stream_options"),
        (line(2, body={"model": "my secret prompt"}), "body.model"),
    ],
)
async def test_a_fault_keeps_no_name_that_is_a_sentence(wrong: bytes, param: str) -> None:
    """Its row is in the clear for 30 days: such a field is told by its place alone."""
    fault = await only(line(1), wrong)
    assert (fault.line, fault.param) == (2, param)
    assert "secret" not in fault.message
    assert "sssss" not in fault.message


async def test_a_key_without_the_model_is_refused_like_an_unknown_one() -> None:
    """A model inside the file is checked against the key, and not only the batch's own fields."""
    fault = await only(line(1), who=principal(models=(Alias("other"),)))
    assert (fault.code, fault.param, fault.line) == ("model_not_found", "body.model", 1)


@pytest.mark.parametrize("data", [b"", b"\n \r\n", BYTE_ORDER_MARK])
async def test_empty_files(data: bytes) -> None:
    """A file without a request is refused as a whole."""
    fault = await only(data)
    assert (fault.code, fault.line) == ("empty_file", 0)


async def test_more_lines_than_a_batch_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line beyond the bound ends the reading, and is the file's fault; a blank one is none."""
    monkeypatch.setattr(validation, "MOST_LINES", 50)
    fault = await only(*(line(number) for number in range(51)))
    assert (fault.code, fault.line) == ("too_many_lines", 0)
    assert (await judge(*(line(number) for number in range(50)), b"")).faults == []


async def test_a_file_with_many_faults_is_read_no_further() -> None:
    """At most a hundred faults are told."""
    checked = await judge(*[b"no"] * 500)
    assert [fault.line for fault in checked.faults] == list(range(1, MOST_FAULTS + 1))


async def test_inputs_of_all_embeddings_are_counted() -> None:
    """50,000 inputs in all are accepted, one more is not: they are no zero tokens either."""
    body = {"model": str(EMBEDS.id), "input": ["text"] * 2_000}
    lines = [line(number, url=str(Api.EMBEDDINGS)) for number in range(26)]
    lines = [json.dumps({**json.loads(one), "body": body}).encode() for one in lines]
    assert all(one.cost_tokens >= 2_000 for one in (await judge(*lines[:25], api=Api.EMBEDDINGS)).lines)
    fault = await only(*lines, api=Api.EMBEDDINGS)
    assert (fault.line, fault.param) == (26, "body.input")


def test_tokens_are_bounded_by_context_and_plan() -> None:
    """Without ``max_tokens`` the plan's or the context's bound counts; the prompt counts by its bytes."""
    cost = Cost(body_bytes=400)
    assert tokens_of(cost, VERSION, principal()) == (100, VERSION.max_model_len - 100)
    assert tokens_of(cost, VERSION, principal(plan=Plan(max_output_tokens=50))) == (100, 50)
    assert tokens_of(cost.with_output(16), VERSION, principal()) == (100, 16)
