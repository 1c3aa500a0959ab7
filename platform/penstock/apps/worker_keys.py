"""A worker's secrets, derived from the platform's key, which the worker itself never reads."""

from dataclasses import dataclass
from pathlib import Path

from penstock.apps import keys
from penstock.apps.settings import KeySettings, WorkerSettings
from penstock.domain.command_error import CommandError
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.tenancy.keys import worker_bearer, worker_secret
from penstock.mounted import secret_file
from penstock.supervision.files import write_private


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSecrets:
    ticket_key: bytes
    bearer: str

    def __repr__(self) -> str:
        return "WorkerSecrets(…)"


def made_for(settings: KeySettings, worker: WorkerId, version: VersionId) -> str:
    key = keys.read(settings).platform[0]
    return f"{worker_secret(key, worker).hex()} {worker_bearer(key, worker, version)}"


def provide(settings: KeySettings, worker: WorkerId, version: VersionId) -> None:
    """Write the key file in this home; raises the errors of ``made_for``."""
    file = settings.paths.worker_key(worker)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private(file, made_for(settings, worker, version))


def secrets_of(settings: WorkerSettings, worker: WorkerId) -> WorkerSecrets:
    given = settings.worker_key_file
    file = Path(given) if given else settings.paths.worker_key(worker)
    do = "`penstock worker-key NAME VERSION` beside the platform key prints one."
    try:
        ticket_key, bearer = secret_file.text(file, f"key of worker {worker}", do=do).split()
        return WorkerSecrets(ticket_key=bytes.fromhex(ticket_key), bearer=bearer)
    except ValueError as error:
        raise CommandError(f"There is no usable key of worker {worker} in {file}.", do=do) from error
