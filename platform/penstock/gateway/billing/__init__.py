"""Billing: the usage that is billed is the count of the worker's gate, whatever the engine's answer reports."""

from penstock.gateway.billing.asking import Asks, UsageClient
from penstock.gateway.billing.closing import Closing
from penstock.gateway.billing.forgiven import ForgivenEnds
from penstock.gateway.billing.live import LiveCounts
from penstock.gateway.billing.orphans import Orphans

__all__ = ["Asks", "Closing", "ForgivenEnds", "LiveCounts", "Orphans", "UsageClient"]
