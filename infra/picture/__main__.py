"""`python -m infra.picture`: redraws infra/docs from the shipped config."""

from infra.capture.fleet import capture_fleet
from infra.config.load import load
from infra.picture.pages import FOLDER, pages

for name, content in pages(capture_fleet(load("prod"))).items():
    (FOLDER / name).write_text(content, encoding="utf-8")
    print(name)
