"""Adapters on the command line: whose base is meant, and what is shown of them."""

from typing import Any

import msgspec
import pytest

from penstock.cli import adapters
from penstock.domain.command_error import CommandError
from tests.support.samples import adapter_versions as made


class Api:
    """An operators' API with one version and some aliases."""

    def get(self, path: str) -> Any:  # noqa: ANN401  JSON
        """Answer."""
        if path == f"/models/{made.BASE.id}":
            return msgspec.to_builtins(made.BASE)
        shares = {
            "chat": [{"version": made.BASE.id, "weight": 10_000}, {"version": "other@1", "weight": 0}],
            "split": [{"version": made.BASE.id, "weight": 5_000}, {"version": "other@1", "weight": 5_000}],
        }
        return {"aliases": [{"alias": alias, "shares": found} for alias, found in shares.items()]}


@pytest.mark.parametrize("name", [made.BASE.id, "chat"])
def test_a_base_is_named_by_version_or_alias(name: str) -> None:
    """An alias that leads to one version means that one."""
    assert adapters.base_of(name, Api()) == made.BASE


@pytest.mark.parametrize(("name", "why"), [("split", "several versions"), ("nothing", "no version")])
def test_an_alias_that_says_no_base_is_refused(name: str, why: str) -> None:
    """An adapter is made for one version's weights, and the remedy is to name them."""
    with pytest.raises(CommandError, match=why):
        adapters.base_of(name, Api())


def test_what_is_shown_of_an_adapter() -> None:
    """Its base, which workers hold it, and whether it is on; of any other version how many workers it has."""
    adapter = {"base": "base@1", "resident": ["w1", "w2"], "replicas": 1}
    assert adapters.note(adapter) == "an adapter of base@1, held by w1, w2"
    assert adapters.note({**adapter, "resident": []}) == "an adapter of base@1, held by no worker now"
    refused = {**adapter, "resident": [], "refused": ["w1 (for 41 s more): it answers wrong"]}
    assert adapters.note(refused).endswith("no worker now; REFUSED by w1 (for 41 s more): it answers wrong")
    assert [adapters.workers_of({**adapter, "replicas": on}) for on in (1, 0)] == ["on", "off"]
    assert adapters.workers_of({**adapter, "pinned": True}) == "on (pinned)"
    plain = {"base": "", "resident": [], "replicas": 3}
    assert (adapters.note(plain), adapters.workers_of(plain)) == ("", "3")
