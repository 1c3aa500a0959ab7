"""Shared fixtures end with the last file that asks for them, and after a failed test, in a real pytest."""

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import pytest
from tests.support.platforms.sharing import adjacent, end, last_uses, running

said = []

def shared(name):
    @pytest.fixture(scope="session", name=name)
    def made(request):
        said.append(f"{name} is made")
        yield name
        said.append(f"{name} ends")
    return made

first, never, kept = shared("first"), shared("never"), shared("kept")

@pytest.fixture(scope="session")
def made_of_first(first):
    yield first
    said.append("made of first ends")

@pytest.fixture(autouse=True)
def _told(request):
    yield
    said.append(request.node.name)

def pytest_collection_modifyitems(config, items):
    adjacent(items, config.rootpath / "a", ("first",), ("test_z.py",))

def pytest_collection_finish(session):
    session.last = last_uses(session.items, ("first", "never"))

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    item.report = yield
    return item.report

@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    result = yield
    if item.report.failed:
        end(item, running(item, "", ("kept",)))
    end(item, item.session.last.get(item.nodeid, []))
    return result

def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line("said: " + ", ".join(said))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a tree of tests: the first folder shares something, the second does not."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/test_a.py").write_text("def test_1(made_of_first): pass\ndef test_2(first): pass\n")
    (tmp_path / "a/test_b.py").write_text("def test_3(): pass\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/test_c.py").write_text("def test_4(): pass\n")
    return tmp_path


def said(folder: Path, *options: str, code: int = 0) -> str:
    """Return the words of tests and fixtures, in order."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return next(line for line in done.stdout.splitlines() if line.startswith("said: ")).partition("said: ")[2]


def test_it_ends_with_the_file_and_what_was_made_of_it_before(folder: Path) -> None:
    """Files without it come first, but for the folder's last one, and what nobody asked for is not made."""
    (folder / "a/test_z.py").write_text("def test_5(): pass\n")
    told = "test_3, first is made, test_1, test_2, made of first ends, first ends, test_5, test_4"
    assert said(folder) == told


def test_who_is_left_out_counts_for_nothing(folder: Path) -> None:
    """Of what is chosen the last one counts."""
    assert said(folder, "-k", "test_2 or test_4") == "first is made, test_2, first ends, test_4"


def test_a_failed_test_leaves_its_neighbour_a_new_one(folder: Path) -> None:
    """Its shared fixtures end, dependents first, and the next test makes them again; a kept one stays."""
    (folder / "a/test_a.py").write_text(
        "def test_1(made_of_first, kept): assert False\ndef test_2(made_of_first, kept): pass\n"
    )
    told = (
        "test_3, first is made, kept is made, test_1, made of first ends, first ends, "
        "first is made, test_2, made of first ends, first ends, test_4, kept ends"
    )
    assert said(folder, code=1) == told
