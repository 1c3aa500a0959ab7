"""Errors of stored work, in the tree of ``domain/errors.py``."""

from penstock.domain.errors import BadRequest, Failed, InvalidField, OverLimit, Rejected


class PayloadGone(BadRequest):
    """The stored input or answer was deleted, or has expired."""

    code = "payload_gone"


class UnknownPrevious(BadRequest):
    """There is no such response to continue, or it was deleted or has expired: send the whole conversation as input."""

    code = "previous_response_not_found"


class OverEnqueued(OverLimit):
    """The caller's jobs that have not ended reserve all of its plan's enqueued tokens or jobs."""

    code = "token_limit_exceeded"


class NoFileRoom(OverLimit):
    """What the caller keeps fills its plan: room comes by deletion or expiry, not by a repetition."""

    code = "file_limit_exceeded"


class NotAForm(BadRequest):
    """Send multipart/form-data with a boundary."""

    code = "not_a_form"


class StorageFull(Rejected):
    """There is no room for stored inputs and answers."""

    code = "storage_full"


class PayloadUnreadable(Failed):
    """The stored bytes were altered, or sealed under a key that this platform no longer has."""

    code = "payload_unreadable"


class WindowNotOffered(InvalidField):
    """The tenant's plan does not offer this completion window."""

    code = "window_not_offered"
