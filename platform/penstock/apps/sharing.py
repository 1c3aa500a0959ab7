"""Several gateways need a shared store of limits, and another one for answers under idempotency keys.

Limits counted in one process hold only for a single gateway. A supervisor replaces its gateway by starting the next
beside it, and the old one accepts no more requests: those two may run together.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from penstock.domain.command_error import CommandError
from penstock.settings.processes import GatewaySettings
from penstock.supervision import lock

FILE = "limits.lock"
ANSWERS_REMEDY = "Name a Redis or Valkey of their own in PENSTOCK_ANSWERS_URL."
REMEDY = "Name the Redis or Valkey that they share in PENSTOCK_LIMITS_URL, or run one gateway (PENSTOCK_GATEWAYS=1)."


def check_shared(settings: GatewaySettings) -> None:
    """Raise ``CommandError`` if several gateways share no store, or both stores are one database."""
    if settings.gateways > 1 and not settings.limits_url:
        raise CommandError(
            f"Without a shared store each of {settings.gateways} gateways grants every limit and budget in full:"
            f" {settings.gateways} times the agreed amount.",
            do=REMEDY,
        )
    if settings.gateways > 1 and not settings.answers_url:
        raise CommandError(
            "Without a shared store of answers a request repeated under its idempotency key runs again at another"
            " gateway, and is billed again.",
            do=ANSWERS_REMEDY,
        )
    is_shared = settings.answers_url and settings.limits_url
    if is_shared and _where(settings.answers_url) == _where(settings.limits_url):
        raise CommandError("Stored answers would fill the limits store.", do=ANSWERS_REMEDY)


def doubts_on_answers(settings: GatewaySettings) -> str:
    if not settings.limits_url:
        return ""
    if not settings.answers_url:
        return "in this process: at another gateway a repeated request runs again (PENSTOCK_ANSWERS_URL)"
    if _where(settings.answers_url)[0] == _where(settings.limits_url)[0]:
        return "on the limits' server, in the same memory (PENSTOCK_ANSWERS_URL)"
    return ""


def _where(url: str) -> tuple[str, str]:
    from penstock.connectors.redis.wire import server_and_database  # one machine without Redis never imports it

    return server_and_database(url)


@contextmanager
def limits_of_this_home(settings: GatewaySettings, *, is_supervised: bool) -> Iterator[None]:
    """Lock this home against other gateways while this one counts its limits."""
    check_shared(settings)
    if settings.limits_url:
        yield
        return
    file = settings.paths.run / "gateway" / FILE
    with ExitStack() as stack:
        try:
            stack.enter_context(lock.held(file, shared=is_supervised))
        except BlockingIOError as error:
            raise CommandError(
                f"Another gateway of {settings.paths.root} ({lock.holders(file)}) counts limits and budgets: two would"
                " grant them twice.",
                do=f"End that one. {REMEDY}",
            ) from error
        yield
