"""The report of a worker's gate in each answer: the engine's load, and the request's wait, adapter and batch.

One JSON value on the wire (``formats.report``); unknown parts are left out.
"""

from dataclasses import dataclass

from penstock.domain.serving.adapted import Adapted
from penstock.domain.serving.batched import Batched
from penstock.domain.serving.load import Load
from penstock.domain.serving.used import Used
from penstock.domain.serving.waited import Waited


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A gate's report; a stream's ``used`` comes with its last event, not with its head."""

    load: Load | None = None
    waited: Waited | None = None
    adapted: Adapted | None = None
    batched: Batched | None = None
    used: Used | None = None


SILENT = Report()
