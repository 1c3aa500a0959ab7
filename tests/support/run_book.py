"""The first day's commands, read from infra's page and run as a person types them."""

import base64
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support import tree
from tests.support.patience import patient

PAGE = tree.ROOT / "infra/README.md"
WITHIN_S = 60


def commands(step: int) -> list[str]:
    """Return a step's lines that are typed, without changes of folder."""
    (text,) = re.findall(rf"^### {step}\. .*?(?=^### )", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    lines = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).splitlines()
    return [line for line in lines if not line.startswith("cd ")]


def public_half(der: bytes, folder: Path) -> Path:
    """Return the public key's file that step 5 makes of KMS's answer."""
    (line,) = [one for one in commands(5) if one.startswith("aws kms get-public-key")]
    given = base64.b64encode(der)
    for command in line.split(" | ")[1:]:
        done = subprocess.run(shlex.split(command), input=given, cwd=folder, check=True, capture_output=True)
        given = done.stdout
    return folder / "public.pem"


@dataclass(frozen=True, kw_only=True)
class Person:
    """Types a command with the page's words in capitals filled in."""

    said: dict[str, str]
    environment: Mapping[str, str]

    def type(self, line: str) -> str:
        """Return what the command prints; it must succeed."""
        for word in sorted(self.said, key=len, reverse=True):
            line = re.sub(rf"(?<![A-Z_]){re.escape(word)}(?![A-Z_])", self.said[word], line)
        words = shlex.split(line)
        if words[0] == "penstock":
            words[:1] = [sys.executable, "-m", "penstock.cli"]
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, check=False, timeout=patient(WITHIN_S)
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout
