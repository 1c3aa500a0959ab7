"""Records: what a request leaves behind when it has ended, to be explained by."""

from penstock.gateway.records.asking import RecordLookup
from penstock.gateway.records.making import Early, Records, refused_early

__all__ = ["Early", "RecordLookup", "Records", "refused_early"]
