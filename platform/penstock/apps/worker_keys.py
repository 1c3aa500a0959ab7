"""Who gives a worker its secret: whoever starts it, from the platform's key, which the worker itself never reads."""

from pathlib import Path

from penstock.apps.settings import Home, Settings
from penstock.domain.command_error import CommandError
from penstock.domain.ids import WorkerId
from penstock.domain.keys import worker_secret
from penstock.supervision.files import write_private


def provide(home: Home, worker: WorkerId) -> None:
    """Write the worker's secret where it looks for it, or raise ``CommandError`` where there is no platform key."""
    file = home.worker_key(worker)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private(file, worker_secret(platform_key(home), worker).hex())


def platform_key(home: Home) -> bytes:
    """Return the platform's key, or raise ``CommandError``."""
    return _read(home.platform_key, "platform key", "Start with `penstock up`, which makes one.")


def secret_of(settings: Settings, worker: WorkerId) -> bytes:
    """Return this worker's own secret, or raise ``CommandError``."""
    given = settings.worker_key_file
    file = Path(given) if given else settings.paths.worker_key(worker)
    return _read(file, f"key of worker {worker}", "`penstock worker-key NAME` beside the platform key prints one.")


def _read(file: Path, what: str, do: str) -> bytes:
    try:
        return bytes.fromhex(file.read_text().strip())
    except (OSError, ValueError) as error:
        raise CommandError(f"There is no usable {what} in {file}.", do=do) from error
