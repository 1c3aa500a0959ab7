"""Checks that each tool's result answers a call of the conversation, as OpenAI and Anthropic do. Pure.

A result under a wrong id is a frequent fault of an agent's loop; a chat template renders it without a word.
"""

from collections.abc import Iterable, Sequence

from penstock.domain.errors import InvalidField
from penstock.gateway.openai.fields import Body


class _Calls:
    def __init__(self) -> None:
        self._ids: set[str] = set()

    def add(self, call: object, name: str = "id") -> None:
        if isinstance(call, dict) and isinstance(found := call.get(name), str):
            self._ids.add(found)

    def check(self, result: Body, name: str, at: str) -> None:
        given = result.get(name)
        if not isinstance(given, str) or given not in self._ids:
            raise InvalidField("no earlier message calls a tool by this id", param=f"{at}.{name}")


def of_chat(turns: Sequence[Body]) -> None:
    calls = _Calls()
    for number, turn in enumerate(turns):
        made = turn.get("tool_calls")
        for call in made if isinstance(made, list) else ():
            calls.add(call)
        if turn.get("role") == "tool":
            calls.check(turn, "tool_call_id", f"messages[{number}]")


def of_messages(body: Body) -> None:
    turns, calls = body.get("messages"), _Calls()
    for number, turn in enumerate(turns if isinstance(turns, list) else ()):
        content = turn.get("content") if isinstance(turn, dict) else None
        for place, part in enumerate(content if isinstance(content, list) else ()):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "tool_use":
                calls.add(part)
            elif kind == "tool_result":
                calls.check(part, "tool_use_id", f"messages[{number}].content[{place}]")


def of_responses(items: Iterable[Body]) -> None:
    calls = _Calls()
    for number, item in enumerate(items):
        if item.get("type") == "function_call":
            calls.add(item, "call_id")
        elif item.get("type") == "function_call_output":
            calls.check(item, "call_id", f"input[{number}]")
