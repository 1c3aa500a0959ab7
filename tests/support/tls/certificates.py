"""Certificates as a fleet's authority issues them, good ones and bad ones, in files as they are mounted."""

import time
from dataclasses import dataclass
from pathlib import Path

from penstock.tls import authority
from penstock.tls.authority import KeyPair
from penstock.tls.files import Files
from penstock.tls.identity import Identity, Role

DAY_S = 86_400.0


@dataclass
class Issuer:
    """An authority, and the folder that what it issues is mounted in."""

    folder: Path
    name: str = "the fleet's authority"

    def __post_init__(self) -> None:
        self.pair = authority.make(self.name, now=time.time(), days=30)

    def issued(self, role: Role, *, domain: str = "penstock", ago_s: float = 0.0, days: float = 1.0) -> KeyPair:
        """Return a certificate of this role, issued ``ago_s`` seconds ago."""
        who = Identity(trust_domain=domain, role=role)
        return authority.issue(self.pair, who, now=time.time() - ago_s, days=days)

    def expired(self, role: Role) -> KeyPair:
        return self.issued(role, ago_s=2 * DAY_S, days=1)

    def mounted(self, role: Role, pair: KeyPair | None = None, *, at: str = "", trusts: str = "") -> Files:
        """Put a certificate, its key and this authority (or others) into a process's folder, each whole."""
        files = self.files(at or role)
        pair = pair or self.issued(role)
        for file, content in (
            (files.certificate, pair.certificate),
            (files.key, pair.key),
            (files.authorities, trusts or self.pair.certificate),
        ):
            replace(file, content)
        return files

    def files(self, at: str) -> Files:
        where = self.folder / at
        return Files(certificate=where / "tls.crt", key=where / "tls.key", authorities=where / "ca.crt")


def replace(file: Path, content: str, mode: int = 0o440) -> Path:
    """Write a file whole, as a mounted secret is replaced."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}")
    draft.write_text(content)
    draft.chmod(mode)
    draft.replace(file)
    return file


def variables(files: Files) -> dict[str, str]:
    """Return what a process is told of them."""
    named = {"CERT": files.certificate, "KEY": files.key, "CA": files.authorities}
    return {f"PENSTOCK_TLS_{name}_FILE": str(file) for name, file in named.items()}
