"""Writes each generated page of the reference to ``docs/reference``."""

from scripts.reference import FOLDER, PAGES

for name, page in PAGES.items():
    (FOLDER / name).write_text(page())
    print(f"docs/reference/{name}")
