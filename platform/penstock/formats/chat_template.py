"""Chat templates, rendered as ``transformers`` renders them, without importing it. Pure.

Templates are signed, conversations are not: hence a sandbox. Source of the environment: transformers,
``utils/chat_template_utils.py`` (v5); a contract test compares them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NoReturn

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

Message = dict[str, object]

_CONTINUE_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
_MAX_TEMPLATES = 64


class TemplateRefused(ValueError):
    """The template does not accept this conversation."""


class _Generation(jinja2.ext.Extension):
    """The tag ``{% generation %}``, which marks assistant text for training; its content is rendered unchanged."""

    tags = {"generation"}  # noqa: RUF012  jinja2 declares it so

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller: Callable[[], str]) -> str:
        return caller()


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002  the filter's interface
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """Return JSON without Jinja's HTML escapes, which no model was trained on."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class ChatTemplate:
    __slots__ = ("_source", "_template", "knows_developers", "variables", "wants_parts")

    def __init__(self, source: str, now: Callable[[], datetime]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: now().strftime(form)
        parsed = environment.parse(source)
        self._source = source
        self._template = environment.from_string(source)
        # Jinja chains two mappings and walks them in Python at each rendering: nearly half of a short one's time.
        self._template.globals = dict(self._template.globals)
        self.variables = frozenset(jinja2.meta.find_undeclared_variables(parsed))
        self.wants_parts = _wants_parts(parsed)
        self.knows_developers = '"developer"' in source or "'developer'" in source

    def content(self, text: str) -> object:
        return [{"type": "text", "text": text}] if self.wants_parts else text

    def render(
        self, messages: Sequence[Message], variables: Mapping[str, object], *, continue_final: bool = False
    ) -> str:
        try:
            if continue_final:
                return self._continued(messages, variables)
            return self._template.render(variables, messages=messages)
        except TemplateRefused:
            raise
        except jinja2.TemplateError as error:
            raise TemplateRefused(str(error)[:500]) from error
        except Exception as error:
            # A template runs arbitrary expressions over a caller's values: whatever it trips on is the caller's.
            raise TemplateRefused("the chat template does not accept these messages") from error

    def _continued(self, messages: Sequence[Message], variables: Mapping[str, object]) -> str:
        """Render up to the end of the last message's text, for the model to continue."""
        last = messages[-1]
        marked, said = _marked(last.get("content"))
        text = self._template.render(variables, messages=[*messages[:-1], {**last, "content": marked}])
        tag = _CONTINUE_TAG.strip()
        if said.strip() not in text or tag not in text:
            raise TemplateRefused("the chat template drops the final message, so it can't be continued")
        at = text.rindex(tag)
        kept = text[at : at + len(_CONTINUE_TAG)] == _CONTINUE_TAG
        return text[:at] if kept else text[:at].rstrip()


def _marked(content: object) -> tuple[object, str]:
    """Return the content with a marker after its last text, and that text."""
    if isinstance(content, str):
        return content + _CONTINUE_TAG, content
    if isinstance(content, list):
        for index in range(len(content) - 1, -1, -1):
            part = content[index]
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                text = part["text"]
                return [*content[:index], {**part, "text": text + _CONTINUE_TAG}, *content[index + 1 :]], text
    raise TemplateRefused("the final message has no text to continue: end with a user's message")


def _wants_parts(tree: jinja2.nodes.Template) -> bool:
    """Tell whether the template iterates over a message's content: it then gets parts, otherwise one string.

    The engine decides in the same way: by a loop over a name ``content``, filtered, sliced or plain.
    """
    return any(_is_content(loop.iter) for loop in tree.find_all(jinja2.nodes.For))


def _is_content(node: jinja2.nodes.Node | None) -> bool:
    if isinstance(node, jinja2.nodes.Filter | jinja2.nodes.Test):
        return _is_content(node.node)
    if isinstance(node, jinja2.nodes.Getitem):
        if isinstance(node.arg, jinja2.nodes.Slice):
            return _is_content(node.node)
        return isinstance(node.arg, jinja2.nodes.Const) and node.arg.value == "content"
    if isinstance(node, jinja2.nodes.Getattr):
        return bool(node.attr == "content")
    return isinstance(node, jinja2.nodes.Name) and node.name == "content"


def cache(now: Callable[[], datetime]) -> Callable[[str], ChatTemplate]:
    @lru_cache(maxsize=_MAX_TEMPLATES)
    def compiled(source: str) -> ChatTemplate:
        return ChatTemplate(source, now)

    return compiled
