"""The home folder: made private, with the platform's one secret. Everything else is derived from it or found in it."""

import secrets

from penstock.apps.settings import Home
from penstock.supervision.files import unwritable, write_private

PLATFORM_KEY_BYTES = 32


def prepare(home: Home) -> bool:
    """Make the folders and the platform's key where they are missing; tell whether this home is new."""
    try:
        home.root.mkdir(parents=True, exist_ok=True)
        for folder in (home.run, home.logs, home.spool, home.artifacts, home.cache):
            folder.mkdir(exist_ok=True, mode=0o700)
        for folder in (home.run, home.logs, home.spool):  # of a home that an earlier version made
            folder.chmod(0o700)
        is_new = not home.platform_key.exists()
        if is_new:
            write_private(home.platform_key, secrets.token_hex(PLATFORM_KEY_BYTES))
    except OSError as error:
        raise unwritable(home.root, error) from error
    return is_new
