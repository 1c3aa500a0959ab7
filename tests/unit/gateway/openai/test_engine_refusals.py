"""What the installed engine refuses, read from its source: each refusal names a field of the API, and a remedy."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from penstock.domain.errors import EngineRefused
from penstock.domain.serving.request import Api
from penstock.gateway.dispatch import verdict
from penstock.gateway.openai.blame import blamed
from penstock.gateway.openai.fields import Body
from penstock.gateway.openai.verdicts import ANY, TABLE

SOURCES: dict[Api, tuple[str, ...]] = {
    Api.CHAT: ("entrypoints/openai/chat_completion/protocol.py", "sampling_params.py"),
    Api.COMPLETIONS: ("entrypoints/openai/completion/protocol.py", "sampling_params.py"),
    Api.RESPONSES: ("entrypoints/openai/responses/protocol.py", "entrypoints/openai/responses/serving.py"),
}
UNREACHED = ("skip_tokenizer_init", "response_id", "trace_decode_token_ids", "extra_args")
"""Refusals of an engine set up otherwise, of stored responses, and of fields that no engine gets."""
RAISED = {"ValueError", "VLLMValidationError"}
SECRET = "the caller's own words"


def engine() -> Path:
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        pytest.skip("vLLM is not installed here")
    return Path(found.origin).parent


def text_of(node: ast.expr) -> str:
    """Return a message as the engine prints it; an object of its own holds the caller's values."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(one) for one in node.values)
    if isinstance(node, ast.FormattedValue):
        said = ast.unparse(node.value)
        own = str({"json": SECRET, "_backend": None}) if "__dict__" in said else "7"
        return "n" if said.endswith("_name") else own
    return "7"


def refusals(path: Path) -> Iterator[tuple[str, str]]:
    """Yield message and parameter of each exception that the file raises with words of its own."""
    for node in ast.walk(ast.parse(path.read_text())):
        call = node.exc if isinstance(node, ast.Raise) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in RAISED:
            continue
        if call.args and isinstance(call.args[0], ast.Constant | ast.JoinedStr):
            named = {one.arg: one.value for one in call.keywords}
            given = named.get("parameter")
            yield text_of(call.args[0]), str(given.value) if isinstance(given, ast.Constant) else ""


def told(api: Api, says: str, param: str) -> EngineRefused:
    """Return the refusal that a caller gets who has sent every served field."""
    fields = TABLE[api].kinds[ANY].fields
    body: Body = {
        name: dict.fromkeys(field.kinds[ANY].fields, 1) if ANY in field.kinds else 1
        for name, field in fields.items()
        if field.is_served
    }
    wire = msgspec.json.encode({"error": {"message": says, "param": param or None, "code": 400}})
    error = verdict.of_answer(400, b"", wire).error
    assert isinstance(error, EngineRefused)
    return blamed(error, api, body)


@pytest.mark.parametrize("api", SOURCES)
def test_each_refusal_of_the_engine_has_a_field_and_a_remedy(api: Api) -> None:
    """Without settings of its operator, objects of its own, or values of the caller."""
    found = [one for path in SOURCES[api] for one in refusals(engine() / path)]
    assert len(found) >= 10
    nameless = []
    for says, param in found:
        error = told(api, says, param)
        assert not any(one in error.message for one in ("VLLM_", "--max", SECRET, "{'")), error.message
        assert any(one in error.message for one in ("change ", "leave ", "send ")), error.message
        if error.param is None:
            nameless.append(error.message)
        else:
            assert error.param.partition(".")[0].partition("[")[0] in TABLE[api].kinds[ANY].fields, error.param
    assert [one for one in nameless if not any(other in one for other in UNREACHED)] == []
