"""The table of fields as JSON Schema: an API's fields, except objects that have several kinds (A11)."""

from penstock.domain.serving.request import Api
from penstock.gateway.app.openapi_parts import Json
from penstock.gateway.openai.verdicts import ANY, TABLE, Field


def properties(api: Api) -> Json:
    fields = TABLE[api].kinds[ANY].fields.items()
    return {name: _schema(field, is_optional=True) for name, field in fields if _is_taken(field)}


def _is_taken(field: Field) -> bool:
    return field.verdict != "refused" or any(word == "served" for word, _ in field.by_value.values())


def _schema(field: Field, *, is_optional: bool) -> Json:
    if not field.is_served:
        taken = [value for value, (word, _) in field.by_value.items() if word == "served"]
        return {"enum": [*taken, None]} if taken else {"description": f"Without effect: {field.says}."}
    if "any" in field.types:
        return {}
    found = [_of_type(kind, field) for kind in sorted(field.types) if kind != "integer" or "number" not in field.types]
    if is_optional:
        found.append({"type": "null"})
    return found[0] if len(found) == 1 else {"anyOf": found}


def _of_type(kind: str, field: Field) -> Json:
    if kind == "string" and field.by_value and not field.any_text:
        return {"enum": [value for value, (word, _) in field.by_value.items() if word != "refused"]}
    if kind in ("integer", "number"):
        return {"type": kind, **field.bounds}
    if kind == "array" and field.items is not None:
        return {"type": kind, "items": _schema(field.items, is_optional=False)}
    if kind == "object" and not field.is_open and not field.key:
        inside = field.kinds[ANY]
        named = {name: _schema(one, is_optional=name not in inside.required) for name, one in inside.fields.items()}
        return {"type": kind, "properties": named, "required": [*inside.required], "additionalProperties": False}
    return {"type": kind}
