"""Checks the tools of a body and the choice among them, before anything walks them. Pure.

A schema binds the arguments of a forced call, and those of a strict tool: then each keyword is held or refused.
"""

from collections.abc import Iterator, Mapping

from penstock.domain.errors import InvalidField
from penstock.gateway.calls.wishes import NO_CALL
from penstock.gateway.openai import schemas
from penstock.gateway.openai.fields import Body

MAX_TOOLS = 128
"""OpenAI's published maximum."""
NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}
_FORCES = frozenset({"any", "tool", "function", "custom"})
_NESTED = "function"
_NAMESPACE = "namespace"


def check(body: Body) -> tuple[str, ...]:
    """Return schema fields that are enforced only in part."""
    tools, choice = body.get("tools"), body.get("tool_choice")
    if type(tools) is not list:
        return ()
    if len(tools) > MAX_TOOLS:
        raise InvalidField(f"tools holds more than {MAX_TOOLS} items", param="tools")
    _names(tools)
    return tuple(sorted(set(_loose(tools, is_forced=forces(choice))))) if choice not in NO_CALL else ()


def check_choice(body: Body) -> None:
    tools, choice = body.get("tools"), body["tool_choice"]
    if not forces(choice):
        return
    if not isinstance(tools, list) or not tools:
        raise InvalidField("tool_choice requires a tool call: send tools", param="tool_choice")
    if isinstance(choice, Mapping) and not any(_is_namespace(tool) for tool in tools):
        _check_choice(choice, _names(tools))


def forces(choice: object) -> bool:
    if isinstance(choice, Mapping):
        kind = choice.get("type")
        return type(kind) is str and kind in _FORCES
    return choice == "required"


def _function(tool: object) -> tuple[Mapping[str, object], str]:
    if not isinstance(tool, Mapping):
        return {}, ""
    nested = tool.get(_NESTED)
    return (nested, f".{_NESTED}") if isinstance(nested, Mapping) else (tool, "")


def _takes_nothing(tool: object, function: Mapping[str, object]) -> bool:
    """Without listed parameters a function takes none for OpenAI, any for the engine."""
    is_function = isinstance(tool, Mapping) and tool.get("type") == _NESTED
    return is_function and all(function.get(holder) is None for holder in schemas.HOLDERS)


def _is_namespace(tool: object) -> bool:
    """True for a tool that contains others: the engine resolves their names."""
    return isinstance(tool, Mapping) and tool.get("type") == _NAMESPACE


def _names(tools: list[object]) -> set[str]:
    """Raises ``InvalidField`` for one that two tools have."""
    found: set[str] = set()
    for number, tool in enumerate(tools):
        function, inside = _function(tool)
        name = function.get("name")
        if type(name) is str and name in found:
            raise InvalidField("two tools have this name", param=f"tools[{number}]{inside}.name")
        if type(name) is str:
            found.add(name)
    return found


def _check_choice(choice: Mapping[str, object], names: set[str]) -> None:
    named, inside = _function(choice)
    name = named.get("name")
    if type(name) is str and name not in names:
        raise InvalidField("tool_choice names none of the tools", param=f"tool_choice{inside}.name")


def _check_object(function: Mapping[str, object], at: str) -> None:
    for name in schemas.HOLDERS & function.keys():
        schema, path = function[name], f"{at}.{name}"
        if schema is not None and not isinstance(schema, Mapping):
            raise InvalidField(f"{path} must be an object", param=path)
        if isinstance(schema, Mapping) and schema.get("type", "object") != "object":
            raise InvalidField(f"{path}.type must be object: a tool's arguments are named", param=f"{path}.type")


def _loose(tools: list[object], *, is_forced: bool) -> Iterator[str]:
    counted = schemas.SchemaCounts()
    for number, tool in enumerate(tools):
        function, inside = _function(tool)
        _check_object(function, f"tools[{number}]{inside}")
        binds = is_forced or function.get("strict") is True
        if binds and isinstance(function, dict) and _takes_nothing(tool, function):
            function["parameters"] = dict(NO_PARAMETERS)
        if schemas.check(tool, "tools", f"tools[{number}]", counted, binds=binds):
            yield from (f"tools[]{inside}.{name}" for name in sorted(schemas.HOLDERS & function.keys()))
