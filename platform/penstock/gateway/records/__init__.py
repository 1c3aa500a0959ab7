"""Records: what is kept of an ended request, so that it can be explained."""

from penstock.gateway.records.asking import RecordLookup
from penstock.gateway.records.making import Early, Records, refused_early

__all__ = ["Early", "RecordLookup", "Records", "refused_early"]
