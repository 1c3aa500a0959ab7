"""Records of requests and decisions on a process's own disk: bounded, and kept across restarts."""

from penstock.connectors.records.decisions import DecisionFile
from penstock.connectors.records.folder import Bounds, RecordFolder

__all__ = ["Bounds", "DecisionFile", "RecordFolder"]
