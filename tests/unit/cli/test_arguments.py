"""Texts of the command line become values, or are refused with an example."""

import contextlib
from typing import Any

import msgspec
import pytest

from penstock.cli import arguments
from penstock.domain.command_error import CommandError
from penstock.views.tenants import FIELDS
from tests.support.samples import adapter_versions as made


class Registry:
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
    assert arguments.base(name, Registry()) == made.BASE


@pytest.mark.parametrize(("name", "why"), [("split", "several versions"), ("nothing", "no version")])
def test_an_alias_that_says_no_base_is_refused(name: str, why: str) -> None:
    """An adapter is made for one version's weights, and the remedy is to name them."""
    with pytest.raises(CommandError, match=why):
        arguments.base(name, Registry())


class Tenants:
    """An operators' API with two tenants."""

    def get(self, path: str) -> Any:  # noqa: ANN401  JSON
        """Answer."""
        assert path == "/tenants"
        return {"tenants": [{"id": "acme"}, {"id": "beta"}]}


def test_tenants_are_named_with_commas() -> None:
    """Nothing is everybody, and nobody is asked then."""
    assert arguments.tenants("acme, beta", Tenants()) == ["acme", "beta"]
    assert arguments.tenants("", Tenants()) is None


@pytest.mark.parametrize("text", ["acme,nobody", "acme,", ","])
def test_a_stranger_is_refused_before_anything_is_pushed(text: str) -> None:
    """With the way to see who there is."""
    with pytest.raises(CommandError) as caught:
        arguments.tenants(text, Tenants())
    assert "penstock tenants list" in caught.value.do


def test_shares_are_percentages() -> None:
    """A version alone has all of an alias; percentages become shares of ten thousand."""
    assert arguments.share("a@0123456789ab") == {"version": "a@0123456789ab", "weight": 10_000}
    assert arguments.share("a@0123456789ab=12.5") == {"version": "a@0123456789ab", "weight": 1_250}
    with pytest.raises(CommandError, match="no percentage"):
        arguments.share("a@0123456789ab=much")


def test_prices_are_dollars_per_million() -> None:
    """Three numbers become exact micro-dollars; anything else is told with an example."""
    price = arguments.price("0.10/0.05/0.4")
    assert (price.prompt_per_mtok, price.cached_per_mtok, price.output_per_mtok) == (100_000, 50_000, 400_000)
    with pytest.raises(CommandError, match="no price") as caught:
        arguments.price("cheap")
    assert "0.10/0.05/0.40" in caught.value.do


def test_engine_settings_are_read_and_refused_by_name() -> None:
    """Whole numbers and the dtype of the engine's settings are taken by name; anything else is told what there is."""
    assert arguments.engine_settings(["max_num_seqs=64", "block_size=16"]) == {"max_num_seqs": 64, "block_size": 16}
    assert arguments.engine_settings(["dtype=float32"]) == {"dtype": "float32"}
    for text in ("max_num_seqs", "max_num_seqs=-1", "dtype=float8", "seqs=1", "tensor_parallel_size=2"):
        with pytest.raises(CommandError, match="no setting of an engine"):
            arguments.engine_settings([text])


@pytest.mark.parametrize(("text", "micro"), [("0", 0), ("2.50", 2_500_000), ("0.000001", 1), ("1e3", 1_000_000_000)])
def test_dollars_become_micro_dollars(text: str, micro: int) -> None:
    """Exactly, by decimal arithmetic."""
    assert arguments.micro_usd(text) == micro


@pytest.mark.parametrize("text", ["", "-1", "0.0000001", "nan", "inf", "$5", "1e999999", "1e500000"])
def test_what_is_no_money_is_refused(text: str) -> None:
    """Less than a micro-dollar, less than nothing, and words."""
    with pytest.raises(CommandError):
        arguments.micro_usd(text)


@pytest.mark.parametrize(("text", "seconds"), [("", 0.0), ("90", 90.0), ("90s", 90.0), ("1.5m", 90.0), ("1h", 3600.0)])
def test_a_length_of_time_is_read(text: str, seconds: float) -> None:
    """Seconds, minutes and hours are understood."""
    assert arguments.length(text) == seconds


@pytest.mark.parametrize("text", ["0", "-1", "5 days", "m"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    """Anything else is told how to write it."""
    with pytest.raises(CommandError, match="no length of time"):
        arguments.length(text)


@pytest.mark.parametrize("name", sorted(FIELDS))
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
def test_no_bound_of_a_plan_is_no_number(name: str, value: str) -> None:
    """Of whatever field: what JSON can't say is refused with an example, or is a word."""
    with contextlib.suppress(CommandError):
        found = arguments.plan([f"{name}={value}"])
        assert msgspec.json.decode(msgspec.json.encode(found)) == found
