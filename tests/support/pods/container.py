"""A process as a container runtime would start it: another root, read-only, with nothing of this machine but a base.

It takes namespaces of Linux and `util-linux`, and root to use them; no container engine. This machine's `/usr` and its
Python stand for the image's base, Debian's Python. The network is this machine's.
"""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import psutil

from tests.support.pods.images import Image

BASE = ("/usr", "/etc/ssl", "/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/mime.types")
DEVICES = ("null", "zero", "full", "random", "urandom")
GONE_WITHIN_S = 10
ALONE = ("/usr/bin/unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")


@cache
def is_possible() -> bool:
    """Tell whether this account may make namespaces here."""
    if os.geteuid() != 0:
        return False
    return subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A file or folder of this machine inside the container."""

    source: Path
    path: str
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Container:
    """A process, its user and its file system. ``mounts`` come over the image, in order."""

    image: Image
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    read_only: bool = True

    def start(self, log: Path) -> "Running":
        """Start it; what it prints goes to the log."""
        root = Path(tempfile.mkdtemp(prefix="pod-", dir="/tmp"))
        with log.open("ab") as out:
            process = subprocess.Popen(
                [*ALONE, "/bin/sh", "-euc", "\n".join(self._script(root))],
                env={**self.image.environment, **self.environment},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return Running(process, root, log)

    def run(self, log: Path, within_s: float = 60) -> int:
        running = self.start(log)
        try:
            return running.wait(within_s)
        finally:
            running.kill()

    def _script(self, root: Path) -> Iterator[str]:
        yield f"/bin/mount -t tmpfs -o mode=755,size=1m tmpfs {root}"
        for path in ("bin", "sbin", "lib", "lib64"):
            yield f"/bin/ln -s usr/{path} {root}/{path}"
        for mount in self._all():
            yield from _bind(root, mount)
        yield f"/bin/mkdir -p {root}/proc {root}/tmp {root}/dev/shm"
        yield f"/bin/mount -t proc proc {root}/proc"
        if not any(mount.path == "/dev/shm" for mount in self.mounts):
            yield f"/bin/mount -t tmpfs -o mode=1777,size=64m tmpfs {root}/dev/shm"
        if self.read_only:
            yield f"/bin/mount -o remount,ro {root}"
        uid = str(self.image.uid)
        who = ("--reuid", uid, "--regid", uid, "--clear-groups", "--no-new-privs", "--bounding-set=-all")
        command = (
            "/usr/sbin/chroot",
            str(root),
            "/usr/bin/setpriv",
            *who,
            "--inh-caps=-all",
            "--pdeathsig",
            "KILL",
            "--",
            *self.command,
        )
        yield f"exec {shlex.join(command)}"

    def _all(self) -> Iterator[Mount]:
        base = Path(sys.base_prefix)
        homes = () if base.is_relative_to("/usr") else (str(base),)
        for path in (*BASE, *homes):
            if Path(path).exists():
                yield Mount(source=Path(path), path=path, read_only=True)
        for device in DEVICES:
            yield Mount(source=Path("/dev") / device, path=f"/dev/{device}")
        for part in sorted(self.image.tree.iterdir()):
            yield Mount(source=part, path=f"/{part.name}", read_only=True)
        for path, source in self.image.more.items():
            yield Mount(source=source, path=path, read_only=True)
        yield from self.mounts


def _bind(root: Path, mount: Mount) -> Iterator[str]:
    target = shlex.quote(f"{root}{mount.path}")
    source = shlex.quote(str(mount.source))
    folder = target if mount.source.is_dir() else shlex.quote(str(Path(f"{root}{mount.path}").parent))
    yield f"/bin/mkdir -p {folder}"
    if not mount.source.is_dir():
        yield f"[ -e {target} ] || : > {target}"
    yield f"/bin/mount --bind {source} {target}"
    if mount.read_only:
        yield f"/bin/mount -o remount,bind,ro {target}"


class Running:
    """A started container: its first process, and how it ends."""

    def __init__(self, process: "subprocess.Popen[bytes]", root: Path, log: Path) -> None:
        self._process, self._root, self.log = process, root, log

    @property
    def code(self) -> int | None:
        """How it ended, or None while it runs; beyond 128 a signal ended it."""
        return self._process.poll()

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its first process, as a runtime does."""
        with suppress(psutil.NoSuchProcess):
            for first in psutil.Process(self._process.pid).children():
                first.send_signal(number)

    def wait(self, within_s: float) -> int:
        """Wait for its end and return how it ended."""
        return self._process.wait(within_s)

    def kill(self) -> None:
        """End all of it at once, as a lost machine would."""
        self.send(signal.SIGKILL)  # the first of its namespace: all others go with it
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GONE_WITHIN_S)
        self._process.kill()
        self._process.wait()
        with suppress(OSError):
            self._root.rmdir()
