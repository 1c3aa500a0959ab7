"""`penstock safety`: what a pack would do, and what is asked of the operators' API."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from penstock.cli import application, safety
from penstock.domain.command_error import CommandError
from penstock.filters.reading import parse
from penstock.views import safety as views
from penstock.views.elements import Listing, prose

app = application()

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0"
RULE = "{name: key, category: secrets, action: mask, stages: [output], regex: 'key-[0-9]{4}'}"


class Api:
    def __init__(self) -> None:
        self.sent: list[tuple[str, object]] = []

    def put(self, path: str, body: object) -> None:
        self.sent.append((path, body))

    patch = put

    def get(self, path: str) -> dict[str, str]:
        assert path == "/safety/packs/own"
        return {"pack": f'{{"id": "own", "version": 1, "rules": [{json.dumps(yaml.safe_load(RULE))}]}}'}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    found = Api()
    monkeypatch.setattr(safety, "operator", lambda _: found)
    return found


def run(*arguments: str, text: str = "") -> Any:  # noqa: ANN401  a result of click
    return CliRunner().invoke(app, ["safety", *arguments], input=text)


def test_a_shipped_pack_is_tried_on_standard_input() -> None:
    """A text that it would block ends with 3, and each match has its place; a harmless one ends with 0."""
    tried = run("try", "secrets", "--json", text=f"my token is {TOKEN} so")
    assert tried.exit_code == safety.WOULD_BLOCK
    (found,) = json.loads(tried.stdout)["found"]
    assert (found["rule"], found["action"], found["at"], found["characters"]) == ("jwt", "block", 12, len(TOKEN))
    assert run("try", "secrets", text="nothing to hide").exit_code == 0


def test_an_observing_pack_of_a_file_would_do_nothing(tmp_path: Path) -> None:
    """Its mode counts, as it would at a gateway."""
    pack, text = tmp_path / "own.yaml", tmp_path / "answer.txt"
    text.write_text("key-1234 and key-5678")
    for mode, action in (("observe", "observe"), ("enforce", "mask")):
        pack.write_text(f"id: own\nversion: 1\nmode: {mode}\nrules: [{RULE}]\n")
        tried = run("try", str(pack), str(text), "--json")
        assert [(one["action"], one["at"]) for one in json.loads(tried.stdout)["found"]] == [(action, 0), (action, 13)]


def test_a_pack_that_is_not_valid_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """It names the field and the reason, without a traceback, and its exit code is not that of a block."""
    pack = tmp_path / "own.yaml"
    pack.write_text("id: own\nversion: 1\nrules: [{name: x, category: y, action: block, span: word, regex: 'a*'}]\n")
    tried = run("try", str(pack), text="a")
    assert (tried.exit_code, tried.exception.__class__) == (1, SystemExit)
    assert "regex" in tried.stderr
    assert "Traceback" not in tried.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With what could be given instead."""
    with pytest.raises(CommandError, match="can't be read"):
        safety.try_pack(str(tmp_path / "none.yaml"))


def test_a_pack_that_filters_is_shown_as_one_that_can_be_pushed(api: Api, tmp_path: Path) -> None:
    """What is printed is a pack again, with all its rules."""
    file = tmp_path / "own.yaml"
    file.write_text(run("show", "own").stdout)
    assert [rule.name for rule in parse(file.read_bytes()).rules] == [yaml.safe_load(RULE)["name"]]


def test_packs_go_to_a_tenants_plan_or_to_the_floor(api: Api) -> None:
    """None takes all away."""
    for arguments in (("secrets,pii", "--tenant", "shop"), ("secrets",), ("none",)):
        assert run("assign", *arguments).exit_code == 0
    assert api.sent == [
        ("/tenants/shop/plan", {"safety": "secrets,pii"}),
        ("/safety/floor", {"packs": ["secrets"]}),
        ("/safety/floor", {"packs": []}),
    ]


def test_stats_tell_the_part_of_a_tenants_requests() -> None:
    """Of a pack that only observes the page says what it would have done, each request counted once."""
    rule = {"tenant": "shop", "pack": "own@1", "rule": "key", "stage": "output", "action": "observe", "wanted": "block"}
    done = {**rule, "pack": "secrets@3", "stage": "input", "action": "block"}
    found = {
        "rules": [{**rule, "interventions": 9, "requests": 5}, {**done, "interventions": 1, "requests": 1}],
        "packs": [{**rule, "rule": "", "interventions": 12, "requests": 6}],
        "served": [{"tenant": "shop", "requests": 200}],
    }
    page, decision = views.stats(found, "7h")
    assert isinstance(page, Listing)
    assert [row[2:] for row in page.rows] == [
        ("all rules", "would have ended the answer", "12", "6", "3.00%"),
        ("key", "would have ended the answer", "9", "5", "2.50%"),
        ("key", "refused the prompt", "1", "1", "0.50%"),
    ]
    assert "Enforced, own@1 would have ended the answer in 6 of 200 requests of shop (3.00%)" in str(decision)


def test_packs_are_told_with_models_that_are_away() -> None:
    """In the list, and behind what was pushed."""
    pack = {"id": "own", "version": 2, "is_current": True, "mode": "enforce", "rules": ["threat"], "digest": "d" * 64}
    shown = {**pack, "created_at": 5.0, "away": {"threat": "has no worker: guard@1"}}
    says = "own@2: confirm.model of threat has no worker: guard@1."
    assert views.away(shown) == [says]
    assert views.packs({"packs": [shown], "floor": []})[1:] == (prose(says),)
    assert len(views.packs({"packs": [{**shown, "away": {}}], "floor": []})) == 1
