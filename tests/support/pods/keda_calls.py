"""KEDA's calls to an external push scaler: gRPC over mutual TLS, in a process of its own.

gRPC does not survive the forks of a process that starts pods: its threads stop at the first one.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import grpc

from penstock.connectors.keda.messages import CLASSES, SERVICE, message

CALL_S = 3.0
"""Seconds for a call, as KEDA has them by default (`KEDA_HTTP_DEFAULT_TIMEOUT`)."""
AGAIN_S = 1.0
_pushed: dict[str, bool] = {}
_channels: dict["Scaler", grpc.Channel] = {}
_now: list["Scaler"] = []
"""The newest one asked: streams are opened there."""


@dataclass(frozen=True, kw_only=True)
class Scaler:
    """The addresses that its name leads to, and the certificate that is shown: authorities, key, certificate."""

    host: str
    addresses: tuple[str, ...]
    shown: tuple[bytes, bytes, bytes]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The number, or the refusal; and whether the open stream has pushed that there are to be replicas."""

    number: int | None
    refusal: str = ""
    pushed: bool


def ask(scaler: Scaler, namespace: str, name: str) -> Answer:
    """Ask for spec and value of a ScaledObject, and keep a stream of its activity open from the first call on."""
    _now[:] = [scaler]
    if name not in _pushed:
        _pushed[name] = False
        threading.Thread(target=_hear, args=(namespace, name), daemon=True).start()
    reference = {"name": name, "namespace": namespace}
    try:
        (spec,) = _call(scaler, "GetMetricSpec", message("ScaledObjectRef", **reference)).metricSpecs
        assert spec.targetSizeFloat == 1, "the oracle's target is 1"
        asked = message("GetMetricsRequest", scaledObjectRef=reference, metricName=spec.metricName)
        (value,) = _call(scaler, "GetMetrics", asked).metricValues
    except grpc.RpcError as error:
        return Answer(number=None, refusal=f"{error.code().name}: {error.details()}", pushed=_pushed[name])
    return Answer(number=int(value.metricValueFloat), pushed=_pushed[name])


def _call(scaler: Scaler, method: str, asked: bytes) -> Any:  # noqa: ANN401  a message of the pool
    act: Callable[..., bytes] = _channel(scaler).unary_unary(f"/{SERVICE}/{method}")
    return CLASSES[f"{method}Response"].FromString(act(asked, timeout=CALL_S))


def _hear(namespace: str, name: str) -> None:
    """Read activity for ever, as KEDA does for each push scaler; a stream that ends is opened anew."""
    reference: Mapping[str, str] = {"name": name, "namespace": namespace}
    while True:
        with suppress(grpc.RpcError):
            act: Callable[..., Iterator[bytes]] = _channel(_now[0]).unary_stream(f"/{SERVICE}/StreamIsActive")
            for raw in act(message("ScaledObjectRef", **reference)):
                _pushed[name] = CLASSES["IsActiveResponse"].FromString(raw).result
        _pushed[name] = False
        time.sleep(AGAIN_S)


def _channel(scaler: Scaler) -> grpc.Channel:
    """Return the channel to all addresses of the name, of which the first that listens is used."""
    if scaler not in _channels:
        authorities, key, certificate = scaler.shown
        credentials = grpc.ssl_channel_credentials(authorities, key, certificate)
        options = (("grpc.ssl_target_name_override", scaler.host), ("grpc.use_local_subchannel_pool", 1))
        _channels[scaler] = grpc.secure_channel(f"ipv4:{','.join(scaler.addresses)}", credentials, options)
    return _channels[scaler]
