"""Whose versions are, on the command line."""

from typing import Any

import pytest

from penstock.cli import owners
from penstock.domain.command_error import CommandError


class Api:
    """An operators' API with two tenants."""

    def get(self, path: str) -> Any:  # noqa: ANN401  JSON
        """Answer."""
        assert path == "/tenants"
        return {"tenants": [{"id": "acme"}, {"id": "beta"}]}


def test_tenants_are_named_with_commas() -> None:
    """Nothing is everybody, and nobody is asked then."""
    assert owners.read("acme, beta", Api()) == ["acme", "beta"]
    assert owners.read("", Api()) is None


@pytest.mark.parametrize("text", ["acme,nobody", "acme,", ","])
def test_a_stranger_is_refused_before_anything_is_pushed(text: str) -> None:
    """With the way to see who there is."""
    with pytest.raises(CommandError) as caught:
        owners.read(text, Api())
    assert "penstock tenants list" in caught.value.do


def test_what_is_shown_of_them() -> None:
    """For whom alone a version is; of one for everybody nothing."""
    assert owners.note({"tenants": ["acme", "beta"]}) == "for acme, beta alone"
    assert (owners.note({"tenants": None}), owners.note({})) == ("", "")
    assert owners.note({"tenants": []}).startswith("for no tenant")
