"""The least body that each API of JSON takes, without its model."""

from typing import Any

from penstock.domain.serving.request import Api

TURNS = [{"role": "user", "content": "hi"}]
BODIES: dict[Api, dict[str, Any]] = {
    Api.CHAT: {"messages": TURNS},
    Api.COMPLETIONS: {"prompt": "hi"},
    Api.EMBEDDINGS: {"input": "hi"},
    Api.CLASSIFY: {"input": "hi"},
    Api.RESPONSES: {"input": "hi"},
    Api.MESSAGES: {"messages": TURNS, "max_tokens": 2000},
}
