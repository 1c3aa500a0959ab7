"""Continues an assistant's message that ends a conversation on the Messages API, as Anthropic's models do.

vLLM closes it and begins a new turn. Written for vLLM 0.32; an engine without this function does not start.
"""

from functools import wraps
from typing import Any


def install() -> None:
    from vllm.entrypoints.anthropic.serving import AnthropicServingMessages

    convert = AnthropicServingMessages.to_chat_completion_request.__func__
    AnthropicServingMessages.to_chat_completion_request = classmethod(continuing(convert))


def continuing(convert: Any) -> Any:  # noqa: ANN401  vLLM is untyped here

    @wraps(convert)
    def converted(*args: Any, **named: Any) -> Any:  # noqa: ANN401
        chat = convert(*args, **named)
        if chat.messages and chat.messages[-1]["role"] == "assistant":
            chat.add_generation_prompt, chat.continue_final_message = False, True
        return chat

    return converted
