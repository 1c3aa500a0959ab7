"""The lanes: together they are all tests, each once, and a failure in one is a failure of all."""

import re
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests import lanes
from tests.lanes import Lane

TESTS = sorted(path.relative_to(lanes.ROOT).as_posix() for path in (lanes.ROOT / "tests").rglob("test_*.py"))

ONCE = """
from pathlib import Path

def test_first():
    seen = Path("seen")
    again = seen.exists()
    seen.touch()
    assert again

def test_second(): pass
"""


def holds(name: str, path: str) -> bool:
    """Tell whether a lane's options let pytest collect this file."""
    options = lanes.folders_of(name)
    left_out = [one.removeprefix("--ignore=") for one in options if one.startswith("--ignore=")]
    chosen = [one for one in options if not one.startswith("--")]
    return any(Path(path).is_relative_to(one) for one in chosen) and not any(
        Path(path).is_relative_to(one) for one in left_out
    )


def test_each_file_is_in_one_lane() -> None:
    """No test is forgotten, and none runs twice."""
    assert [path for path in TESTS if sum(holds(name, path) for name in lanes.FOLDERS) != 1] == []


def test_the_gate_leaves_no_mark_out() -> None:
    """Each test of a running platform's measurements is in the first lane, and each other one in a later lane."""
    observe = [path for path in TESTS if "mark.observe" in (lanes.ROOT / path).read_text()]
    processes = [path for path in observe if path.startswith("tests/integration/")]
    assert processes
    assert [path for path in processes if not any(Path(path).is_relative_to(one) for one in lanes.OBSERVED)] == []
    ran = {one.name: " ".join(one.command) for one in lanes.gate([])}
    assert sorted(ran) == ["faults", "logic", "observed", "platforms", "static", "workers"]
    assert ran["logic"].endswith("-m not gpu and not drill")


def test_the_quick_lanes_have_each_kind_of_test() -> None:
    """`make test` runs a part of what the gate runs: unit tests, contracts and real platforms among it."""
    quick = [path for path in TESTS if any(holds(name, path) for name in lanes.QUICK)]
    kinds = ("tests/unit", "tests/contracts", "tests/simulation", "tests/architecture", "tests/integration/serve")
    assert [kind for kind in kinds if not any(path.startswith(f"{kind}/") for path in quick)] == []
    assert set(lanes.QUICK) < set(lanes.FOLDERS)


def test_a_lane_waits_for_the_one_before_it(own_root: Path) -> None:
    """In the gate, lanes of real processes follow the observed platforms."""
    first = Lane("first", ["sh", "-c", "sleep 0.3; echo first >> order"])
    then = Lane("then", ["sh", "-c", "echo then >> order"], after=first)
    threads = [threading.Thread(target=one.run) for one in (then, first)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (own_root / "order").read_text().split() == ["first", "then"]


def test_the_lanes_are_added_up_as_pytest_would() -> None:
    """The last line has the form that the gate looks for, and names the lane to look at."""
    first = Lane("a", [], 1, lanes.counted("==== 1 failed, 20 passed, 3 deselected, 1 warning in 61.2s (0:01:01) ===="))
    second = Lane("b", [], 0, lanes.counted("2 passed, 1 skipped, 2 errors in 0.5s"))
    assert first.counts == Counter(failed=1, passed=20, deselected=3, warning=1)
    text = "1 failed, 2 error, 22 passed, 1 skipped, 3 deselected, 1 warning in 61.30s (look at: a)"
    assert lanes.summary([first, second], 61.3) == text


@pytest.mark.parametrize(
    ("codes", "status"),
    [((0, 0, 0), 0), ((0, 1, 0), 1), ((0, 5, 0), 0), ((5, 5, 5), 5), ((5, 2, 1), 2), ((0, -9, 0), 9)],
)
def test_one_lane_that_fails_fails_all(codes: tuple[int, ...], status: int) -> None:
    """Nothing chosen in one lane is no failure; killed, failed or broken is one."""
    assert lanes.verdict([Lane("x", [], code) for code in codes]) == status


@pytest.fixture
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a tree of the test's own, with a configuration that asks for nothing."""
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_a_lane_runs_a_real_pytest(own_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What pytest prints comes with the lane's name, its counts are kept, and what fails twice has failed."""
    (own_root / "test_it.py").write_text("def test_good(): pass\ndef test_bad(): assert False\n")
    assert lanes.main(["--only", "one", "-q", "test_it.py"]) == 1
    printed = capsys.readouterr().out
    assert "      one | " in printed
    assert "asked again alone: test_it.py::test_bad" in printed
    assert re.search(r"^1 failed, 1 passed, 1 rerun in [0-9.]+s \(look at: one\)$", printed, re.MULTILINE)


def test_what_is_compiled_is_kept(own_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a machine whose Python is told to keep nothing, hundreds of processes don't compile the same again."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (own_root / "test_it.py").write_text("import sys\ndef test_it(): assert not sys.dont_write_bytecode\n")
    assert lanes.main(["--only", "one", "-q", "test_it.py"]) == 0


def test_who_fails_beside_others_and_passes_alone_is_named(own_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The machine was taken: what it says alone counts, and nobody overlooks it."""
    (own_root / "test_it.py").write_text(ONCE)
    assert lanes.main(["--only", "one", "-q", "test_it.py"]) == 0
    printed = capsys.readouterr().out
    assert "asked again alone: test_it.py::test_first" in printed
    assert re.search(r"^2 passed, 1 rerun in [0-9.]+s$", printed, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("\n".join(f"def test_{i}(): assert False" for i in range(lanes.AGAIN_AT_MOST + 1)), ["-q"]),
        ("def test_0(): assert False\ndef test_1(): pass", ["-q", "-x"]),
        ("import nothing_of_this_name", ["-q"]),
    ],
    ids=["too many", "cut short", "not collected"],
)
def test_what_is_no_chance_is_not_asked_again(
    own_root: Path, capsys: pytest.CaptureFixture[str], text: str, options: list[str]
) -> None:
    """Many failures, a run that did not get to its end and a file that can't be read stay what they are."""
    (own_root / "test_it.py").write_text(text)
    assert lanes.main(["--only", "one", *options, "test_it.py"]) != 0
    assert "asked again" not in capsys.readouterr().out
