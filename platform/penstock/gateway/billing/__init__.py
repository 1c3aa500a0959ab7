"""Billing: the gate's token count is billed, whatever the engine's answer reports."""

from penstock.gateway.billing.asking import Asks, LiveCounts, UsageClient
from penstock.gateway.billing.closing import Closing, ForgivenEnds
from penstock.gateway.billing.orphans import Orphans

__all__ = ["Asks", "Closing", "ForgivenEnds", "LiveCounts", "Orphans", "UsageClient"]
