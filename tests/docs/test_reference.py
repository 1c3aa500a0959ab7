"""The pages of the reference are those that the code gives."""

import re

import pytest

from penstock.settings import Settings
from scripts.reference import FOLDER, PAGES
from tests.support import tree

_HEADER = re.compile(r"[\"'](x-penstock-[a-z-]*[a-z])[\"']")


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    """A page that the code has left behind is found; `make reference` writes it anew."""
    assert (FOLDER / name).read_text() == PAGES[name](), f"docs/reference/{name} is old: run `make reference`"


def test_every_setting_has_a_line() -> None:
    """Each setting's variable stands on the page of settings, once."""
    named = re.findall(r"^\| `PENSTOCK_(\w+)`", PAGES["settings.md"](), re.MULTILINE)
    assert sorted(named) == sorted(name.upper() for name in Settings.model_fields)


def test_every_header_of_ours_is_described() -> None:
    """Each `x-penstock-` header that the platform's code spells is on the page of headers or of the wire."""
    told = "".join((FOLDER / name).read_text() for name in ("headers.md", "wire.md"))
    spelled = {name for path in tree.python_files("platform") for name in _HEADER.findall(path.read_text())}
    assert spelled
    assert sorted(name for name in spelled if f"`{name}" not in told) == []
