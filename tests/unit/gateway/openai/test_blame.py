"""The field of a refusal that an engine words in its own names."""

from typing import Any

import pytest

from penstock.domain.errors import EngineRefused
from penstock.domain.serving.request import Api
from penstock.gateway.openai.blame import blamed

SAID = {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url"}]}]}


@pytest.mark.parametrize(
    ("api", "body", "says", "param", "path"),
    [
        (Api.MESSAGES, {"stop_sequences": [""]}, "stop cannot contain an empty string.", None, "stop_sequences"),
        (Api.CHAT, {"min_p": 2}, "min_p must be in [0, 1], got 2.0.", None, "min_p"),
        (Api.RESPONSES, {"top_logprobs": 21}, "Requested sample logprobs of 21", "logprobs", "top_logprobs"),
        (Api.CHAT, SAID, "m@1 is not a multimodal model", None, "messages[0].content[1]"),
        (Api.RESPONSES, {"input": "x"}, "m@1 is not a multimodal model", None, "input"),
        (Api.COMPLETIONS, {"prompt": [9]}, "Token id 9 is out of vocabulary", None, "prompt"),
        (Api.EMBEDDINGS, {"input": [9], "model": "m"}, "Token id 9 is out of vocabulary", None, "input"),
        (
            Api.CHAT,
            {"structured_outputs": {"regex": "["}},
            "Failed to transform regex",
            None,
            "structured_outputs.regex",
        ),
        (Api.CHAT, {"tools": [{}], "messages": []}, "Invalid structural tag specification.", None, "tools"),
        (
            Api.MESSAGES,
            {"thinking": {"type": "adaptive"}},
            "should be at most 1",
            "thinking.enabled.budget_tokens",
            "thinking.budget_tokens",
        ),
        (Api.RESPONSES, {"input": []}, "input[0].role should be", "input[0].role", "input[0].role"),
        (
            Api.EMBEDDINGS,
            {"dimensions": 9},
            "Model 'm' does not support it; dimensions must be unset",
            None,
            "dimensions",
        ),
        (Api.CHAT, {"logit_bias": {"7": 1}}, "logit_bias[7] is no number", "logit_bias[7]", "logit_bias[7]"),
        (Api.CHAT, {"messages": [], "model": "m"}, "Something unheard of happened", None, None),
    ],
)
def test_a_refusal_names_the_callers_field(
    api: Api,
    body: dict[str, Any],
    says: str,
    param: str | None,
    path: str | None,
) -> None:
    """By its path, by a name in its text, or by its subject."""
    assert blamed(EngineRefused(says, param=param), api, body).param == path
