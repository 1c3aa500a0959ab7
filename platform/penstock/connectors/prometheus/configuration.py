"""Prometheus's configuration files: scrape targets, rules, alert receivers.

They are written as JSON, which is YAML too.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

JOB = "penstock"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeTarget:
    address: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraping:
    """The rules, and the targets in a file, which may change at any time."""

    targets: Path
    rules: Sequence[Path]
    alertmanager: str
    every_s: float


def prometheus(scraping: Scraping) -> str:
    """A series' own labels take precedence: a gateway reports other processes' versions too."""
    every = f"{int(scraping.every_s * 1000)}ms"
    return json.dumps(
        {
            "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
            "rule_files": [str(path) for path in scraping.rules],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [scraping.alertmanager]}]}]},
            "scrape_configs": [
                {
                    "job_name": JOB,
                    "honor_labels": True,
                    "file_sd_configs": [{"files": [str(scraping.targets)], "refresh_interval": "5s"}],
                }
            ],
        },
        indent=2,
    )


def discovered(targets: Sequence[ScrapeTarget]) -> str:
    return json.dumps([{"targets": [one.address], "labels": dict(one.labels)} for one in targets], indent=2)
