"""Jobs, batches, files and webhooks by the settings: what a gateway accepts, and what a runner does beside jobs."""

from penstock.apps.gateway.parts import Parts
from penstock.apps.settings.deferred import DeferredSettings
from penstock.jobs.upkeep import Upkeep


def upkeep(settings: DeferredSettings, parts: Parts) -> tuple[Upkeep, ...]:
    """Return a runner's loops beside its jobs."""
    del settings, parts
    return ()
