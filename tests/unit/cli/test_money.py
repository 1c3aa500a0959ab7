"""Plans, budgets and usage on the command line, against a real controller's API on the memory twins."""

import asyncio
import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import application
from penstock.cli.arguments import plan
from penstock.domain.command_error import CommandError
from penstock.domain.tenancy.budget import day
from penstock.local import connections
from penstock.settings import as_yaml, environment, load
from penstock.views.tenants import described
from penstock.views.words import dollars
from tests.support.controllers.in_memory import Room
from tests.support.samples.ledger_rows import row

app = application()

RUNNER = CliRunner()


def run(*words: str, code: int = 0) -> str:
    done = RUNNER.invoke(app, words)
    assert done.exit_code == code, done.output
    return done.output


def test_the_status_shows_where_the_controller_is(room: Room, tmp_path: Path) -> None:
    """Keys of auditors and admins are of use at that address alone."""
    assert f" at {(tmp_path / 'run/controller.addr').read_text()}\n" in run("status")


def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Go to a machine without a home; return the controller's address."""
    url = (tmp_path / "run/controller.addr").read_text()
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "elsewhere"))
    load.cache_clear()
    return url


def test_a_tenants_own_people_get_in_with_key_and_address(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An auditor without a home reads its tenant's affairs, and an admin keeps its keys; neither has the operators'."""
    run("tenants", "create", "shop")
    auditor, admin = (run("keys", "create", "shop", "--role", role).split()[0] for role in ("auditor", "admin"))
    url = elsewhere(tmp_path, monkeypatch)
    for words in (("usage", "show", "shop"), ("keys", "list"), ("budgets", "show"), ("tenants", "show", "shop")):
        assert "operators" not in run(*words, "--key", auditor, "--url", url)
    assert "403" in run("tenants", "create", "x", "--key", admin, "--url", url, code=1)
    monkeypatch.setenv("PENSTOCK_KEY", admin)
    monkeypatch.setenv("PENSTOCK_URL", f"{url}/")
    assert run("keys", "create", "shop").startswith("psk_")


def test_the_audit_log_shows_a_tenant_its_own(room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By time, actor and action, as a table and as JSON; what concerns other tenants is the operators' to read."""
    for tenant in ("shop", "other"):
        run("tenants", "create", tenant)
    auditor = run("keys", "create", "shop", "--role", "auditor").split()[0]
    assert "tenant.create" in run("audit", "--action", "tenant")
    as_auditor = ("--key", auditor, "--url", elsewhere(tmp_path, monkeypatch))
    acts = [json.loads(line) for line in run("audit", "--json", *as_auditor).splitlines()]
    assert [(act["what"], act["tenant"]) for act in acts] == [("key.mint", "shop"), ("tenant.create", "shop")]
    operator = acts[0]["who"]
    assert "none" in run("audit", "--actor", "nobody", *as_auditor)
    assert "none" in run("audit", "--until", "2020-01-01", *as_auditor)
    one = run("audit", "--actor", operator, "--action", "key.mint", "--since", "2020-01-01", *as_auditor)
    assert operator in one
    assert "tenant.create" not in one


def test_the_operators_key_goes_to_no_other_address(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address without a key is refused: the home's own key is for the home's own controller."""
    assert "no key to show" in run("keys", "list", "--url", "http://127.0.0.1:9", code=1)
    monkeypatch.setattr(connections, "CONTROLLER_PORT", 9)
    elsewhere(tmp_path, monkeypatch)
    assert "No controller answers at http://127.0.0.1:9 " in run("keys", "list", "--key", "psk_x", code=1)


def test_no_process_of_a_platform_gets_a_callers_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What somebody says at one command is not shown as a setting and not handed on."""
    monkeypatch.setenv("PENSTOCK_KEY", "psk_secret")
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    load.cache_clear()
    settings = load()
    assert settings.key == "psk_secret"
    assert "psk_secret" not in f"{as_yaml(settings)}{environment(settings)}{settings!r}"
    load.cache_clear()


def test_an_organisations_life(room: Room) -> None:
    """Organisations, tenants and their plans are made, changed and shown."""
    run("orgs", "create", "retail", "--plan", "spend_per_month=1000")
    run("tenants", "create", "shop", "--org", "retail", "--plan", "tokens_per_min=2000", "--weight", "3")
    assert "requests_per_min=60" in run("tenants", "plan", "shop", "requests_per_min=60")
    run("orgs", "plan", "retail", "max_concurrent=9")
    assert "max_concurrent=9 spend_per_month=1000.00" in run("orgs", "list")
    assert "tokens_per_min=2000" in run("tenants", "list")
    screen = run("tenants", "show", "shop")
    assert "retail" in screen
    assert "weight" in screen
    refused = run("tenants", "plan", "shop", "degrade_model=smal", code=1)
    assert "there is no alias smal; there are: small" in refused
    degrading = run("tenants", "plan", "shop", "degrade_output_tokens=64", "degrade_model=small")
    assert "degrade_output_tokens=64 degrade_model=small" in degrading
    standing = run("tenants", "plan", "shop", "over_quota=yield", "reserved=0.25")
    assert "over_quota=yield reserved=0.25" in standing
    assert "paid=no" in run("tenants", "plan", "shop", "paid=no", "reserved=0")
    assert "paid" not in run("tenants", "plan", "shop", "paid=yes")
    assert "degrade" not in run("tenants", "plan", "shop", "degrade_output_tokens=0", "degrade_model=0")
    assert "shop belongs to default" in run("tenants", "move", "shop", "default")
    made = run("keys", "create", "shop", "--plan", "max_streams=2")
    assert "max_streams=2" in run("keys", "list", "shop")
    key = made.split("_")[1]
    assert "deadline_s=1.5" in run("keys", "plan", key, "deadline_s=1.5")


def test_a_budget_is_shown_by_its_whole_scope_or_its_name_alone(room: Room) -> None:
    """`acme` finds the tenant's and the organisation's of that name; a kind, a part or another name finds no other."""
    run("orgs", "create", "acme")
    run("tenants", "create", "shop")
    for scope in ("tenant:acme", "org:acme", "tenant:shop"):
        run("budgets", "set", scope, "--per-day", "5")

    def shown(*words: str) -> set[str]:
        return {one["scope"] for one in json.loads(run("budgets", "show", *words, "--json"))["budgets"]}

    assert shown("acme") == {"tenant:acme", "org:acme"}
    assert shown("tenant:acme") == {"tenant:acme"}
    assert shown("org:acme") == {"org:acme"}
    assert shown() == {"tenant:acme", "org:acme", "tenant:shop"}
    assert [shown(wrong) for wrong in ("acm", "tenant", "tenant:", "org:shop", "key:acme", "ACME")] == [set()] * 6


def test_budgets_are_set_in_dollars(room: Room) -> None:
    """Caps go in and come out as dollars, with what was spent."""
    asyncio.run(room.ledger.append([row("r1", at=room.clock.now(), cost=1_250_000)]))
    assert "$5.00 a day" in run("budgets", "set", "tenant:acme", "--per-day", "5")
    screen = run("budgets", "show", "tenant:acme")
    for word in ("1.25", "5.00", "25.0%"):
        assert word in screen
    assert "none" in run("budgets", "show", "tenant:nobody")
    assert "no amount" in run("budgets", "set", "tenant:acme", "--per-day", "much", code=1)
    assert "nothing to set" in run("budgets", "set", "tenant:acme", code=1)
    assert "is not a budget's scope" in run("budgets", "set", "acme", "--per-day", "1", code=1)


def test_usage_is_shown_and_exported(room: Room, tmp_path: Path) -> None:
    """Sums on the screen; every row once in CSV and in JSON, and a header also without rows."""
    now = room.clock.now()
    asyncio.run(room.ledger.append([row(f"r{i}", at=now - 5 - i, cost=3) for i in range(4)]))
    assert "0.000012" in run("usage", "show", "acme", "--since", "2020-01-01")
    file = tmp_path / "rows.csv"
    run("usage", "export", "--since", "2020-01-01", "--output", str(file))
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [one["request"] for one in rows] == ["r3", "r2", "r1", "r0"]
    run("usage", "export", "--since", "2020-01-01", "--format", "json", "--output", str(file))
    assert [json.loads(line)["cost"] for line in file.read_text().splitlines()] == [3, 3, 3, 3]
    run("usage", "export", "--until", "2020-01-01", "--since", "2019-01-01", "--output", str(file))
    assert file.read_text().startswith("request,tenant,key")
    assert "no day" in run("usage", "show", "acme", "--since", "yesterday", code=1)


def test_reconcile_fails_where_counters_differ(room: Room) -> None:
    """A difference is code 1; a rebuild mends it; inside gateways there is nothing to compare."""
    run("budgets", "set", "tenant:acme", "--per-day", "1")
    assert "0 differ" in run("usage", "reconcile")
    asyncio.run(room.meters.put_spent({f"tenant:acme:spend:{day(room.clock.now()).name}": 7}))
    assert "1 differ" in run("usage", "reconcile", code=1)
    assert "0 differ, 1 corrected" in run("usage", "reconcile", "--rebuild")
    assert "0 differ" in run("usage", "reconcile")


@pytest.mark.parametrize("pair", ["speed=1", "weight", "weight=", "weight=two", "requests_per_min=1.5", "paid=maybe"])
def test_what_is_no_bound_is_refused(pair: str) -> None:
    """The words say which pair, and what may stand there."""
    with pytest.raises(CommandError):
        plan([pair])


def test_plans_are_described_in_the_words_they_are_given_in() -> None:
    """What is described of a plan can be given again; what bounds nothing is not described."""
    words = ["priority=batch", "weight=2", "max_streams=3", "spend_per_day=2.50", "deadline_s=1.5"]
    words += ["paid=no", "over_quota=yield", "reserved=0.25"]
    assert described(plan(words)) == " ".join(words)
    assert (
        described({"priority": "standard", "weight": 1, "spend_per_day": 0, "paid": True, "over_quota": "refuse"}) == ""
    )
    assert [dollars(n) for n in (0, 1, 2_500_000, -10)] == ["0.00", "0.000001", "2.50", "-0.00001"]
