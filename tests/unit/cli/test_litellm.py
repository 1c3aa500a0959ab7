"""LiteLLM's configuration becomes aliases, tenants and keys; what has no counterpart is said, line by line."""

import asyncio
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli import application
from penstock.cli.litellm import Here, Import, read
from penstock.domain.ids import Alias
from penstock.formats.documents import DocumentRefused, yaml_of
from tests.support.controllers.in_memory import Room
from tests.support.samples import control_plane as things

app = application()

RUNNER = CliRunner()
NOW = 1_800_000_000.0
BIG, SMALL = "big@0123456789ab", "small@ba9876543210"
HERE = Here(
    versions={"big": [BIG], "small": [SMALL], "two": ["two@1", "two@2"]},
    aliases={"chat": [{"version": SMALL, "weight": 10_000}]},
    tenants=frozenset({"old"}),
    orgs=frozenset({"default"}),
    now=NOW,
)
CONFIG: dict[str, Any] = {
    "model_list": [
        {"model_name": "gpt-4o", "litellm_params": {"model": "hosted_vllm/Org/Big", "api_key": "sk-1", "rpm": 3}},
        {"model_name": "gpt-4o", "litellm_params": {"model": "openai/small", "rpm": 1, "temperature": 0.1}},
        {"model_name": "mini", "litellm_params": {"model": "openai/chat"}},
        {"model_name": "lost", "litellm_params": {"model": "openai/gpt-5"}},
        {"model_name": "two", "litellm_params": {"model": "openai/two"}},
        {"model_name": "openai/*", "litellm_params": {"model": "openai/*"}},
        {"model_name": "chat", "litellm_params": {"model": "openai/big"}},
    ],
    "litellm_settings": {"max_budget": 100, "budget_duration": "30d", "drop_params": True},
    "router_settings": {"model_group_alias": {"gpt-4": "gpt-4o", "none": "lost"}, "num_retries": 3},
    "general_settings": {"master_key": "sk-2"},
}
TEAMS: list[dict[str, Any]] = [
    {"team_id": "t1", "team_alias": "The Shop", "rpm_limit": 60, "max_budget": 2.5, "budget_duration": "1d"},
    {"team_id": "t2", "team_alias": "old", "tpm_limit": 5, "tpd_limit": 9, "models": ["mini"]},
]
KEYS: list[dict[str, Any]] = [
    {"key_alias": "web", "team_id": "t1", "models": ["gpt-4o", "lost"], "tpm_limit": 900, "max_budget": 1.0},
    {"key_alias": "all", "team_id": "t1", "models": ["all-team-models"], "expires": "2027-01-15T08:01:40Z"},
    {"key_alias": "off", "team_id": "t1", "blocked": True},
    {"key_alias": "gone", "team_id": "t1", "expires": "2020-01-01T00:00:00"},
    {"key_alias": "of nothing", "team_id": "t1", "models": ["lost"]},
    {"key_alias": "alone"},
]


def of(found: Import, path: str) -> list[dict[str, Any]]:
    return [dict(call.body) for call in found.calls if call.path == path]


def left(found: Import) -> str:
    return "\n".join(f"{where}: {why}" for where, why in found.left)


def test_models_become_aliases() -> None:
    """By the model's name, an alias or what is given; deployments of one name share it by their weights."""
    found = read(CONFIG, [], [], HERE, {"two": "two@2"})
    aliases = {call.path.rpartition("/")[2]: call.body["shares"] for call in found.calls if call.method == "PUT"}
    assert aliases == {
        "gpt-4o": [{"version": BIG, "weight": 7500}, {"version": SMALL, "weight": 2500}],
        "mini": [{"version": SMALL, "weight": 10_000}],
        "two": [{"version": "two@2", "weight": 10_000}],
        "gpt-4": [{"version": BIG, "weight": 7500}, {"version": SMALL, "weight": 2500}],
    }
    told = left(found)
    for part in (
        "model_list[1].litellm_params: temperature", "model_list[3]: no version here serves 'openai/gpt-5'",
        "model_list[5]: 'openai/*' is no alias", "model_name chat: there is an alias of this name",
        "router_settings.model_group_alias.none", "router_settings.num_retries", "litellm_settings.drop_params",
        "general_settings: settings of a proxy", "model_list[0]: rpm: limits are keys'",
    ):  # fmt: skip
        assert part in told
    assert "sk-" not in told


