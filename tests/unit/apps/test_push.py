"""A push that can't be registered is refused before it does anything."""

from pathlib import Path

import pytest

from penstock.apps.models import Destination, push
from penstock.domain.command_error import CommandError
from penstock.domain.ids import ModelName
from penstock.packaging.packing import Choices
from penstock.settings import Settings


@pytest.mark.parametrize("name", ["a@b", "", "A", "a/b", "x" * 64, "a\x1b"])
async def test_a_bad_name_is_refused_before_anything_is_stored(name: str, tmp_path: Path) -> None:
    """No store, no key and no folder is made for it."""
    choices = Choices(name=ModelName(name), price=None, licence="", origin="")
    home = tmp_path / "home"
    with pytest.raises(CommandError, match="name has 1 to 63"):
        await push(Settings(home=home), tmp_path / "model", choices, print)
    assert not home.exists()


async def test_a_shared_store_takes_no_new_key(tmp_path: Path) -> None:
    """Finding N5: a push to the cluster's store made a key of its own, whose signature every worker refuses."""
    choices = Choices(name=ModelName("chat"), price=None, licence="", origin="")
    home = tmp_path / "home"
    with pytest.raises(CommandError, match="no signing key") as refused:
        await push(Settings(home=home, artifact_store="s3://bucket/models"), tmp_path / "model", choices, print)
    assert str(home / "signing/private.pem") in refused.value.do
    assert "--signing-key" in refused.value.do
    assert not home.exists()


@pytest.mark.parametrize("to", [Destination(store="bucket"), Destination(store="s3://b/c", signing_key="alias/models")])
async def test_a_bad_destination_is_refused_before_anything_is_stored(to: Destination, tmp_path: Path) -> None:
    """A store or a key that is no address ends the push before any folder is made."""
    choices = Choices(name=ModelName("chat"), price=None, licence="", origin="")
    home = tmp_path / "home"
    with pytest.raises(CommandError, match=r"s3://bucket/prefix|names no key in KMS"):
        await push(Settings(home=home), tmp_path / "model", choices, print, to=to)
    assert not home.exists()
