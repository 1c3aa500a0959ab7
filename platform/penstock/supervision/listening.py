"""Listening sockets. The supervisor binds the gateways' socket once; gateways inherit it.

While a gateway is replaced, new connections wait in the kernel's queue: none is refused.
"""

import errno
import socket

from penstock.domain.command_error import CommandError

BACKLOG = 2048
MAX_PORT = 65_535
_REACHED = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  compared, not bound


def bind(host: str, port: int, setting: str = "PENSTOCK_PORT", host_setting: str = "PENSTOCK_HOST") -> socket.socket:
    """Inheritable, not listening yet; port 0 takes a free one; errors name settings."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio knows it for TCP by that
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise _why(error, host, port, setting, host_setting) from error
    listener.set_inheritable(True)
    return listener


def check_free(host: str, port: int, setting: str, host_setting: str = "PENSTOCK_HOST") -> None:
    """``CommandError`` if a port named by the user is taken; 0 always passes."""
    if port:
        bind(host, port, setting, host_setting).close()


def bind_first_free(host: str, port: int) -> socket.socket:
    try:
        listener = bind(host, port)
    except CommandError:
        return bind(host, 0)
    try:
        listener.listen(BACKLOG)  # before that, two may bind one port
    except OSError:
        listener.close()
        return bind(host, 0)
    return listener


def reserve(host: str, port: int, *, behind: int, setting: str) -> socket.socket:
    """Reserve a port for processes of this user (``SO_REUSEPORT``); the socket never listens."""
    if not port:
        try:
            return _reserved(host, behind + 1 if behind < MAX_PORT else 0, setting)
        except CommandError:
            return _reserved(host, 0, setting)
    return _reserved(host, port, setting)


def _reserved(host: str, port: int, setting: str) -> socket.socket:
    with bind(host, port, setting) as free:  # else two platforms of one user would share a port unseen
        port = free.getsockname()[1]
    kept = socket.socket(free.family, socket.SOCK_STREAM)
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        kept.bind((host, port))
    except OSError as error:  # somebody has it who would let it be bound anew, as we did above
        kept.close()
        raise _why(error, host, port, setting, "PENSTOCK_HOST") from error
    return kept


def _why(error: OSError, host: str, port: int, setting: str, host_setting: str) -> CommandError:
    if error.errno == errno.EADDRINUSE:
        return CommandError(
            f"Port {port} on {host} is in use by another program.",
            do=f"Choose another in {setting} (0 takes any free port).",
        )
    if error.errno == errno.EACCES:
        return CommandError(f"Port {port} may not be opened by this user.", do=f"Set {setting} to one above 1023.")
    return CommandError(
        f"Can't listen on {host} port {port}: {error.strerror}.", do=f"Check {host_setting} and {setting}."
    )


def reached_at(host: str, port: int) -> str:
    """Return ``host:port`` for clients on this machine, for protocols without URLs."""
    return authority(_REACHED.get(host, host), port)


def authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def url_of(host: str, port: int, *, secure: bool = False) -> str:
    return url_at(_REACHED.get(host, host), port, secure=secure)


def url_at(host: str, port: int, *, secure: bool = False) -> str:
    scheme = "https" if secure else "http"
    return f"{scheme}://{authority(host, port)}"