def test_teams_and_keys_become_tenants_and_keys() -> None:
    """With budgets of a day or a month and limits a minute; keys keep their models, and no key gets more."""
    found = read(CONFIG, TEAMS, KEYS, HERE, {})
    assert of(found, "/orgs") == [{"id": "litellm", "name": "LiteLLM", "plan": {"spend_per_month": 100_000_000}}]
    assert of(found, "/tenants") == [
        {
            "id": "the-shop",
            "name": "The Shop",
            "plan": {"requests_per_min": 60, "spend_per_day": 2_500_000},
            "org": "litellm",
        }
    ]
    assert of(found, "/keys") == [
        {"tenant": "the-shop", "models": ["gpt-4o"], "plan": {"tokens_per_min": 900}},
        {"tenant": "the-shop", "models": [], "plan": {}, "expires_in_s": 100.0},
    ]
    told = left(found)
    for part in (
        "tenant old: it is here already", "teams[1].tpd_limit: there is nothing like it", "teams[1].models",
        "keys[0].models: lost: no such alias", "keys[0].max_budget: budgets are of a day or a month",
        "keys[2]: off is blocked", "keys[3]: gone has expired", "keys[4].models", "keys[5]: alone is of no team",
    ):  # fmt: skip
        assert part in told


@pytest.mark.parametrize(
    "config",
    [{}, {"model_list": None}, {"model_list": ["x", 3]}, {"model_list": [{"model_name": None, "litellm_params": 7}]},
     {"litellm_settings": [], "router_settings": 3, "model_list": {"a": 1}}],
    ids=range(5),
)  # fmt: skip
def test_odd_files_are_read(config: dict[str, Any]) -> None:
    """Nothing of another shape ends in a fault of ours."""
    assert read(config, [{}], [{}], HERE, {}).calls == []


def shipped() -> Iterator[Path]:
    """Yield the example configurations of LiteLLM, if it is installed."""
    spec = importlib.util.find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from sorted(Path(folder, "proxy").glob("*config.yaml"))
        yield from sorted(Path(folder, "proxy", "example_config_yaml").glob("*.yaml"))


@pytest.mark.skipif(not list(shipped()), reason="LiteLLM is not installed")
def test_its_own_examples_are_read() -> None:
    """Each model name of each example that LiteLLM ships becomes an alias or is told."""
    seen = 0
    for path in shipped():
        try:
            config = yaml_of(path.read_bytes())
        except DocumentRefused:
            continue
        models = [one for one in config.get("model_list") or () if isinstance(one, dict)]
        found = read(config, [], [], HERE, {str(one["model_name"]): BIG for one in models[:1]})
        told = left(found) + "".join(call.says for call in found.calls)
        for number, one in enumerate(models):
            seen += 1
            assert f"model_list[{number}]" in told or str(one["model_name"]) in told, (path, one)
        assert not any(secret in told for secret in ("sk-", "os.environ"))
    assert seen > 20


def test_an_import_goes_through_the_operators_api(room: Room, tmp_path: Path) -> None:
    """A dry run makes nothing; then aliases, tenants and keys are there, and a second run makes only keys again."""
    for version in (things.version("big"), small := things.version("little", seed="b")):
        asyncio.run(room.registry.add_version(version, "signature", things.act()))
    asyncio.run(room.registry.put_routes(((Alias("small"), things.route("small", small.id)),), things.act()))
    (tmp_path / "config.yaml").write_text(
        json.dumps({**CONFIG, "model_list": [CONFIG["model_list"][number] for number in (0, 1, 3)]})
    )
    (tmp_path / "teams.json").write_text(json.dumps(TEAMS[:1]))
    (tmp_path / "keys.json").write_text(json.dumps({"keys": KEYS[:2], "total_count": 2}))
    words = ["import", "litellm", str(tmp_path / "config.yaml"), "--teams", str(tmp_path / "teams.json")]
    words += ["--keys", str(tmp_path / "keys.json")]
    dry = RUNNER.invoke(app, [*words, "--dry-run"])
    assert (dry.exit_code, "would make tenant the-shop" in dry.output) == (0, True), dry.output
    assert "the-shop" not in {one.id for one in asyncio.run(room.tenancy.tenants())}
    done = RUNNER.invoke(app, words)
    assert done.exit_code == 0, done.output
    assert done.output.count("psk_") == 2
    assert "not taken: model_list[2]" in done.output
    assert {route.alias for route in asyncio.run(room.registry.routes())} >= {"gpt-4o", "gpt-4"}
    keys = [key for key in asyncio.run(room.tenancy.keys()) if key.tenant == "the-shop"]
    assert sorted(key.models for key in keys) == [(), ("gpt-4o",)]
    again = json.loads(RUNNER.invoke(app, [*words, "--json"]).stdout)
    assert [one["does"][:9] for one in again["done"]] == ["a new key", "a new key"]
