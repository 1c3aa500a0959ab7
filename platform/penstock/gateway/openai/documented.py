"""Checks a body against the table of fields, and removes the fields that no engine may get. Pure.

Each field is served, told (passed on, and reported as without effect), dropped (removed, and reported) or refused with
its full path; null counts as left out. An undocumented field is refused, as by OpenAI and Anthropic: a misspelt field
would be ignored silently.
"""

from collections.abc import Iterable, Mapping

from penstock.domain.errors import InvalidField, UnsupportedField
from penstock.domain.serving.request import Api
from penstock.gateway.openai.fields import SAME, Body, shown
from penstock.gateway.openai.verdicts import ANY, TABLE, Field, Kind

MAX_VALUES_SHOWN = 12
_SCALARS = frozenset({str, int, float, bool})
_NAMES = {
    "string": "a string",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "array": "a list",
    "object": "an object",
}


class _Fault(Exception):
    """Each enclosing level adds its part of the path."""

    def __init__(self, says: str, *, is_unserved: bool = False, is_unknown: bool = False) -> None:
        self.says, self.is_unserved, self.is_unknown = says, is_unserved, is_unknown
        self.steps: list[str | int] = []

    def path(self) -> str:
        steps = [f"[{one}]" if isinstance(one, int) else f".{one}" for one in reversed(self.steps)]
        return "".join(steps).lstrip(".")


def check(api: Api, body: Body) -> tuple[str, ...]:
    told: set[str] = set()
    try:
        _inside(TABLE[api].kinds[ANY], body, told)
    except _Fault as fault:
        path = fault.path()
        kind = UnsupportedField if fault.is_unserved else InvalidField
        says = f"{fault.says}: {_instead(api, path)}" if fault.is_unknown else fault.says
        raise kind(f"{path} {says}", param=path) from None
    return tuple(sorted(told)) if told else ()


def _instead(api: Api, name: str) -> str:
    ours = TABLE[api].kinds[ANY].fields
    known = next((one for same in SAME if name in same for one in same if one in ours), "")
    return f"send {known}" if known else "leave it out"


def _inside(kind: Kind, given: Body, told: set[str]) -> None:
    gone: list[str] = []
    for name, value in given.items():
        field = kind.fields.get(name)
        if field is not None and type(value) in field.plain:
            continue
        try:
            if not _keeps(field, value, told, is_required=name in kind.required):
                gone.append(name)
        except _Fault as fault:
            fault.steps.append(shown(name) if field is None else name)
            raise
    for name in gone:
        del given[name]


def _keeps(field: Field | None, value: object, told: set[str], *, is_required: bool) -> bool:
    if value is None:
        return is_required  # another check says that it is missing
    if field is None:
        if value == []:
            return False
        raise _Fault("is no field of this API", is_unserved=True, is_unknown=True)
    verdict = field.verdict
    if verdict == "refused":
        return _refused(field, value)
    if verdict != "served":
        if verdict == "told" and type(value) in _SCALARS and not _is_of_type(field, value):
            raise _Fault(f"must be {_types(field)}")
        told.add(field.path)
        return verdict == "told"
    return _served(field, value, told)


def _refused(field: Field, value: object) -> bool:
    if isinstance(value, str) and field.by_value.get(value, ("",))[0] == "served":
        return True
    if value is False or value == []:
        return False  # it asks for nothing
    raise _Fault(f"is not supported: {field.says}", is_unserved=True)


def _served(field: Field, value: object, told: set[str]) -> bool:
    if isinstance(value, str | bool) and field.by_value:
        return _valued(field, value, told)
    if isinstance(value, list):
        _check_list(field, value, told)
    elif isinstance(value, dict):
        _check_object(field, value, told)
        if field.each:
            _check_each(field, value)
    elif not _is_of_type(field, value):
        raise _Fault(f"must be {_types(field)}")
    elif isinstance(value, str):
        _check_text(field, value)
    elif field.bounds and isinstance(value, int | float):
        _check_bounds(field.bounds, value)
    return True


def _is_of_type(field: Field, value: object) -> bool:
    types = field.types
    if "any" in types:
        return True
    if isinstance(value, str):
        return "string" in types
    if isinstance(value, bool):
        return "boolean" in types
    if isinstance(value, int):
        return "integer" in types or "number" in types
    return isinstance(value, float) and ("number" in types or ("integer" in types and value.is_integer()))


