"""Where settings come from, and how a child process gets the same."""

import os
from pathlib import Path

import pytest
import yaml

from penstock import settings


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


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "postgresql://penstock:s3:c@ret@db:5432/p?sslmode=require",
            "postgresql://penstock:***@db:5432/p?sslmode=require",
        ),
        ("postgresql://u@/p?host=/run&password=s3c@ret", "postgresql://u@/p?host=/run&password=***"),
        ("rediss://:s3c@ret@cache:6379/0", "rediss://:***@cache:6379/0"),
        ("redis://cache:6379", "redis://cache:6379"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("host=db user=u password=s3c@ret dbname=p", "host=db user=u password=*** dbname=p"),
        ("", ""),
    ],
)
def test_passwords_are_neither_shown_nor_handed_to_workers(home: Path, url: str, shown: str) -> None:
    """Finding 17: `penstock config` hides passwords in addresses, and workers and engines get no such address."""
    is_redis = url.startswith(("redis", "unix"))
    ours = settings.Settings(database_url=url, limits_url=url if is_redis else "")
    printed = yaml.safe_load(settings.as_yaml(ours))
    assert (printed["database_url"], printed["limits_url"]) == (shown, shown if is_redis else "")
    given = settings.environment_of_workers(ours)
    assert (given["PENSTOCK_DATABASE_URL"], given["PENSTOCK_LIMITS_URL"]) == ("", "")


def test_the_printed_settings_are_a_valid_file(home: Path) -> None:
    """What `penstock config` prints can be stored as the home's settings file."""
    ours = settings.Settings(port=9003)
    (home / "settings.yaml").write_text(settings.as_yaml(ours))
    assert settings.Settings() == ours


def test_a_secret_in_place_of_its_path_is_not_printed(home: Path) -> None:
    """`penstock config` shows the paths of secrets, and nothing that is none."""
    named = home / "platform.key"
    printed = yaml.safe_load(settings.as_yaml(settings.Settings(platform_key_file=str(named), pepper_file="HUNTER2")))
    assert (printed["platform_key_file"], printed["pepper_file"]) == (str(named), "***")
