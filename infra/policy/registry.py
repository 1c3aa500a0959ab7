"""Every invariant, in one list: the order is that of the modules and carries no meaning."""

from infra.policy import (
    cluster,
    identity,
    kubernetes,
    money,
    network,
    operations,
    placement,
    pools,
    scaling,
    semantics,
    storage,
)
from infra.policy.invariant import Invariant

_MODULES = (storage, network, cluster, pools, identity, kubernetes, placement, scaling, semantics, operations, money)

INVARIANTS: tuple[Invariant, ...] = tuple(rule for module in _MODULES for rule in module.book.rules)
