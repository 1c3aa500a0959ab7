"""Corrects the HTTP status of caller mistakes that vLLM reports as server errors, in the process of its HTTP
server.

A grammar that the compiler rejects is found after admission and would end as 500; an error in a stream of the Messages
API would lose its status. Written for vLLM 0.32.
"""

import json
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

from penstock.domain.serving.engine import GRAMMAR_ENDED
from penstock.worker.meter import current

NO_GRAMMAR = "the engine can't make a grammar of what response_format, structured_outputs or tools ask for"
_ERROR = 'data: {"error"'
_EVENT = "event: error"


def install() -> None:
    from vllm.entrypoints.anthropic.serving import AnthropicServingMessages
    from vllm.entrypoints.generate.base.serving import GenerateBaseServing
    from vllm.exceptions import GenerationError

    def refused(says: str) -> Exception:
        error = GenerationError(says)
        error.status_code = HTTPStatus.BAD_REQUEST
        return error

    looks = _raising(GenerateBaseServing._raise_if_error, refused)  # noqa: SLF001  it has no public name
    GenerateBaseServing._raise_if_error = looks  # noqa: SLF001
    converter = AnthropicServingMessages.message_stream_converter
    AnthropicServingMessages.message_stream_converter = with_status(converter)


def _raising(raise_if_error: Any, refused: Callable[[str], Exception]) -> Any:  # noqa: ANN401  vLLM is untyped here
    """Make a rejected grammar a caller's mistake (400), or one that allows no further token or takes too long
    (``mask_time``). vLLM's scheduler ends a single request with an error only in these cases; a failing engine ends all
    of them.
    """

    def looked(self: Any, finish_reason: str | None, request_id: str) -> None:  # noqa: ANN401
        if finish_reason == "error" and (meter := current.get()) is not None and meter.has_grammar:
            raise refused(NO_GRAMMAR if meter.lacks_grammar else GRAMMAR_ENDED)
        raise_if_error(self, finish_reason, request_id)

    return looked


def with_status(convert: Any) -> Any:  # noqa: ANN401
    """Keep the chat error's HTTP status in Messages' error event."""

    async def converted(self: Any, chunks: AsyncIterator[str]) -> AsyncIterator[str]:  # noqa: ANN401
        error = ""

        async def watched() -> AsyncIterator[str]:
            nonlocal error
            async for chunk in chunks:
                if chunk.startswith(_ERROR):
                    error = chunk.removeprefix("data: ").strip()
                yield chunk

        async for event in convert(self, watched()):
            yield _told(error) if error and event.startswith(_EVENT) else event

    return converted


def _told(error: str) -> str:
    return f"{_EVENT}\ndata: {json.dumps({'type': 'error', **json.loads(error)})}\n\n"
