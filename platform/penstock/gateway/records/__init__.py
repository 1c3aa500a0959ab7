"""Records: figures and names of an ended request, for ``penstock explain``."""

from penstock.gateway.records.asking import RecordLookup
from penstock.gateway.records.making import Early, Records, refused_early

__all__ = ["Early", "RecordLookup", "Records", "refused_early"]
