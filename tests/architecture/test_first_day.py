"""What the run-book of the infrastructure asks of the platform's own command is there."""

import re

from typer.main import get_command

from penstock.cli import app
from tests.support import tree


def test_each_command_of_the_run_book_is_one_of_ours() -> None:
    """Every `penstock …` of the page's blocks is a command of the real command line, with options that it has."""
    page = (tree.ROOT / "infra/README.md").read_text()
    told = [line.split()[1:] for line in re.findall(r"^penstock .*$", page, re.MULTILINE)]
    known = get_command(app).commands  # type: ignore[attr-defined]
    assert told
    for name, *rest in told:
        options = {option for one in known[name].params for option in one.opts}
        assert {word for word in rest if word.startswith("--")} <= options
