"""The command line beside a running platform, as processes of their own."""

import re

import pytest

from tests.support.patience import until
from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration


def test_ask_streams_an_answer_and_its_stages(platform: Platform) -> None:
    """`penstock ask` prints the answer alone to a pipe, and the times of its stages beside it."""
    done = platform.run("ask", "What is the capital of Japan?")
    assert "Tokyo" in done.stdout
    assert "prefill" in done.stderr
    assert re.search(r"smollm2\S*@[0-9a-f]{12}", done.stderr)


def test_ask_for_an_unknown_model_explains_itself(platform: Platform) -> None:
    """The error of the API is said in words and the command fails."""
    done = platform.run("ask", "--model", "gpt-9", "Hi", check=False)
    assert done.returncode == 1
    assert "gpt-9" in done.stderr
    assert "Traceback" not in done.stderr


def test_status_shows_processes_workers_and_aliases(platform: Platform) -> None:
    """`penstock status` has every process, each worker's state and phases, the versions, the aliases."""
    screen = platform.run("status").stdout
    for word in ("gateway", "controller", "postgres", "ready", "loading", "smollm2", "minilm", "table"):
        assert word in screen


def test_models_are_listed_and_shown(platform: Platform) -> None:
    """`penstock models list` has both versions, and `models show` the manifest of one."""
    listed = platform.run("models", "list").stdout
    found = re.search(r"smollm2\S*@[0-9a-f]{12}", listed)
    assert found is not None
    shown = platform.run("models", "show", found.group()).stdout
    assert "model.safetensors" in shown
    assert "Apache-2.0" in shown or "apache-2.0" in shown


def test_a_keys_life(platform: Platform) -> None:
    """A created key works, is listed without its secret, and stops working within seconds of being revoked."""
    created = platform.run("keys", "create", "demo").stdout
    secret = re.search(r"psk_\w+", created)
    assert secret is not None
    key = secret.group()
    with platform.http(key) as http:
        until("the new key works", lambda: http.get("/v1/models").status_code == 200, within_s=5)
        listed = platform.run("keys", "list", "demo").stdout
        key_id = key.split("_")[1]
        assert key_id in listed
        assert key not in listed
        platform.run("keys", "revoke", key_id)
        until("the revoked key is refused", lambda: http.get("/v1/models").status_code == 401, within_s=5)


def test_a_rotated_key_has_a_successor(platform: Platform) -> None:
    """`keys rotate` gives a new secret; the old one works on for the overlap and no longer."""
    old = re.search(r"psk_\w+", platform.run("keys", "create", "demo").stdout)
    assert old is not None
    rotated = platform.run("keys", "rotate", old.group().split("_")[1], "--overlap", "3").stdout
    new = re.search(r"psk_\w+", rotated)
    assert new is not None
    assert new.group() != old.group()
    with platform.http(new.group()) as fresh, platform.http(old.group()) as stale:
        until("the new key works", lambda: fresh.get("/v1/models").status_code == 200, within_s=5)
        until("the old key is refused", lambda: stale.get("/v1/models").status_code == 401, within_s=10)


def test_config_prints_the_settings_as_a_file(platform: Platform) -> None:
    """`penstock config` prints YAML that could stand in the home."""
    assert "stream_stall_s:" in platform.run("config").stdout


def test_the_key_files_are_private(platform: Platform) -> None:
    """The owner alone reads the keys."""
    for name in ("demo.key", "admin.key", "platform.key"):
        assert (platform.home / name).stat().st_mode & 0o077 == 0, name


def test_a_second_up_in_this_home_is_told_of_the_first(platform: Platform) -> None:
    """One platform per home: the second ends at once and names the first."""
    done = platform.run("up", check=False)
    assert done.returncode == 1
    assert str(platform.state["pid"]) in done.stderr + done.stdout
