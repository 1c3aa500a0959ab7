"""Routing: resolves a name to a version, and picks one of the version's workers for the request."""

from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.load_board import LoadBoard
from penstock.gateway.routing.prefix_index import PrefixIndex
from penstock.gateway.routing.resolve import TableResolver, sticky_key
from penstock.gateway.routing.route import Health, WorkerRouter
from penstock.gateway.routing.router_settings import RouterSettings, SampleSettings

__all__ = [
    "CurrentTable",
    "Health",
    "LoadBoard",
    "PrefixIndex",
    "RouterSettings",
    "SampleSettings",
    "TableResolver",
    "WorkerRouter",
    "sticky_key",
]
