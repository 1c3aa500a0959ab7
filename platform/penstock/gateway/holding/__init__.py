"""Holds requests until a worker serves, within bounds, and reports the demand to controllers."""

from penstock.gateway.holding.asked import Asked
from penstock.gateway.holding.demand import Teller, WakeDemand
from penstock.gateway.holding.holding import Fleet, Holding
from penstock.gateway.holding.places import HoldSettings

__all__ = ["Asked", "Fleet", "HoldSettings", "Holding", "Teller", "WakeDemand"]
