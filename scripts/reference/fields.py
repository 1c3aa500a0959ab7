"""The page of fields: what becomes of each field of each API, from the table that gateways read."""

from collections.abc import Iterator

from penstock.domain.serving.request import JSON_APIS
from penstock.gateway.openai import betas
from penstock.gateway.openai.parse import COUNTS
from penstock.gateway.openai.verdicts import ANY, COUNTED, TABLE, Field
from scripts.reference.markdown import code, table, titled

_LEAD = """Each field that OpenAI's and Anthropic's SDKs and vLLM's request classes document, and what becomes of it here.
*Served*: it does what its documentation says, as far as the model can.
*Told*: it is taken and has no effect; the answer names it in `x-penstock-ignored`.
*Dropped*: told, and it never reaches an engine.
*Refused*: a 400 with the field's whole path and the remedy.
Null is as if left out, an empty list or `false` asks a refused field for nothing, and a name that is not here is refused.
A row `path=value` is one value's. Inside of what is refused, told or dropped nothing is listed."""
_SIZE = """
## Its size

Each verdict is written by hand: a field without one ends `python -m scripts.fields`.
A test fails if a newer SDK or engine documents a field that the table lacks.
The table does not guess the shape of *open* fields, which no source describes.
Their values are bounded in size and depth, and an engine's refusal names the field.
"""
_BEGUN = """
## A last message of the assistant

Messages continue it: the answer goes on behind its text, which may not end with white space.
It is a 400 if `tool_choice` or `output_config.format` binds the answer, or if it ends with no text.
Chat continues it with `continue_final_message: true` and `add_generation_prompt: false`.
Otherwise, as on Responses, the model begins a new turn, and `x-penstock-ignored` names `messages[-1]` or `input[-1]`.

## Arguments of tool calls

Streamed arguments are the model's own tokens.
In whole answers the engine writes the parsed arguments anew: the same JSON, with other white space.
Equal bytes would need a stream that waits for the end of each call.

## Query parameters

Each path refuses parameters that it does not read: all but `beta` and those of Anthropic's list of models.
"""
_VERDICTS = ("served", "told", "dropped", "refused")
_BETAS = f"""
## The header `{betas.HEADER}`

Read on Messages and its token count. Names that are not here are told, too; more than {betas.MOST} are refused.
"""
_COUNTS = """
## Token counts

A count reads the fields that it documents. Others of its API are told: they change no count.
"""


def page() -> str:
    """Return the whole page."""
    parts = [titled("Fields", _LEAD), _SIZE, _size()]
    for api in JSON_APIS:
        rows = dict(_rows(TABLE[api]))
        cells = [(code(path), verdict, says) for path, (verdict, says) in sorted(rows.items())]
        parts.append(f"\n## `POST {api}`\n\n{len(cells)} rows.\n\n{table(('field', 'is', 'how'), cells)}")
    return "".join([*parts, _BEGUN, _COUNTS, *_counts(), _BETAS, _betas()])


def _size() -> str:
    """Return the table of verdicts by API."""
    lines = []
    for api in JSON_APIS:
        verdicts = [verdict for verdict, _ in dict(_rows(TABLE[api])).values()]
        opened = [code(path) for path in sorted(set(_open(TABLE[api])))]
        counts = [str(verdicts.count(one)) for one in _VERDICTS]
        lines.append((code(f"POST {api}"), str(len(verdicts)), *counts, ", ".join(opened)))
    return f"\n{table(('API', 'rows', *_VERDICTS, 'open'), lines)}"


def _open(field: Field) -> Iterator[str]:
    """Yield the paths of served fields whose values, or their insides, have no documented shape."""
    is_leaf = bool(field.path) and field.items is None and not field.kinds
    if field.is_served and is_leaf and field.types & {"any", "array", "object"}:
        yield field.path
    inner = [one for kind in field.kinds.values() for one in kind.fields.values()]
    for one in inner if field.items is None else [*inner, field.items]:
        yield from _open(one)


def _counts() -> Iterator[str]:
    for path, api in COUNTS.items():
        yield f"\n`POST {path}`: {', '.join(map(code, sorted(COUNTED[api])))}.\n"


def _betas() -> str:
    served = [(code(name), "served", "") for name in sorted(betas.SERVED)]
    told = sorted((code(name), "told", says) for says, names in betas.TOLD.items() for name in names)
    return f"\n{table(('name', 'is', 'how'), [*served, *told])}"


def _rows(field: Field) -> Iterator[tuple[str, tuple[str, str]]]:
    if field.path:
        yield from _own(field)
    if field.items is not None:
        yield from _rows(field.items)
    for name, kind in field.kinds.items():
        if name != ANY and field.key:
            yield f"{field.path}.{field.key}={name}", ("refused" if kind.says else "served", kind.says)
        for one in kind.fields.values():
            yield from _rows(one)


def _own(field: Field) -> Iterator[tuple[str, tuple[str, str]]]:
    served = [value for value, (word, _) in field.by_value.items() if word == "served"]
    listed = f"one of {', '.join(map(code, served))}" if served else ""
    yield field.path, (field.verdict, field.says or listed or _bounds(field))
    for value, (word, says) in field.by_value.items():
        if word != "served":
            yield f"{field.path}={value}", (word, says)


def _bounds(field: Field) -> str:
    """Return the range or form of a served field's values."""
    said = {**field.bounds, **field.each}
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "minLength": "characters: at least",
    }
    found = [f"{words[name]} {said[name]:g}" for name in words if name in said]
    if field.most:
        found.append(f"at most {field.most} items")
    if field.pattern is not None:
        found.append(f"like {code(field.pattern.pattern)}")
    return ("each value " if field.each else "") + ", ".join(found)
