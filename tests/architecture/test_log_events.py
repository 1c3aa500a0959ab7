"""The closed list of log events: no call logs another one, with another field, or by another library."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.telemetry.events import EVENTS
from penstock.telemetry.logs import ALLOWED_FIELDS
from tests.support import tree

LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "msg"})
OFTEN, ITS_OWN = "logs.often", "platform/penstock/telemetry/logs.py"
"""The quick way of a line that each request writes, and where it is."""
ENGINES = "platform/penstock/worker/engines/"
"""Here runs vLLM's own logging, in its own process: constant words alone."""


def log_calls(source: str) -> Iterator[ast.Call]:
    """Yield the calls of a logger: its methods on ``logger()``, ``log`` or ``_log``, and ``logs.often``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS | {"often"}:
            on = ast.unparse(node.func.value)
            if on.endswith(("logger()", "log", "_log")) or "getLogger" in on or ast.unparse(node.func) == OFTEN:
                yield node


def events_of(call: ast.Call) -> list[str]:
    """Return the events that a call may log, and its source where that can't be told from the text."""
    first = call.args[0] if call.args else call
    choices = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
    return [str(one.value) if isinstance(one, ast.Constant) else ast.unparse(one) for one in choices]


def strange(source: str, place: str) -> list[str]:
    """Return the log calls with an event or a field that is in no list."""
    found = []
    for call in log_calls(source):
        if "getLogger" in ast.unparse(call.func) and place.startswith(ENGINES):
            continue
        found += [f"{place}:{call.lineno} event {one}" for one in events_of(call) if one not in EVENTS]
        fields = [keyword.arg for keyword in call.keywords if keyword.arg is not None]
        found += [f"{place}:{call.lineno} field {one}" for one in fields if one not in ALLOWED_FIELDS]
    return found


def shipped() -> list[Path]:
    return [path for path in tree.python_files("platform") if path != tree.ROOT / ITS_OWN]


def test_every_log_call_is_of_the_list() -> None:
    """Each event stands in ``telemetry/events.py`` and each field in the allow-list, so that no line is a surprise."""
    assert [
        one for path in shipped() for one in strange(path.read_text(), path.relative_to(tree.ROOT).as_posix())
    ] == []


def test_the_list_has_no_event_that_nobody_logs() -> None:
    """What is logged no more leaves the list."""
    logged = {event for path in shipped() for call in log_calls(path.read_text()) for event in events_of(call)}
    assert sorted(EVENTS.keys() - logged) == []


def test_only_our_logger_logs() -> None:
    """Outside the engine's process nobody prints or logs by another way than ``telemetry.logs``."""
    others = [
        f"{tree.place(path, call.lineno)}"
        for path in shipped()
        if ENGINES not in path.as_posix()
        for call in log_calls(path.read_text())
        if "getLogger" in ast.unparse(call.func)
    ]
    assert others == []


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("logger().info('prompt_seen', code=1)", "x.py:1 event prompt_seen"),
        ("log.warning('request', body=text)", "x.py:1 field body"),
        ("logs.often('request', body=text)", "x.py:1 field body"),
        ("self._log.error(f'request {text}')", "x.py:1 event f'request {text}'"),
        ("logger().info('leads' if a else 'prompt')", "x.py:1 event prompt"),
    ],
)
def test_a_strange_log_call_is_found(line: str, finding: str) -> None:
    """An event, a field and a text that are in no list are reported with their place."""
    assert strange(line, "x.py") == [finding]
