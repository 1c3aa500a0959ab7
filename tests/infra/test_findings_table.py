"""Each row of the third review and of the rendered charts is mended with a test, or declined with a reason."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
TABLE = yaml.safe_load(Path(__file__).with_name("findings.yaml").read_text(encoding="utf-8"))
REVIEW, CHARTS = 15, 27


def test_every_row_has_its_tests() -> None:
    """Each row names tests that are there, or says why it has none."""
    files = [*ROOT.glob("tests/infra/test_*.py"), *ROOT.glob("tests/unit/connectors/kubernetes/test_*.py")]
    content = "\n".join(file.read_text(encoding="utf-8") for file in files)
    there = set(re.findall(r"^def (test_\w+)", content, re.MULTILINE))
    assert len([one for one in TABLE if re.fullmatch(r"N\d+", one)]) == REVIEW
    assert len(TABLE) == REVIEW + CHARTS
    for name, row in TABLE.items():
        assert row["state"] in ("mended", "declined"), name
        assert set(row.get("tests", [])) <= there, name
        assert bool(row.get("tests")) != bool(row.get("why")), name
