"""The settings of jobs, batches, files and webhooks, which gateways accept and jobs runners run."""

from pydantic import Field

from penstock.apps.settings.told import Told


class DeferredSettings(Told):
    """Whether jobs, batches, files and webhooks are offered, and the store of their bytes."""

    job_runners: int = Field(default=1, ge=0, le=32)
    """Jobs runners that `penstock up` starts. 0 turns jobs, batches, files and webhooks off: their routes
    answer 404."""
