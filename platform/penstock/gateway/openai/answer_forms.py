"""The form that an answer is asked to have: whether its field is one at all, before an engine reads it. Pure.

An engine looks into these fields before it checks them, and fails on what is no object. What the schemas, patterns and
grammars in them may be is said in ``schemas``, and whether they can be compiled by the engine.
Source: vLLM 0.32, ``StructuredOutputsParams`` and the validators of its request classes.
"""

from penstock.domain.errors import InvalidField

_TEXT = (str,)
CONSTRAINTS: dict[str, tuple[type, ...]] = {
    "json": (str, dict),
    "regex": _TEXT,
    "choice": (list,),
    "grammar": _TEXT,
    "json_object": (bool,),
    "structural_tag": (str, dict),
}
"""What ``structured_outputs`` asks for, one at a time, and the types of each."""


def check_structured_outputs(given: object, at: str) -> None:
    """Refuse what is no object with exactly one constraint of its own type."""
    if not isinstance(given, dict):
        raise InvalidField(f"{at} must be an object with one of {', '.join(CONSTRAINTS)}", param=at)
    asked = [name for name in CONSTRAINTS if given.get(name) is not None]
    if len(asked) != 1:
        raise InvalidField(f"{at} must have exactly one of {', '.join(CONSTRAINTS)}", param=at)
    (name,) = asked
    if not isinstance(given[name], CONSTRAINTS[name]):
        raise InvalidField(f"{name} in {at} is of a wrong type", param=f"{at}.{name}")


def check_response_format(given: object, at: str) -> None:
    """Refuse what is no object that says its type."""
    if not isinstance(given, dict):
        raise InvalidField(f"{at} must be an object", param=at)
    if not isinstance(given.get("type"), str):
        raise InvalidField(f"type in {at} must be a string", param=f"{at}.type")
