"""Billing: the gate's token count is billed, whatever the engine's answer reports."""

from penstock.gateway.billing.asking import Asks, UsageClient
from penstock.gateway.billing.closing import Closing
from penstock.gateway.billing.forgiven import ForgivenEnds
from penstock.gateway.billing.live import LiveCounts
from penstock.gateway.billing.orphans import Orphans

__all__ = ["Asks", "Closing", "ForgivenEnds", "LiveCounts", "Orphans", "UsageClient"]
