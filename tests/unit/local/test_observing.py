"""What Prometheus is told of the processes of a home, and what is said where it is missing."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.connectors.process import identity
from penstock.connectors.process.records import ProcessRecord, Records
from penstock.domain.command_error import CommandError
from penstock.domain.ids import VersionId, WorkerId
from penstock.local import observing, services
from penstock.settings import Settings
from penstock.supervision import exposition

US, PARENT = os.getpid(), os.getppid()
NOBODY = 1 << 30


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return settings of a home whose worker and gateway are this process."""
    found = Settings(home=tmp_path, zone="b")
    found.paths.observe.mkdir()
    record = ProcessRecord(
        worker=WorkerId("m-1"), version=VersionId("m@0123"), pid=US, start=identity.started(US), started_at=0.0
    )
    Records(found.paths.run / "workers").write(record)
    return found


def told(settings: Settings) -> dict[str, dict[str, str]]:
    """Return the labels of what is scraped, by address."""
    found = json.loads((settings.paths.observe / observing.TARGETS).read_text())
    return {target: group["labels"] for group in found for target in group["targets"]}


def test_each_process_with_a_page_is_named_with_zone_role_and_version(settings: Settings) -> None:
    """Gateways and controllers by their number, workers by name, version and model; Postgres has no page."""
    exposition.show(settings.paths.run, "http://127.0.0.1:1")
    exposition.address_file(settings.paths.run, PARENT).write_text("http://127.0.0.1:2/metrics")
    observing.tell(settings, {"postgres": PARENT, "gateway 1": PARENT, "controller": NOBODY})
    assert told(settings) == {
        "127.0.0.1:1": {
            "zone": "b", "role": "worker", "instance": "m-1", "worker": "m-1", "version": "m@0123", "model": "m"
        },
        "127.0.0.1:2": {"zone": "b", "role": "gateway", "instance": "gateway-1"},
    }  # fmt: skip


def test_who_has_no_page_any_more_is_forgotten(settings: Settings) -> None:
    """A process that says no address is no target, and the file is not written again where nothing changed."""
    file = settings.paths.observe / observing.TARGETS
    exposition.show(settings.paths.run, "http://127.0.0.1:1234")
    observing.tell(settings, {})
    before = file.stat().st_mtime_ns
    observing.tell(settings, {})
    assert file.stat().st_mtime_ns == before
    assert list(told(settings)) == ["127.0.0.1:1234"]
    exposition.hide(settings.paths.run)
    observing.tell(settings, {})
    assert told(settings) == {}


def test_a_start_forgets_the_pages_of_the_dead_and_keeps_those_of_adopted_workers(settings: Settings) -> None:
    """A worker that outlived its supervisor stays to be seen by the next one's Prometheus."""
    dead = exposition.address_file(settings.paths.run, NOBODY)
    exposition.show(settings.paths.run, "http://127.0.0.1:1234")
    dead.write_text("http://127.0.0.1:1/metrics")
    services.forget_ended(settings.paths.run)
    assert exposition.address(settings.paths.run, US) == "http://127.0.0.1:1234/metrics"
    assert not dead.exists()


def test_a_missing_program_is_told_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing starts where the platform shall be observed and there is nobody to do it."""
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    observing.check(Settings(home=tmp_path))
    with pytest.raises(CommandError, match="no prometheus on this machine") as refused:
        observing.check(Settings(home=tmp_path, observe=True))
    assert "make observability" in refused.value.do


def test_they_get_nothing_of_our_environment(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other people's programs hear no password that our processes are told."""
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", "postgresql://u:secret@h/d")
    sites = observing.Sites(prometheus="http://127.0.0.1:1", alertmanager="http://127.0.0.1:2")
    for command in (observing.prometheus(settings, sites), observing.alertmanager(settings, sites)):
        assert command.environment == {}
        assert not any("secret" in word for word in command.argv)


def test_they_name_themselves_as_they_are_shown(settings: Settings) -> None:
    """What they link to is the address that was printed, and not a name of the host that may lead nowhere."""
    sites = observing.Sites(prometheus="http://127.0.0.1:1", alertmanager="http://127.0.0.1:2")
    assert "--web.external-url=http://127.0.0.1:1" in observing.prometheus(settings, sites).argv
    assert "--web.external-url=http://127.0.0.1:2" in observing.alertmanager(settings, sites).argv


@pytest.mark.parametrize("choose", [lambda s: s.prometheus, lambda s: s.alertmanager])
def test_a_port_that_was_asked_for_is_used(tmp_path: Path, choose: Callable[[observing.Sites], str]) -> None:
    """Fixed ports stay fixed; without one each finds a free one."""
    free = observing.choose(Settings(home=tmp_path))
    port = int(choose(free).rpartition(":")[2])
    asked = Settings(home=tmp_path, prometheus_port=port, alertmanager_port=port)
    assert choose(observing.choose(asked)) == f"http://127.0.0.1:{port}"
