"""The volumes of a pod as the kubelet makes them: owners, modes, secrets behind a symbolic link."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
EVERYBODY = 0o777 | 0o2000
"""Of an empty folder with an ``fsGroup``; the group's files inside stay the group's."""


@dataclass(kw_only=True)
class Storage:
    """What is beyond pods, by name: secrets, config maps, volumes of claims, folders of machines."""

    root: Path
    secrets: dict[str, Mapping[str, str]] = field(default_factory=dict)
    configs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    machine: dict[str, Path] = field(default_factory=dict)

    def claim(self, name: str, group: int) -> Path:
        """Return the volume of a claim, made at its first use, with the group's rights as at each mount."""
        if name in self.machine:
            return self.machine[name]  # a folder of the machine: the kubelet leaves its owners alone
        path = self.root / "claims" / name
        path.mkdir(parents=True, exist_ok=True)
        for one in (path, *path.rglob("*")):
            os.chown(one, -1, group)
            one.chmod(one.stat().st_mode | (0o2770 if one.is_dir() else 0o660))
        return path


@dataclass(frozen=True, kw_only=True)
class Volumes:
    """The volumes of one pod below a folder of its own."""

    folder: Path
    group: int
    storage: Storage

    def make(self, volume: Json) -> Path:
        """Return the path of a volume of the pod's spec. Raises ``LookupError`` if its secret is missing."""
        if "persistentVolumeClaim" in volume:
            return self.storage.claim(str(volume["persistentVolumeClaim"]["claimName"]), self.group)
        path = self.folder / str(volume["name"])
        path.mkdir(parents=True, exist_ok=True)
        if "secret" in volume:
            self._secret(path, volume["secret"])
        elif "configMap" in volume:
            for key, content in self.storage.configs[volume["configMap"]["name"]].items():
                (path / key).write_text(content)
        else:
            assert "emptyDir" in volume, f"nobody makes such a volume here: {volume}"
            os.chown(path, 0, self.group)
            path.chmod(EVERYBODY)
        return path

    def _secret(self, path: Path, told: Json) -> None:
        name = str(told["secretName"])
        if name not in self.storage.secrets:
            raise LookupError(f'MountVolume.SetUp failed: secret "{name}" not found')
        version = path / "..version"
        version.mkdir(exist_ok=True)
        for key, content in self.storage.secrets[name].items():
            file = version / key
            file.write_text(content)
            os.chown(file, 0, self.group)
            file.chmod(int(told.get("defaultMode", 0o644)))
            (path / key).symlink_to(f"..version/{key}")

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
