"""Listening sockets. The gateways' is bound once by the supervisor and inherited, so that it outlives any gateway.

While a gateway is being replaced, new connections wait in the kernel's queue: none is refused.
"""

import errno
import socket

from penstock.domain.command_error import CommandError

BACKLOG = 2048


def bind(host: str, port: int) -> socket.socket:
    """Return a bound, inheritable socket that does not listen yet; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise _why(error, host, port) from error
    listener.set_inheritable(True)
    return listener


def bind_first_free(host: str, port: int) -> socket.socket:
    """Return a listening socket on this port, or on any free one where somebody has it."""
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


def _why(error: OSError, host: str, port: int) -> CommandError:
    if error.errno == errno.EADDRINUSE:
        return CommandError(
            f"Port {port} on {host} is in use by another program.",
            do="Choose another: PENSTOCK_PORT=8081 penstock up (0 takes any free port).",
        )
    if error.errno == errno.EACCES:
        return CommandError(f"Port {port} may not be opened by this user.", do="Set PENSTOCK_PORT to one above 1023.")
    return CommandError(
        f"Can't listen on {host} port {port}: {error.strerror}.", do="Check PENSTOCK_HOST and PENSTOCK_PORT."
    )


def url_of(host: str, port: int, *, secure: bool = False) -> str:
    """Return the address that clients on this machine use."""
    return url_at({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port, secure=secure)  # noqa: S104  compared, not bound


def url_at(host: str, port: int, *, secure: bool = False) -> str:
    """Return the address with this host, which may be an IPv6 address."""
    scheme = "https" if secure else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
