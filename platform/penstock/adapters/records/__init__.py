"""Records on a process's own disk, of requests and of decisions: bounded, there again after a restart."""

from penstock.adapters.records.decisions import DecisionFile
from penstock.adapters.records.folder import Bounds, RecordFolder

__all__ = ["Bounds", "DecisionFile", "RecordFolder"]
