"""The terminal: the output of all commands, and the exit of a command that fails.

No name can control the terminal, an unprintable character is replaced, and a full disk or a closed pipe ends a command
with one sentence.
"""

import codecs
import errno
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from typer.core import TyperGroup

from penstock.domain.command_error import CommandError
from penstock.domain.errors import PenstockError
from penstock.formats.visible import visible

if TYPE_CHECKING:
    from pydantic import ValidationError

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object, with the names of the operators' API.")]
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_OTHER_SIGNS = str.maketrans(
    {
        **dict(zip("·…→✓✗µ×–—’“”≤≥─━│┃•", '-|...|->|ok|x|u|x|-|-|\'|"|"|<=|>=|-|-|I|I|*'.split("|"), strict=True)),  # noqa: RUF001
        **dict.fromkeys("╭╮╰╯├┤┬┴┼┌┐└┘╞╡", "+"),
    }
)


class Terminal(Console):
    """A console on which styles produce control sequences, and texts don't."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


out = Terminal()
err = Terminal(stderr=True)


def tell_json(value: object) -> None:
    """Print a value as one line of JSON in ASCII, which every locale and every program reads."""
    typer.echo(json.dumps(value))


def prepare() -> None:
    """Read arguments and write output as UTF-8, or with replacements if the locale has fewer characters."""
    if sys.getfilesystemencoding() != "utf-8":  # arguments would be no text, and paths in them no files
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606  itself
    codecs.register_error("other-signs", _other_signs)
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "other-signs"), (sys.stderr, "other-signs")):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=errors)


def run(command: Callable[[], object]) -> int:
    """Return the command's exit code: 1 after a sentence if its output can't be written, or if its reader has closed
    the pipe.
    """
    code = 0
    try:
        try:
            command()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in {errno.EPIPE, *_FULL}:
            raise
        _close(sys.stdout)
        _tell(error)
        return 1
    return code


def _tell(error: OSError) -> None:
    if error.errno == errno.EPIPE:
        return
    try:
        sys.stderr.write(f"Can't write the output: {error.strerror}. Free some space, or write elsewhere.\n")
        sys.stderr.flush()
    except OSError:
        _close(sys.stderr)


def _close(stream: TextIO) -> None:
    """Discard the stream's unwritten rest: the interpreter would write it again at the end of the process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _other_signs(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end].translate(_OTHER_SIGNS)
    return found.encode(error.encoding, "replace").decode(error.encoding), error.end


class Commands(TyperGroup):
    """All commands: errors of the platform and bad settings end one with a sentence and exit code 1, without a
    traceback.
    """

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # click's own context, which typer's is
        with explained():
            return super().invoke(ctx)


@contextmanager
def explained() -> Iterator[None]:
    from pydantic import ValidationError

    from penstock.local.screen import show_error

    try:
        yield
    except (CommandError, PenstockError, ValidationError, UnicodeEncodeError, OSError) as error:
        if isinstance(error, OSError) and error.filename is None:  # of no file: the output's, or nobody's
            raise
        show_error(err, _told(error))
        raise typer.Exit(1) from error


def _told(error: "CommandError | PenstockError | ValidationError | UnicodeEncodeError | OSError") -> CommandError:
    match error:
        case CommandError():
            return error
        case PenstockError():
            is_named = not error.param or error.message.startswith(error.param)
            return CommandError(f"{error.message}." if is_named else f"{error.param} {error.message}.")
        case UnicodeEncodeError():
            return CommandError("An argument is not valid UTF-8.", do="Write it in UTF-8.")
        case OSError():
            return _of_files(error)
    return _of_settings(error)


_ELSEWHERE = "Name a place that this account may write to; that of the home is PENSTOCK_HOME."
_REMEDIES = {
    errno.ENOENT: "Name a file that is there, or make its folder first.",
    errno.ENOTDIR: "Name a file that is there, or make its folder first.",
    errno.EISDIR: "Name a file: this is a folder.",
    errno.EACCES: _ELSEWHERE,
    errno.EPERM: _ELSEWHERE,
    errno.EROFS: _ELSEWHERE,
    errno.ENAMETOOLONG: "Give it a shorter name.",
}


def _of_files(error: OSError) -> CommandError:
    do = _REMEDIES.get(error.errno or 0, f"Free some space. {_ELSEWHERE}")
    return CommandError(f"Can't use {error.filename}: {error.strerror}.", do=do)


def _of_settings(error: "ValidationError") -> CommandError:
    """Return an error that names the settings and their faults, never their values: some contain passwords."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    names = [f"PENSTOCK_{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}" for one in found]
    return CommandError(
        f"A setting is not valid: {'; '.join(names)}.",
        do="Correct the PENSTOCK_* variable or the home's settings.yaml; `penstock config` prints all settings.",
    )
