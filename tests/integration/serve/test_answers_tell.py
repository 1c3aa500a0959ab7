"""What an answer tells besides the text: request id, version, stages; and that both ends count alike."""

import httpx
import msgspec
import pytest

from penstock.connectors.folder.store import FolderStore
from penstock.domain.clock import SystemClock
from penstock.domain.fleet.table import RoutingTable
from penstock.gateway.preprocess.prepare import PromptPreprocessor
from penstock.gateway.preprocess.tokenizer_cache import TokenizerCache
from tests.support.platforms.local import Platform
from tests.support.samples.calls import principal, request

pytestmark = pytest.mark.integration

STAGES = {"edge", "auth", "preprocess", "route"}


def chat(http: httpx.Client, **fields: object) -> httpx.Response:
    body = {"model": "smollm2", "messages": [{"role": "user", "content": "Count to three."}], "max_tokens": 8}
    answer = http.post("/v1/chat/completions", json={**body, **fields})
    assert answer.status_code == 200, answer.text
    return answer


def test_headers_name_the_request_and_the_version(platform: Platform) -> None:
    """Every answer has an id of its own and the resolved version."""
    with platform.http() as http:
        first, second = chat(http), chat(http)
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    name, _, digest = first.headers["x-penstock-version"].partition("@")
    assert name.startswith("smollm2")
    assert len(digest) == 12


def test_the_body_tells_the_stages(platform: Platform) -> None:
    """A unary answer carries its stage breakdown, and the stages are part of the time the caller saw."""
    with platform.http() as http:
        answer = chat(http)
    block = answer.json()["penstock"]
    assert block["request_id"] == answer.headers["x-request-id"]
    assert block["version"] == answer.headers["x-penstock-version"]
    assert set(block["stages_ms"]) >= STAGES
    assert 0 < sum(block["stages_ms"].values()) <= answer.elapsed.total_seconds() * 1000 + 1


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "Hi"}],
        [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Größe? 日本語 🙂"}],
        [
            {"role": "user", "content": "One"},
            {"role": "assistant", "content": "Two"},
            {"role": "user", "content": "Three " * 50},
        ],
    ],
    ids=["short", "unicode", "conversation"],
)
async def test_the_gateway_counts_as_the_engine_does(platform: Platform, messages: list[dict[str, str]]) -> None:
    """Prompt tokens that the gateway's own code counts before dispatch equal the usage that the engine reports."""
    table = msgspec.json.decode((platform.home / "run/gateway/table.json").read_bytes(), type=RoutingTable)
    version = next(one for one in table.versions if one.id.startswith("smollm2"))
    preprocessor = PromptPreprocessor(TokenizerCache(FolderStore(platform.home / "artifacts")), SystemClock())
    body: dict[str, object] = {"messages": messages}
    counted = await preprocessor.prepare(request(body=body), version, principal())
    preprocessor.close()
    with platform.http() as http:
        answer = chat(http, messages=messages).json()
    assert counted.prompt_tokens == answer["usage"]["prompt_tokens"]
