"""What happens to a name that no setting has."""

from pathlib import Path

import pytest

from penstock import settings
from penstock.domain.command_error import CommandError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home that the environment names, with nothing read yet."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    settings.load.cache_clear()
    return tmp_path


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("PENSTOCK_LIMIT_URL", "PENSTOCK_LIMITS_URL"),
        ("PENSTOCK_CACHE_URL", "PENSTOCK_"),
        ("PENSTOCK_METRIC_PORT", "PENSTOCK_METRICS_PORT"),
        ("PENSTOCK_DRAIN_S", "PENSTOCK_DRAIN_GRACE_S"),
        ("penstock_prot", "PENSTOCK_PORT"),
    ],
)
def test_a_variable_that_nobody_reads_ends_the_start(monkeypatch: pytest.MonkeyPatch, wrong: str, meant: str) -> None:
    """Finding 3.3: a misspelt variable was ignored, and every gateway gave its tenants their full limits."""
    monkeypatch.setenv(wrong, "x")
    with pytest.raises(CommandError, match=f"no setting {wrong}") as refused:
        settings.load()
    assert meant in refused.value.do


def test_a_key_of_the_file_that_nobody_reads_ends_the_start(home: Path) -> None:
    """A misspelt key of settings.yaml is refused like a variable, with the file's name."""
    (home / "settings.yaml").write_text("prot: 9001\n")
    with pytest.raises(CommandError, match=str(home / r"settings\.yaml")) as refused:
        settings.load()
    assert "Did you mean port?" in refused.value.do


@pytest.mark.parametrize("link", ["PENSTOCK_GATEWAY_SERVICE_HOST", "PENSTOCK_GATEWAY_PORT_8080_TCP_ADDR"])
def test_what_kubernetes_puts_in_is_explained(monkeypatch: pytest.MonkeyPatch, link: str) -> None:
    """A Service named penstock-… gives every container variables with our prefix; the refusal says how to stop that."""
    monkeypatch.setenv(link, "10.0.0.1")
    with pytest.raises(CommandError) as refused:
        settings.load()
    assert "enableServiceLinks: false" in refused.value.do


def test_every_setting_may_be_given(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All settings there are, by variable and by file, are known."""
    ours = settings.Settings()
    (home / "settings.yaml").write_text(settings.as_yaml(ours))
    for name, value in settings.environment(ours).items():
        monkeypatch.setenv(name, value)
    assert settings.load() == ours.model_copy(update={"home": home.resolve()})
