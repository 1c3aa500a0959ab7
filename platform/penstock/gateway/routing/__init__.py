"""Routing: which version answers a name, and which of its workers takes the request."""

from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.load_board import LoadBoard
from penstock.gateway.routing.prefix_index import PrefixIndex
from penstock.gateway.routing.resolve import TableResolver
from penstock.gateway.routing.route import Health, RouterSettings, WorkerRouter

__all__ = [
    "CurrentTable",
    "Health",
    "LoadBoard",
    "PrefixIndex",
    "RouterSettings",
    "TableResolver",
    "WorkerRouter",
]
