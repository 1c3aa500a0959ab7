"""`python -m infra.capture`: writes the golden pages of the shipped config anew, after a reviewed change."""

from infra.capture.fleet import capture_fleet
from infra.capture.golden import FOLDER, path_of, render
from infra.config.load import load

FOLDER.mkdir(parents=True, exist_ok=True)
for item in capture_fleet(load("prod")):
    path_of(item.label).write_text(render(item), encoding="utf-8")
    print(path_of(item.label).name)
