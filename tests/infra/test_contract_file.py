"""The contract's file is read only where it is what the platform wrote, of the edition that is read here."""

import json
from pathlib import Path

import pytest

from infra.contract import FILE, ContractError, read

REMEDY = "`penstock contract > infra/contract.json`"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Return a copy of the kept file."""
    file = tmp_path / "contract.json"
    file.write_text(FILE.read_text(encoding="utf-8"), encoding="utf-8")
    return file


def changed(file: Path, **told: object) -> Path:
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | told), encoding="utf-8")
    return file


def test_the_kept_file_is_read(kept: Path) -> None:
    """The layout of the file says nothing, its content does."""
    assert set(read(changed(kept))) == {"gateway", "controller", "runner", "worker", "init"}


@pytest.mark.parametrize(
    ("edition", "said"), [(0, "is of edition 0"), (2, "is of edition 2"), (None, "is of edition none")]
)
def test_another_edition_is_refused(kept: Path, edition: int | None, said: str) -> None:
    """Bad input: a contract of another edition than the program's was read silently; it ends with the remedy."""
    with pytest.raises(ContractError) as refused:
        read(changed(kept, edition=edition))
    assert said in str(refused.value)
    assert REMEDY in str(refused.value)


def test_a_contract_that_nobody_wrote_so_is_refused(kept: Path) -> None:
    """An old half in a merge, an edit by hand and a file without a digest end with the remedy, and so does no JSON."""
    processes = json.loads(kept.read_text(encoding="utf-8"))["processes"]
    del processes["gateway"]["settings"][0]
    for told in ({"processes": processes}, {"digest": ""}, {"digest": "sha256:0"}):
        with pytest.raises(ContractError, match="older than its digest, edited or half merged") as refused:
            read(changed(kept, **told))
        assert REMEDY in str(refused.value)
    kept.write_text("<<<<<<< main", encoding="utf-8")
    with pytest.raises(ContractError, match="is no JSON"):
        read(kept)
