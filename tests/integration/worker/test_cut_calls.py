"""A tool call cut anywhere: whole answers say what the engine's own parser streams, and never its marks."""

from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from penstock.worker.engines.answers import or_as_streamed, with_its_text
from tests.support.models import tokenizers

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
"""torch warns of its own parts when vLLM is imported."""

SAID = "Let me look.\n"
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Tokyo"}}\n</tool_call>'
ANSWERS = [(text[:size], size) for text in (CALL, SAID + CALL) for size in range(1, len(text) + 1)]


def parser() -> Any:  # noqa: ANN401  vLLM is untyped here
    from vllm.tool_parsers.hermes_tool_parser import Hermes2ProToolParser

    backend = Tokenizer.from_str(tokenizers.small().decode())
    return Hermes2ProToolParser(PreTrainedTokenizerFast(tokenizer_object=backend))


def whole(text: str, choice: str) -> tuple[str, list[tuple[str, str]]]:
    """Return a whole answer's text and calls, as the engine's HTTP server reads it here."""
    from vllm.parser.abstract_parser import DelegatingParser

    one = parser()

    def extract(_: object, output: str, asked: Any) -> Any:  # noqa: ANN401
        return one.extract_tool_calls(output, asked)

    server = SimpleNamespace(_tool_parser=one, _engine_based=False)
    server.extract_tool_calls = lambda output, request: or_as_streamed(extract)(server, output, request)
    request = SimpleNamespace(tools=[], tool_choice=choice)
    read = with_its_text(DelegatingParser._extract_tool_calls)
    calls, said = read(server, text, request, enable_auto_tools=True)
    return said or "", [(call.name, call.arguments) for call in calls or ()]


def streamed(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return what a stream of the text's characters has told at its end."""
    one, said = parser(), ""
    calls: dict[int, list[str]] = {}
    for at in range(1, len(text) + 1):
        delta = one.extract_tool_calls_streaming(text[: at - 1], text[:at], text[at - 1], [], [], [], None)
        said += (delta.content or "") if delta is not None else ""
        for call in delta.tool_calls if delta is not None else ():
            name, arguments = calls.setdefault(call.index, ["", ""])
            calls[call.index] = [name + (call.function.name or ""), arguments + (call.function.arguments or "")]
    return said, [(name, arguments) for name, arguments in calls.values()]


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_no_cut_leaves_markup_in_the_text(choice: str) -> None:
    """At each character of mark, name, arguments and end: neither whole nor streamed."""
    for text, size in ANSWERS:
        for told in (whole(text, choice), streamed(text)):
            assert "<t" not in told[0], (size, told)
            assert "tool_call>" not in told[0], (size, told)
            assert "weather" not in told[0], (size, told)


def test_a_cut_answer_is_the_same_whole_and_streamed() -> None:
    """The text before the call, and as much of the call as was made; a lone ``<`` may be the text's own."""
    for text, size in ANSWERS:
        if text.endswith("<") and "<t" not in text:
            continue
        said, calls = streamed(text)
        found = whole(text, "auto")
        assert (found[0], [name for name, _ in found[1]]) == (said, [name for name, _ in calls]), size


def test_text_that_ends_like_a_mark_by_chance_stays() -> None:
    """Without tools in play nothing is taken away, and a comparison's sign is no mark."""
    assert whole("if a <", "auto") == ("if a <", [])
