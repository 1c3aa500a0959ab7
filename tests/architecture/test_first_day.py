"""The commands of `penstock` in the run-book of the first day are commands that there are."""

import re
import shlex

import pytest

from tests.support import tree
from tests.support.samples.commands import ALL

PAGE = "".join((tree.ROOT / "infra" / page).read_text() for page in ("README.md", "UPGRADES.md"))
LINES = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("penstock ")
]


@pytest.mark.parametrize("line", LINES)
def test_a_command_is_parsed(line: str) -> None:
    """Finding N5: names, options, order and number of arguments are those of the command line."""
    words = shlex.split(line)[1:]
    path = max((one for one in ALL if tuple(words[: len(one)]) == one), key=len)
    assert not ALL[path].make_context(" ".join(path), words[len(path) :]).args


def test_the_first_model_is_pushed_and_asked() -> None:
    """A version, its alias, a tenant and a key come before the first request."""
    wanted = ["models push", "aliases set", "tenants create", "keys create"]
    found = [line.removeprefix("penstock ") for line in LINES]
    assert [one for line in found for one in wanted if line.startswith(one)] == wanted
