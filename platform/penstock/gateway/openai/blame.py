"""Completes an engine's refusal: the caller's field that it is about, and a remedy. Pure.

The field is the path in the refusal, else a field's name in its text, else its subject.

Trade-off: a text that names a second field may blame that one.
"""

import re
from collections.abc import Iterator, Mapping

from penstock.domain.errors import EngineRefused
from penstock.domain.serving.request import Api
from penstock.gateway.openai.fields import SAME, Body
from penstock.gateway.openai.verdicts import ANY, TABLE, Field

_PROMPTS = ("messages", "input", "prompt")
_FORMS = ("structured_outputs", "response_format", "text", "output_config", "tools")
_SUBJECTS = (
    (re.compile("multimodal|image|audio|video"), _PROMPTS),
    (re.compile("grammar|regex|schema|structur|constraint"), _FORMS),
    (re.compile("[Tt]oken id|vocabulary|conversation|chat template|prompt"), _PROMPTS),
)
_NEEDED = frozenset({"model", "max_tokens", *_PROMPTS})
"""Fields that a request has in any case."""
_MEDIA = frozenset({"image", "image_url", "input_image", "input_audio", "audio_url", "video_url"})
_NAME = re.compile("[a-z]+(?:_[a-z]+)*")
_STEP = re.compile(r"\.?(\w+)|\[(\d+)\]")
_EVERYDAY = frozenset({"model", "user", "stream", "system", "text", "n", *_PROMPTS})
"""Names that stand in sentences of another subject."""


def blamed(error: EngineRefused, api: Api, body: Body) -> EngineRefused:
    param = _path(error.param or "", api, body) or _named(error.message, body) or _meant(error.message, body)
    path = param or _documented(error.param or "", api)
    return EngineRefused(f"{error.message.rstrip('. ')}: {_remedy(error.message, path)}", param=path or None)


def _documented(param: str, api: Api) -> str:
    return param if (root := _NAME.match(param)) and root[0] in TABLE[api].kinds[ANY].fields else ""


def _remedy(says: str, path: str) -> str:
    if not path:
        return "the engine names no field; leave out what the request can do without"
    if "required" in says:
        return f"send {path}"
    if _SUBJECTS[0][0].search(says):
        return "send text, or name a model that reads such parts"
    return f"change {path}" if path in _NEEDED else f"change {path} or leave it out"


def _in(body: Body, name: str) -> str:
    if name in body:
        return name
    return next((one for same in SAME if name in same for one in same if one in body), "")


def _path(param: str, api: Api, body: Body) -> str:
    """Leave out the engine's own steps: names of kinds and of its classes."""
    steps = [name or int(number) for name, number in _STEP.findall(param)]
    root = _in(body, str(steps[0])) if steps else ""
    if not root:
        return ""
    said, fields = root, [field for kind in TABLE[api].kinds.values() if (field := kind.fields.get(root))]
    for step in steps[1:]:
        inner = list(_inside(fields, step))
        if isinstance(step, int):
            said, fields = f"{said}[{step}]", inner
        elif inner or any(field.is_open for field in fields):
            said, fields = f"{said}.{step}", inner
    return said


def _inside(fields: list[Field], step: str | int) -> Iterator[Field]:
    for field in fields:
        if isinstance(step, int):
            yield from [] if field.items is None else [field.items]
        else:
            yield from (found for kind in field.kinds.values() if (found := kind.fields.get(step)))


def _named(message: str, body: Body) -> str:
    words: list[str] = _NAME.findall(message.lower())
    if words and words[0] in body and message.lower().lstrip("`'").startswith(words[0]):
        return words[0]
    names = [name for name in sorted(words, key=lambda name: "_" not in name) if name not in _EVERYDAY]
    found = next((found for name in names if (found := _in(body, name))), "")
    inside = (
        f"{at}.{one}" for at, value in body.items() if isinstance(value, Mapping) for one in value if one in names
    )
    return found or next(inside, "")


def _meant(message: str, body: Body) -> str:
    for subject, fields in _SUBJECTS:
        if subject.search(message) and (root := next((name for name in fields if name in body), "")):
            return _part(body[root], root) if fields is _PROMPTS and subject is _SUBJECTS[0][0] else _form(body, root)
    return ""


def _form(body: Body, root: str) -> str:
    given = body[root]
    if root != "structured_outputs" or not isinstance(given, Mapping):
        return root
    return next((f"{root}.{name}" for name, value in given.items() if value is not None), root)


def _part(value: object, at: str) -> str:
    """The field's own path if no picture, sound or film is readable."""
    waiting = [(value, at)]
    while waiting:
        one, path = waiting.pop()
        if isinstance(one, Mapping):
            if one.get("type") in _MEDIA:
                return path
            waiting.extend((child, f"{path}.{name}") for name, child in one.items() if name in ("content", "output"))
        elif isinstance(one, list):
            waiting.extend((child, f"{path}[{number}]") for number, child in reversed(list(enumerate(one))))
    return at
