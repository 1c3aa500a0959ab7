"""The file tree of an image, made by the images' own script, and what its Dockerfile says beside."""

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import tree

SCRIPT = tree.ROOT / "platform/images/install"
DOCKERFILE = tree.ROOT / "platform/images/Dockerfile"
BUILT = tree.ROOT / "build/images"


@dataclass(frozen=True, kw_only=True)
class Image:
    """A tree to be mounted at the root, its variables, and the user that it runs as."""

    tree: Path
    environment: Mapping[str, str]
    uid: int
    more: Mapping[str, Path] = field(default_factory=dict)
    """What lies in it beside the tree, by path."""


def wheel(folder: Path) -> Path:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=tree.ROOT, check=True, capture_output=True, timeout=60)
    return next(folder.glob("*.whl"))


def image(name: str, work: Path) -> Image:
    """Return an image of this checkout's wheel; packages stay in place until the lock changes."""
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        install = [str(SCRIPT), name, str(wheel(work)), str(BUILT / name)]
        done = subprocess.run(
            install,
            env={**os.environ, "PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
    assert done.returncode == 0, done.stderr
    return Image(tree=BUILT / name, environment=_variables(), uid=_uid())


def _variables() -> dict[str, str]:
    (line,) = re.findall(r"^ENV (.+)$", DOCKERFILE.read_text(), re.MULTILINE)
    return dict(part.split("=", 1) for part in line.split())


def _uid() -> int:
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE.read_text(), re.MULTILINE)
    return int(user)
