"""The project's extras, read from requirements/*.in when the package is built.

So the .in files are the one list of dependencies: the extras, the locks and the environments all come from them.
"""

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

EXTRAS = ("core", "kubernetes", "local", "worker-cpu", "worker-gpu", "observe", "dev")


def requirements(path: Path) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


class ExtrasHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        folder = Path(self.root) / "requirements"
        metadata["optional-dependencies"] = {name: requirements(folder / f"{name}.in") for name in EXTRAS}
