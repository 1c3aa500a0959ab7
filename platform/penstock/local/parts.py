"""The parts of a running platform, held by its supervisor; a part not started is None."""

import socket
from dataclasses import dataclass, field

from penstock.local.database import Database
from penstock.supervision.supervisor import Supervisor


@dataclass(slots=True, kw_only=True)
class Parts:
    """The supervisor's own processes and sockets; the workers are the controller's.

    Closing ``lifeline`` ends the engines' parent.
    """

    database: Database
    listener: socket.socket | None = None
    grpc_listener: socket.socket | None = None
    """Reserves the port that gateways share; it never listens itself."""
    controller: Supervisor | None = None
    gateways: list[Supervisor] = field(default_factory=list)
    engines_parent: Supervisor | None = None
    observers: list[Supervisor] = field(default_factory=list)
    lifeline: int = -1

    @property
    def vital(self) -> list[Supervisor]:
        return [*self.gateways, *([self.controller] if self.controller else [])]

    @property
    def spare(self) -> list[Supervisor]:
        return [*([self.engines_parent] if self.engines_parent else []), *self.observers]

    @property
    def supervisors(self) -> list[Supervisor]:
        return [*self.vital, *self.spare]

    def pids(self) -> dict[str, int]:
        return {"postgres": self.database.pid, **{supervisor.name: supervisor.pid for supervisor in self.supervisors}}
