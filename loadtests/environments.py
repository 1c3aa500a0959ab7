"""Environments for other projects' programs, made from hashed locks, and again when a lock changes."""

import hashlib
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def environment(kind: str, name: str) -> Path:
    """Return the folder of an environment: of ``requirements/KIND-NAME.lock``, in ``build/KIND``."""
    folder, lock = REPOSITORY / f"build/{kind}/env-{name}", REPOSITORY / f"requirements/{kind}-{name}.lock"
    made, digest = folder / "MADE", hashlib.sha256(lock.read_bytes()).hexdigest()
    if not made.exists() or made.read_text() != digest:
        print(f"making {name}'s environment", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install: list[str | Path] = [
            folder / "bin/pip",
            "install",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--requirement",
            lock,
        ]
        subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
        made.write_text(digest)
    return folder
