"""Refuses unknown setting names, because an operator would believe such a setting to be in force."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from penstock.apps.settings.told import PREFIX, read
from penstock.domain.command_error import CommandError

_ENVIRONMENT = "the environment"
_OF_TOOLS = frozenset({"PENSTOCK_TF_MIRROR"})
"""Variables of the repository's own tools."""
_SERVICE_LINK = re.compile(r".*_(?:SERVICE_(?:HOST|PORT(?:_\w+)?)|PORT_\d+_(?:TCP|UDP)(?:_\w+)?)")
"""Variables that Kubernetes sets in every container for each Service of its namespace."""


def check(environment: Mapping[str, str], file: Path, known: Iterable[str]) -> None:
    """Raise ``CommandError`` for a variable, or a key of the settings file, without a setting."""
    names = sorted(known)
    variables = {f"{PREFIX}{name.upper()}" for name in names}
    for found in sorted(environment):
        if found.upper().startswith(PREFIX) and found.upper() not in variables | _OF_TOOLS:
            raise _refused(found, _ENVIRONMENT, sorted(variables))
    for key in read(file):
        if key not in names:
            raise _refused(key, str(file), names)


def _refused(found: str, where: str, names: list[str]) -> CommandError:
    if _SERVICE_LINK.fullmatch(found):
        return CommandError(
            f"{found} is no setting: Kubernetes made it for a Service named penstock….",
            do="Set enableServiceLinks: false in the pod.",
        )
    near = get_close_matches(found if where != _ENVIRONMENT else found.upper(), names, n=1, cutoff=0.5)
    meant = f"Did you mean {near[0]}?" if near else "`penstock contract` lists all settings."
    return CommandError(f"There is no setting {found} (in {where}).", do=f"{meant} Correct the name, or remove it.")