def _valued(field: Field, value: object, told: set[str]) -> bool:
    word = value if isinstance(value, str) else str(value).lower()
    verdict, says = field.by_value.get(word, ("", ""))
    if verdict == "refused":
        raise _Fault(f"{word} is not supported: {says}", is_unserved=True)
    if verdict in ("told", "dropped"):
        told.add(f"{field.path}={word}")
        return verdict == "told"
    if not verdict and not (_is_of_type(field, value) and (field.any_text or isinstance(value, bool))):
        raise _Fault(f"must be {_values(field)}")
    return True


def _check_list(field: Field, value: list[object], told: set[str]) -> None:
    items = field.items
    if items is None:
        if "any" in field.types or "array" in field.types:
            return
        raise _Fault(f"must be {_types(field)}")
    if field.most and len(value) > field.most:
        raise _Fault(f"must have at most {field.most} items")
    if not set(map(type, value)) <= items.plain:
        _check_items(items, value, told)


def _check_items(items: Field, value: list[object], told: set[str]) -> None:
    gone = []
    for at, one in enumerate(value):
        if items.is_plain(one):
            continue
        try:
            if not _keeps_item(items, one, told):
                gone.append(at)
        except _Fault as fault:
            fault.steps.append(at)
            raise
    for at in reversed(gone):
        del value[at]


def _keeps_item(items: Field, one: object, told: set[str]) -> bool:
    if type(one) is dict and items.is_served:
        _check_object(items, one, told)
        return True
    if one is None:
        raise _Fault(f"must be {_types(items)}")
    return _keeps(items, one, told, is_required=True)


def _check_object(field: Field, value: Body, told: set[str]) -> None:
    if "object" not in field.types and "any" not in field.types:
        raise _Fault(f"must be {_types(field)}")
    if field.is_open:
        return
    kind = _kind(field, value)
    _inside(kind, value, told)
    for name in kind.required:
        if name not in value:
            fault = _Fault("is required")
            fault.steps.append(name)
            raise fault


def _kind(field: Field, value: Body) -> Kind:
    said = value.get(field.key) if field.key else None
    kind = field.kinds.get(said) if isinstance(said, str) else None
    if kind is None:
        kind = field.kinds.get(ANY)
        if kind is None or (said is not None and field.key and field.key not in kind.fields):
            raise _at(field.key, "is required" if said is None else f"must be {_listed(_served_kinds(field))}")
    if kind.says:
        raise _at(field.key, f"{said} is not supported: {kind.says}", is_unserved=True)
    return kind


def _served_kinds(field: Field) -> list[str]:
    return [name for name, kind in field.kinds.items() if name != ANY and not kind.says]


def _at(name: str, says: str, *, is_unserved: bool = False) -> _Fault:
    fault = _Fault(says, is_unserved=is_unserved)
    fault.steps.append(name)
    return fault


def _check_bounds(bounds: Mapping[str, float], value: float) -> None:
    low, high, above = bounds.get("minimum"), bounds.get("maximum"), bounds.get("exclusiveMinimum")
    if low is not None and value < low:
        raise _Fault(f"must be at least {low:g}")
    if above is not None and value <= above:
        raise _Fault(f"must be above {above:g}")
    if high is not None and value > high:
        raise _Fault(f"must be at most {high:g}")


def _check_each(field: Field, value: Body) -> None:
    for name, one in value.items():
        try:
            if isinstance(one, bool) or not isinstance(one, int | float):
                raise _Fault("must be a number")
            _check_bounds(field.each, one)
        except _Fault as fault:
            fault.steps.append(shown(name))
            raise


def _check_text(field: Field, value: str) -> None:
    if len(value) < field.bounds.get("minLength", 0):
        raise _Fault("must not be empty")
    if field.pattern is not None and not field.pattern.fullmatch(value):
        raise _Fault(f"must match {field.pattern.pattern}")


# -- words -----------------------------------------------------------------------------


def _types(field: Field) -> str:
    kinds = sorted(field.types, key=list(_NAMES).index)
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    return " or ".join(_NAMES[one] for one in kinds)


def _values(field: Field) -> str:
    if not field.types & {"string"}:
        return _types(field)
    words = _listed([one for one, (verdict, _) in field.by_value.items() if verdict != "refused"])
    others = sorted(_NAMES[one] for one in field.types if one in ("array", "object"))
    return " or ".join([words, *others])


def _listed(values: Iterable[str]) -> str:
    found = list(values)
    more = " …" if len(found) > MAX_VALUES_SHOWN else ""
    return f"one of {', '.join(found[:MAX_VALUES_SHOWN])}{more}"
