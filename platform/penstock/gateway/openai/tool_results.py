"""Checks that each tool's result answers a call of the conversation, as OpenAI and Anthropic do. Pure.

A result under a wrong id is a frequent fault of an agent's loop; a chat template renders it without a word.
"""

from collections.abc import Iterable, Iterator, Sequence

from penstock.domain.errors import InvalidField
from penstock.gateway.openai.fields import Body

_SAYS = "no earlier message calls a tool by this id"


def of_chat(turns: Sequence[Body]) -> None:
    """Refuse a message of the role ``tool`` if no earlier call has its ``tool_call_id``."""
    known: set[str] = set()
    for number, turn in enumerate(turns):
        known.update(_texts(turn.get("tool_calls"), "id"))
        if turn.get("role") == "tool" and not _is_in(turn.get("tool_call_id"), known):
            raise InvalidField(_SAYS, param=f"messages[{number}].tool_call_id")


def of_messages(body: Body) -> None:
    """Refuse a ``tool_result`` if no earlier call has its ``tool_use_id``."""
    turns, known = body.get("messages"), set[str]()
    for number, turn in enumerate(turns if isinstance(turns, list) else ()):
        content = turn.get("content") if isinstance(turn, dict) else None
        for place, part in enumerate(content if isinstance(content, list) else ()):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "tool_use":
                known.update(_texts([part], "id"))
            elif kind == "tool_result" and not _is_in(part.get("tool_use_id"), known):
                raise InvalidField(_SAYS, param=f"messages[{number}].content[{place}].tool_use_id")


def of_responses(items: Iterable[Body]) -> None:
    """Refuse a function's output if no earlier call has its ``call_id``."""
    known: set[str] = set()
    for number, item in enumerate(items):
        if item.get("type") == "function_call":
            known.update(_texts([item], "call_id"))
        elif item.get("type") == "function_call_output" and not _is_in(item.get("call_id"), known):
            raise InvalidField(_SAYS, param=f"input[{number}].call_id")


def _texts(calls: object, name: str) -> Iterator[str]:
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict) and isinstance(found := call.get(name), str):
            yield found


def _is_in(value: object, known: set[str]) -> bool:
    return isinstance(value, str) and value in known
