"""What every board keeps to, by itself: order, words, units, queries that Prometheus can read."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from grafanalib.core import Dashboard, Graph

from dashboards import build, modern, panels
from dashboards.boards.requests import FAULTS
from dashboards.queries import VARIABLES
from penstock.domain.outcome import Stage
from penstock.gateway.listener.errors import TABLE
from penstock.telemetry.definitions import MetricKind
from penstock.telemetry.names import CATALOGUE
from tests.support.monitoring import boards
from tests.support.monitoring.prometheus import program
from tests.support.tree import ROOT

BOARDS = build.boards()
UNITS = {"short", "none", "s", "m", "reqps", "ops", "percentunit", "currencyUSD", "suffix: tok/s"}
UIDS = ["admission", "batching", "capacity", "diagnosis", "jobs", "money", "overview", "requests", "safety", "workers"]

each_board = pytest.mark.parametrize("uid", BOARDS)


def test_the_boards_are_there_under_stable_names() -> None:
    """Runbooks and alerts lead to a board by its UID, which is its file's name."""
    assert set(BOARDS) >= {f"penstock-{name}" for name in UIDS}


def test_adding_a_board_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file in the folder is a new board with all that boards have, and nothing else changes."""
    (tmp_path / "rollout.py").write_text((ROOT / "dashboards/boards/overview.py").read_text())
    monkeypatch.setattr("dashboards.boards.__path__", [str(tmp_path)])
    added = build.boards(tmp_path)
    assert list(added) == ["penstock-rollout"]
    assert added["penstock-rollout"]["templating"] == BOARDS["penstock-overview"]["templating"]


def test_what_is_written_replaces_what_was(tmp_path: Path) -> None:
    """A board that is gone from the repository is gone from the folder; other people's files stay."""
    for name in ("penstock-gone.json", "theirs.json"):
        (tmp_path / name).write_text("{}")
    written = build.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*(path.name for path in written), "theirs.json"}
    assert {path.stem: json.loads(path.read_text()) for path in written} == BOARDS


@each_board
def test_panels_have_their_place(uid: str) -> None:
    """Ids are unique, nothing overlaps, each row fills the width, and what belongs together stands under a headline."""
    taken: set[tuple[int, int]] = set()
    shown = BOARDS[uid]["panels"]
    assert [panel["id"] for panel in shown] == list(range(1, len(shown) + 1))
    for panel in shown:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    bottom = max(y for _, y in taken) + 1
    assert taken == {(x, y) for x in range(24) for y in range(bottom)}
    assert shown[0]["type"] == "row"


@each_board
def test_each_panel_says_what_it_shows_in_which_unit(uid: str) -> None:
    """A title, a sentence, a unit of the house, and a name for each line."""
    for panel in boards.panels(BOARDS[uid]):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert all(target["legendFormat"] for target in panel["targets"])
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0


@each_board
def test_a_board_can_be_narrowed(uid: str) -> None:
    """Each has the variables of the house, asks the data source that was chosen, and leads to the others."""
    board = BOARDS[uid]
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names == ["datasource", *VARIABLES]
    sources = [panel["datasource"] for panel in boards.panels(board)]
    sources += [target["datasource"] for panel in boards.panels(board) for target in panel["targets"]]
    assert all(source == panels.SOURCE for source in sources)
    assert {note["name"] for note in board["annotations"]["list"]} >= {"rollouts", "process restarts"}
    assert board["links"][0]["tags"] == board["tags"] == ["penstock"]


def test_the_requests_board_has_the_same_three_panels_for_each_stage_in_path_order() -> None:
    """Rate, errors, duration: whoever knows one row knows them all."""
    titles = [panel["title"] for panel in boards.panels(BOARDS["penstock-requests"])]
    wanted = [f"{stage}: {what}" for stage in Stage for what in ("rate", "errors", "duration")]
    assert [title for title in titles if ": " in title] == wanted


def test_each_code_of_the_published_table_stands_in_one_stage() -> None:
    """A new kind of error has its place on the way, so that none is seen nowhere or twice."""
    placed = [code for faults in FAULTS.values() for code in faults.codes]
    assert sorted(placed) == sorted({kind.code for kind in TABLE})


def test_every_metric_is_shown_somewhere() -> None:
    """What nobody can see is not worth its series."""
    asked = " ".join(one.expr for one in boards.asked())
    annotated = json.dumps([board["annotations"] for board in BOARDS.values()])
    sample = {one.name: f"{one.name}_total" if one.kind is MetricKind.COUNTER else one.name for one in CATALOGUE}
    unseen = {name for name, told in sample.items() if not re.search(rf"\b{told}(_|\b)", asked + annotated)}
    assert unseen == set()


def test_prometheus_can_read_every_query(tmp_path: Path) -> None:
    """The official parser takes each expression, with variables and windows filled in."""
    rules = [{"record": f"q:{i}", "expr": boards.filled(one.expr)} for i, one in enumerate(boards.asked())]
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"groups": [{"name": "boards", "rules": rules}]}))
    told = subprocess.check_output([program("promtool"), "check", "rules", file], text=True)
    assert f"{len(rules)} rules found" in told


@each_board
def test_nothing_of_an_old_grafana_is_left(uid: str) -> None:
    """Nothing holds a key that Grafana has given up, or a null that it would take for a wish."""
    board = BOARDS[uid]
    shown = boards.panels(board)
    found = {
        "board": [board],
        "panel": board["panels"],
        "row": [panel for panel in board["panels"] if panel["type"] == "row"],
        "target": [target for panel in shown for target in panel["targets"]],
    }
    for kind, things in found.items():
        assert not {key for thing in things for key in thing} & set(modern.GONE[kind]), kind
    assert "null" not in re.sub(r'"color": "\w+", "value": null', "", json.dumps(board, sort_keys=True))


def test_a_panel_of_an_old_kind_is_refused() -> None:
    """The library still makes graphs as they were before Grafana 8; a board can't have one."""
    with pytest.raises(modern.OutOfDate, match="old: a graph"):
        modern.written(Dashboard(title="any", panels=[Graph(title="old")]))
