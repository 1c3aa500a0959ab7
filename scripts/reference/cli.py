"""The page of the command line: each command with its help, arguments and options, as ``--help`` has them."""

import inspect
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from penstock.cli import application
from scripts.reference.markdown import code, table, titled

app = application()

_LEAD = """`penstock COMMAND --help` prints the same. Commands that speak to a running platform find it by `PENSTOCK_HOME`
(`--home`). With the same two options they work from any machine that reaches the controller:

| option | default | what it says |
| --- | --- | --- |
| `--key` | the operators' of this home | An admin's API key; an auditor's is enough if nothing is changed. `PENSTOCK_KEY` says the same. |
| `--url` | that of this home, else `http://127.0.0.1:8079` | The controller's address. `PENSTOCK_URL` says the same. |"""
_REMOTE = frozenset({"PENSTOCK_KEY", "PENSTOCK_URL"})
"""What tells these two options from others of their name, by the variables that say the same."""


def page() -> str:
    """Return the whole page, commands in the order of ``penstock --help``."""
    root = get_command(app)
    return titled("Command line", _LEAD) + "".join(_command(path, one) for path, one in _walk("penstock", root))


def _walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    for name, one in getattr(command, "commands", {}).items():
        if not one.hidden:
            yield f"{path} {name}", one
            yield from _walk(f"{path} {name}", one)


def _command(path: str, command: Any) -> str:
    level = "##" if path.count(" ") == 1 else "###"
    parts = [f"\n{level} {path}\n\n{_text(command.help)}\n"]
    if getattr(command, "commands", None) and not command.invoke_without_command:
        return "".join(parts)
    arguments = [one for one in command.params if one.param_type_name == "argument" and not one.hidden]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = [path, *(_argument(one) for one in arguments), *(["[OPTIONS]"] if options else [])]
    is_operators = any(one.envvar == "PENSTOCK_URL" for one in options)
    remote = "\nTakes `--key` and `--url`.\n" if is_operators else ""
    parts.append(f"\n```\n{' '.join(usage)}\n```\n{remote}")
    rows = [(code(one.name.upper()), "", _text(one.help)) for one in arguments if one.help]
    rows += [
        (_names(one), _default(one), _text(one.help))
        for one in options
        if not (one.name == "help" or (is_operators and one.envvar in _REMOTE))
    ]
    if rows:
        parts.append("\n" + table(("argument or option", "default", "what it says"), rows))
    return "".join(parts)


def _text(help_: str | None) -> str:
    return inspect.cleandoc(help_ or "").replace("\b\n", "")


def _argument(one: Any) -> str:
    name = one.name.upper() + ("…" if one.nargs == -1 else "")
    return name if one.required else f"[{name}]"


def _names(one: Any) -> str:
    return ", ".join(code(name) for name in (*one.opts, *one.secondary_opts))


def _default(one: Any) -> str:
    shown = one.show_default if isinstance(one.show_default, str) else None
    if shown is not None:
        return shown
    value = getattr(one.default, "value", one.default)
    if value is None or value in ("", False, (), []) or callable(value):
        return ""
    if value is True:
        return code(one.opts[0])
    return code(f"{value:g}" if isinstance(value, float) else str(value))
