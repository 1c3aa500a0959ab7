"""Days and moments as they are written on the command line."""

import datetime as dt

from penstock.domain.command_error import CommandError


def seconds(moment: str) -> float:
    """Return an ISO day or moment as Unix seconds, UTC where it says nothing else; 0 for nothing."""
    if not moment:
        return 0.0
    try:
        at = dt.datetime.fromisoformat(moment)
    except ValueError as error:
        raise CommandError(f"{moment!r} is no day.", do="Give for example 2026-11-01, or 2026-11-01T12:00.") from error
    return (at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp()
