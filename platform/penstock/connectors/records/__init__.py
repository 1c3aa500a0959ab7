"""Records on a process's own disk, of requests and of decisions: bounded, there again after a restart."""

from penstock.connectors.records.decisions import DecisionFile
from penstock.connectors.records.folder import Bounds, RecordFolder

__all__ = ["Bounds", "DecisionFile", "RecordFolder"]
