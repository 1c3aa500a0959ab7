"""Where settings come from, and how a child process gets the same."""

import os
from pathlib import Path

import pytest
import yaml

from penstock.apps import settings


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home that the environment names."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    return tmp_path


def test_the_environment_wins_over_the_file_and_the_file_over_defaults(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting is taken from the first place that has it."""
    (home / "settings.yaml").write_text(yaml.safe_dump({"port": 9001, "workers": 3}))
    monkeypatch.setenv("PENSTOCK_PORT", "9002")
    found = settings.Settings()
    assert (found.port, found.workers, found.gateways) == (9002, 3, 1)


def test_a_child_gets_exactly_the_same_settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the file, the environment and the caller said reaches a child through its environment alone."""
    (home / "settings.yaml").write_text(yaml.safe_dump({"trace_ratio": 0.5}))
    ours = settings.Settings(port=0, models="smollm2").model_copy(update={"port": 4711})
    for name, value in settings.environment(ours).items():
        monkeypatch.setenv(name, value)
    (home / "settings.yaml").unlink()
    assert settings.Settings() == ours.model_copy(update={"home": home.resolve()})


def test_a_child_keeps_the_rest_of_the_environment(home: Path) -> None:
    """PATH and the like reach a child unchanged."""
    assert settings.environment(settings.Settings())["PATH"] == os.environ["PATH"]


def test_the_printed_settings_are_a_valid_file(home: Path) -> None:
    """What `penstock config` prints can be stored as the home's settings file."""
    ours = settings.Settings(port=9003)
    (home / "settings.yaml").write_text(settings.as_yaml(ours))
    assert settings.Settings() == ours
