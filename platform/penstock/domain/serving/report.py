"""What a worker's gate reports with each answer: its load, and how this request waited, met its adapter, was batched.

One JSON value on the wire (``formats.report``); a part that is unknown is left out.
"""

from dataclasses import dataclass

from penstock.domain.serving.adapted import Adapted
from penstock.domain.serving.batched import Batched
from penstock.domain.serving.load import Load
from penstock.domain.serving.used import Used
from penstock.domain.serving.waited import Waited


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A stream's ``used`` comes with its last event, not with its head."""

    load: Load | None = None
    waited: Waited | None = None
    adapted: Adapted | None = None
    batched: Batched | None = None
    used: Used | None = None


SILENT = Report()
