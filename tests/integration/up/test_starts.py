"""Starts that can't succeed, or are ended at once."""

import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.patience import until
from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration


def test_a_used_port_is_told_before_anything_is_started(tmp_path: Path) -> None:
    """The message names the port and the setting, and no process stays behind."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        platform = Platform(home=tmp_path / "home", settings={"port": str(port)})
        done = platform.run("up", check=False)
    assert done.returncode == 1
    assert f"Port {port}" in done.stdout
    assert "PENSTOCK_PORT" in done.stdout
    assert platform.survivors() == []


def test_a_bad_setting_is_told_by_its_name(tmp_path: Path) -> None:
    """A value of the wrong kind ends in one message instead of a traceback."""
    platform = Platform(home=tmp_path / "home", settings={"workers": "many"})
    done = platform.run("up", check=False)
    assert done.returncode == 1
    assert "PENSTOCK_WORKERS" in done.stderr
    assert "Traceback" not in done.stderr


def test_several_gateways_without_a_shared_store_do_not_start(tmp_path: Path) -> None:
    """Finding 9: nothing starts that would multiply limits, and the message names the setting that mends it."""
    platform = Platform(home=tmp_path / "home", settings={"gateways": "4"})
    done = platform.run("up", check=False)
    assert done.returncode == 1
    assert "4 times the agreed amount" in done.stdout + done.stderr
    assert "PENSTOCK_LIMITS_URL" in done.stdout + done.stderr
    assert platform.survivors() == []


def test_an_unknown_demo_model_is_told_with_those_that_exist(tmp_path: Path) -> None:
    """The message names the models that can be had."""
    platform = Platform(home=tmp_path / "home", models="gpt-9")
    done = platform.run("up", check=False)
    assert done.returncode == 1
    assert "smollm2" in done.stdout
    assert platform.survivors() == []


def test_commands_without_a_platform_say_how_to_start_one(tmp_path: Path) -> None:
    """Nothing running is told as such by every command that needs it."""
    platform = Platform(home=tmp_path / "home")
    for command in (("ask", "Hi"), ("status",), ("keys", "list"), ("restart", "gateway")):
        done = platform.run(*command, check=False)
        assert done.returncode == 1, command
        assert "penstock up" in done.stderr, command
        assert "Traceback" not in done.stderr, command


def test_a_second_signal_ends_a_start_at_once(homes: Path, shared_settings: dict[str, str]) -> None:
    """Two interrupts in the middle of a start leave nothing behind."""
    platform = Platform(home=homes / "interrupted", models="smollm2", settings=shared_settings)
    platform.launch()
    process = platform.process
    assert process is not None
    try:
        until("the workers are coming", lambda: "workers" in str(platform.state.get("phase")), within_s=60)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.wait(20)
        assert platform.survivors() == []
    except (AssertionError, subprocess.TimeoutExpired) as error:
        raise AssertionError(f"{error}\n{platform.logs()}") from error
    finally:
        platform.kill_all()
