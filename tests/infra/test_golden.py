"""A change of any stack shows as a diff of its golden page and of its picture, and never slips by."""

from dataclasses import replace
from pathlib import Path

import pytest

from infra.capture.golden import path_of, render
from infra.graph.captured import Capture
from infra.picture.pages import FOLDER, pages
from tests.infra.edits import drop, option, put
from tests.infra.test_invariants import LABELS


@pytest.mark.parametrize("label", LABELS)
def test_the_golden_page_is_true(by_label: dict[str, Capture], label: str) -> None:
    """The committed page says what the stack holds; run `make infra-golden` after a reviewed change."""
    assert path_of(label).read_text(encoding="utf-8") == render(by_label[label])


def test_any_change_shows(by_label: dict[str, Capture]) -> None:
    """An input, an option or a resource that changes, changes the page."""
    item = by_label["mesh"]
    changes = (
        put("Budget", "monthly", "limitAmount", "1"),
        option("Budget", "monthly", protect=True),
        drop("Budget"),
    )
    pages_seen = {render(replace(item, graph=change(item.graph))) for change in changes}
    assert len(pages_seen - {render(item)}) == len(changes)


def test_no_secret_reaches_a_generated_file(captures: tuple[Capture, ...]) -> None:
    """The values of secret config stand in no golden page and in no picture."""
    written = "".join([*map(render, captures), *pages(captures).values()])
    assert "placeholder-" not in written


def test_the_pictures_are_true(captures: tuple[Capture, ...]) -> None:
    """Pictures and inventory, drawn again from the graphs, are the committed files; run `make infra-graph`."""
    drawn = pages(captures)
    assert {name: (FOLDER / name).read_text(encoding="utf-8") for name in drawn} == drawn
    assert {path.name for path in FOLDER.glob("*.svg")} == {name for name in drawn if name.endswith("svg")}


def test_pictures_hold_no_path_of_a_machine(captures: tuple[Capture, ...]) -> None:
    """Generated files name nothing of the machine they were drawn on."""
    assert str(Path.home()) not in "".join(pages(captures).values())
