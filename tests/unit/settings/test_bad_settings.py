"""Settings that can't be: a start that can't go on says so in words, with the remedy and without their values."""

import errno
import socket
from pathlib import Path

import pytest
import typer

from penstock import settings
from penstock.apps.controller import _addresses
from penstock.cli.terminal import explained
from penstock.domain.command_error import CommandError
from penstock.supervision.listening import bind


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home that the environment names, with nothing read yet."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    settings.load.cache_clear()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("LOG_LEVEL", "loud", "debug, info"),
        ("ARTIFACT_STORE", "/x", "s3://bucket"),
        ("LIMITS_URL", "http://:HUNTER2@cache", "rediss://"),
        ("LIMITS_URL", "redis://:HUNTER2@h:abc", "no number"),
        ("ANSWERS_URL", "redis://h:HUNTER2", "no number"),
        ("DATABASE_URL", "postgresql://u:HUNTER2@h:abc/p", "no number"),
    ],
)
def test_it_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, words: str
) -> None:
    """An outsider's finding: each of these ended a start with a traceback; now setting and form are named."""
    monkeypatch.setenv(f"PENSTOCK_{name}", value)
    with pytest.raises(typer.Exit), explained():
        settings.load()
    told = " ".join(capsys.readouterr().err.split())
    assert f"PENSTOCK_{name}" in told
    assert words in told
    assert "HUNTER2" not in told


@pytest.mark.parametrize(
    "url", ["postgresql://u:p@a:1,b:2/p", "postgresql://u@/p?host=/run", "postgresql://[::1]:5432/p", "host=db user=u"]
)
def test_what_the_driver_takes_is_taken(url: str) -> None:
    """Several hosts, none, an IPv6 address and plain words are addresses of a database."""
    assert settings.Settings(database_url=url).database_url == url


def test_a_broken_file_is_named(home: Path) -> None:
    """A settings.yaml that is no YAML ends the start with its name."""
    (home / "settings.yaml").write_text("port: [")
    with pytest.raises(CommandError, match=r"settings\.yaml can't be read"):
        settings.load()


def test_a_damaged_network_is_named() -> None:
    """A network of workers that can't be is refused with its setting."""
    with pytest.raises(CommandError, match="PENSTOCK_WORKER_ADDRESSES"):
        _addresses(settings.Settings(worker_addresses="10.0.0.0/99"), secure=False)


def test_a_home_that_is_read_only_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """What the disk refuses at a start is said with the file and the remedy."""
    with pytest.raises(typer.Exit), explained():
        raise OSError(errno.EROFS, "Read-only file system", "/home/run")
    assert "Can't use /home/run: Read-only file system." in " ".join(capsys.readouterr().err.split())


def test_a_taken_port_names_its_own_setting() -> None:
    """A controller's port that is in use, and a host that nobody knows, are said with the settings that name them."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CommandError) as refused:
        bind("127.0.0.1", taken.getsockname()[1], "PENSTOCK_CONTROLLER_PORT")
    assert "PENSTOCK_CONTROLLER_PORT" in refused.value.do
    with pytest.raises(CommandError, match=r"no-such-host\.invalid") as refused:
        bind("no-such-host.invalid", 0)
    assert "PENSTOCK_HOST" in refused.value.do
