"""The port of dispatch to the book of workers' loads."""

from typing import Protocol

from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.serving.load import Load


class Loads(Protocol):
    """The loads of the workers."""

    def heard(self, worker: WorkerId, load: Load) -> None:
        """A worker said how busy it is."""
        ...

    def dispatched(self, worker: WorkerId, tokens: int) -> None:
        """This much work was sent to a worker."""
        ...

    def turned_away(self, worker: WorkerId, adapter: VersionId, for_s: float) -> None:
        """A worker said that this adapter does not answer there for so long."""
        ...
