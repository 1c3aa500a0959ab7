"""The account of the embedded server: this process's, or a dedicated one under root, which Postgres refuses.

For root the path to data and programs gets the traverse bit (``o+x``), never list or read.
"""

import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from penstock.domain.errors import StoreUnavailable

NAME = "pgserver"


class AsUser(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """``is_other`` if it is not this process's."""

    uid: int
    gid: int
    is_other: bool

    def as_user(self) -> AsUser:
        return AsUser(user=self.uid, group=self.gid, extra_groups=[]) if self.is_other else AsUser()


def of_server() -> Account:
    if os.geteuid() != 0:
        return Account(uid=os.getuid(), gid=os.getgid(), is_other=False)
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        entry = _create()
    return Account(uid=entry.pw_uid, gid=entry.pw_gid, is_other=True)


def _create() -> pwd.struct_passwd:
    program = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise StoreUnavailable("Postgres does not run as root, and there is no `useradd` to make it an account")
    # A race with another platform's first start: its account is as good as ours.
    subprocess.run([program, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", NAME], check=False)
    try:
        return pwd.getpwnam(NAME)
    except KeyError as error:
        raise StoreUnavailable(f"the account {NAME} for Postgres could not be made") from error


def give(path: Path, owner: Account) -> None:
    if not owner.is_other:
        return
    os.chown(path, owner.uid, owner.gid)
    if path.is_dir():
        for part in path.rglob("*"):
            os.chown(part, owner.uid, owner.gid, follow_symlinks=False)


def make_reachable(path: Path, owner: Account) -> None:
    """Let other accounts traverse the folders above ``path``."""
    if not owner.is_other:
        return
    for folder in path.parents:
        mode = stat.S_IMODE(folder.stat().st_mode)
        if not mode & stat.S_IXOTH and folder.stat().st_uid != owner.uid:
            folder.chmod(mode | stat.S_IXOTH)
