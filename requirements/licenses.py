"""Writes LICENSES.md: the licence of every package we name ourselves, as its own metadata states it.

Run it in the environment of the locks (`make lock` does). What a package's metadata leaves out stands in STATED,
read from the licence file in its source.
"""

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

HERE = Path(__file__).parent
LISTS = ("core", "kubernetes", "local", "worker-cpu", "worker-gpu", "observe", "dev")
STATED = {
    "oss-harmony": "Apache-2.0",
    "protobuf": "BSD-3-Clause",
    "vllm": "Apache-2.0",
}
CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
HEADER = """# Licences of direct dependencies

Written by `requirements/licenses.py`; don't edit.

| package | lists | licence |
|---|---|---|
"""


def names(path: Path) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [re.split(r"[\[<>=!~; ]", line)[0].lower().replace("_", "-") for line in lines if line]


def licence(name: str) -> str:
    if name in STATED:
        return STATED[name]
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return "not installed"
    return expression(found) or "unknown"


def expression(found: Distribution) -> str:
    """Prefer the SPDX expression, then the trove classifiers, then the first line of the free text."""
    if spdx := found.metadata.get("License-Expression"):
        return str(spdx)
    troves = [c.rpartition(" :: ")[2] for c in found.metadata.get_all("Classifier") or [] if c.startswith("License ::")]
    stated = " OR ".join(sorted({CLASSIFIERS.get(trove, trove) for trove in troves} - {"OSI Approved"}))
    return stated or str(found.metadata.get("License") or "").strip().partition("\n")[0]


def table() -> str:
    lists: dict[str, list[str]] = {}
    for extra in LISTS:
        for name in names(HERE / f"{extra}.in"):
            lists.setdefault(name, []).append(extra)
    rows = (f"| {name} | {', '.join(where)} | {licence(name)} |\n" for name, where in sorted(lists.items()))
    return HEADER + "".join(rows)


if __name__ == "__main__":
    (HERE / "LICENSES.md").write_text(table())
