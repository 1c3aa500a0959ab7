"""The files of Prometheus and Alertmanager, as text by name."""

from collections.abc import Mapping

import yaml

from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import SloTier
from penstock.slo import alertmanager as configuration
from penstock.slo import rules
from penstock.slo.alertmanager import Receivers
from penstock.slo.windows import Windows

_HEAD = "# Made from the promises in slo/specs and slo/windows.yaml; a change belongs there.\n"


def promises(tiers: Mapping[Tier, SloTier], windows: Windows) -> dict[str, str]:
    """Return the rule files of the objectives; raise ``Unmeasurable`` if one can't be measured."""
    return {file.name: _HEAD + _text(file.plain()) for file in rules.files(tiers, windows)}


def alertmanager(receivers: Receivers) -> str:
    return _text(configuration.plain(receivers))


def _text(plain: dict[str, object]) -> str:
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that writes multi-line texts as blocks."""


def _as_it_reads(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _as_it_reads)
