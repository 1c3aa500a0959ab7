"""The table of plans on its page is what the planner computes."""

import json
import re

import pytest
from typer.testing import CliRunner

from penstock.cli import application
from tests.support import tree

app = application()

PAGE = tree.ROOT / "docs" / "how-to" / "plan-memory.md"
ROW = re.compile(r"^\| (Llama-3\.1-\w+) \| (\d) x (\S+) \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text())


def planned(command: str, model: str, parts: str, gpu: str, *more: str) -> dict[str, object]:
    done = CliRunner().invoke(app, ["plan", command, model, "--gpu", gpu, "--tp", parts, "--json", *more])
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.output)
    return found


def test_the_page_has_both_models_on_four_gpus() -> None:
    """Eight rows: a model that is asked about most, small and large, on what clouds rent."""
    assert {(model, gpu) for model, _, gpu, _ in ROWS} == {
        (f"Llama-3.1-{size}", gpu) for size in ("8B", "70B") for gpu in ("A10G", "L40S", "A100-80", "H100")
    }


@pytest.mark.parametrize(("model", "parts", "gpu", "cells"), ROWS, ids=[f"{one[0]}-{one[2]}" for one in ROWS])
def test_a_row_is_what_the_commands_print(model: str, parts: str, gpu: str, cells: str) -> None:
    """Each figure to its printed digit."""
    memory = planned("memory", model, parts, gpu)
    sheet = planned("capacity", model, parts, gpu, "--peak", "100")
    figures = {one["name"]: one["value"] for one in sheet["figures"]}  # type: ignore[attr-defined]
    assert [cell.strip() for cell in cells.split("|")] == [
        f"{memory['kv_tokens']:,}",
        *(f"{figures[f'batch by {bound}']:.0f}" for bound in ("KV", "ITL")),
        f"{figures['step']:.1f}",
        f"{figures['prefill']:.0f} %",
        f"{figures['rate']:.2f}",
        str(sheet["binding"]),
        str(sheet["replicas"]),
        f"{sheet['gpus']:,}",
    ]
