"""The Prometheus that measurements are read from: the one that was named, or the home's own."""

from pathlib import Path

from penstock.apps import observed
from penstock.settings import Settings


def test_the_nearest_word_names_the_prometheus(tmp_path: Path) -> None:
    """What is said at the command goes before the setting, and that before what the home runs."""
    home = Settings(home=tmp_path)
    assert observed.prometheus(home) is None
    home.paths.run.mkdir()
    home.paths.prometheus_address.write_text("http://home:9090\n")
    told = Settings(home=tmp_path, prometheus_url="http://set:9090")
    found = [
        observed.prometheus(settings, given) for settings, given in ((home, ""), (told, ""), (told, "http://said:9"))
    ]
    assert [one.url for one in found if one] == ["http://home:9090", "http://set:9090", "http://said:9"]
