"""Malformed tensors, to a running image model over REST and gRPC: a clear word, and no effect on others."""

import io
import json
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from PIL import Image

from penstock.domain.models.tensors import joined
from penstock.packaging.demo_models import PICTURES
from tests.support.clients.tensors import INFER, MOST_BYTES, Ask, Refusal, Sent, grpc_address, over_grpc, over_http
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")]

MODEL, TEXTS = "efficientnet", "minilm-torch"
ESPRESSO = (PICTURES / "espresso.jpg").read_bytes()
PLANES = np.zeros((1, 3, 224, 224), dtype="<f4")
WIRES: dict[str, Callable[[Platform, Ask], Refusal | bytes]] = {"http": over_http, "grpc": over_grpc}
ANSWER = "INVALID_ARGUMENT"


def image(data: bytes, *more: bytes) -> Ask:
    """Return a request for the labels of encoded images."""
    sent = Sent(name="image", datatype="BYTES", shape=(1 + len(more),), data=joined([data, *more]))
    return Ask(model=MODEL, inputs=[sent])


def planes(values: np.ndarray, **changes: object) -> Ask:
    """Return a request for the labels of normalised planes, claimed to be something else."""
    sent = Sent(name="pixels", datatype="FP32", shape=values.shape, data=values.tobytes())
    return Ask(model=MODEL, inputs=[replace(sent, **changes)])  # type: ignore[arg-type]


def with_one(value: float) -> np.ndarray:
    found = PLANES.copy()
    found[0, 1, 100, 100] = value
    return found


def saved(mode: str, kind: str) -> bytes:
    out = io.BytesIO()
    Image.new(mode, (64, 64)).save(out, kind)
    return out.getvalue()


def twelve_bits() -> bytes:
    """Return a JPEG that says that its samples have 12 bits."""
    frame = ESPRESSO.index(b"\xff\xc0") + 4
    return ESPRESSO[:frame] + b"\x0c" + ESPRESSO[frame + 1 :]


def bomb() -> bytes:
    """Return the head of a PNG of 900 million pixels, and nothing that they could be made of."""
    head = b"IHDR" + struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    return saved("RGB", "PNG")[:12] + head + struct.pack(">I", zlib.crc32(head)) + saved("RGB", "PNG")[33:]


def text(*elements: bytes) -> Ask:
    sent = Sent(name="text", datatype="BYTES", shape=(len(elements),), data=joined(elements))
    return Ask(model=TEXTS, inputs=[sent])


GOOD = image(ESPRESSO)
WRONG: dict[str, tuple[Ask, str]] = {
    "a truncated JPEG": (image(ESPRESSO[:900]), "cut off or damaged"),
    "a JPEG of 12 bits": (image(twelve_bits()), "no JPEG, PNG or WebP"),
    "a PNG of 16 bits": (image(saved("I;16", "PNG")), "send 8 bits"),
    "a JPEG in CMYK": (image(saved("CMYK", "JPEG")), "CMYK"),
    "a bomb": (image(bomb()), "more pixels than are decoded"),
    "one wrong image of a batch": (image(ESPRESSO, b"none", ESPRESSO), "no JPEG, PNG or WebP"),
    "no image": (image(b""), "no JPEG, PNG or WebP"),
    "NaN": (planes(with_one(float("nan"))), "NaN or infinities"),
    "an infinity": (planes(with_one(float("-inf"))), "NaN or infinities"),
    "an empty batch": (planes(PLANES[:0]), "from 1 to"),
    "a batch of a million": (planes(PLANES[:0], shape=(10**6, 3, 224, 224)), "bytes; FP32 of this shape has"),
    "a million images": (
        Ask(model=MODEL, inputs=[Sent(name="image", datatype="BYTES", shape=(10**6,), data=bytes(4 * 10**6))]),
        "more than 8192 elements",
    ),
    "a wrong datatype": (planes(PLANES.astype("<f8"), datatype="FP64"), "pixels must be FP32 [-1, 3, 224, 224]"),
    "a wrong shape": (planes(PLANES.reshape(1, 224, 224, 3)), "pixels must be FP32 [-1, 3, 224, 224]"),
    "a byte too few": (planes(PLANES, data=PLANES.tobytes()[:-1]), "602111 bytes"),
    "a byte too many": (planes(PLANES, data=PLANES.tobytes() + b"\0"), "602113 bytes"),
    "a dimension below 0": (planes(PLANES, shape=(1, -3, 224, 224)), "below 0"),
    "nine dimensions": (planes(PLANES, shape=(1,) * 9), "more than 8 dimensions"),
    "an unknown output": (replace(GOOD, outputs=["logits"]), "there is no output 'logits'"),
    "an unknown input": (planes(PLANES, name="planes"), "there is no input 'planes'"),
    "lengths that contradict": (
        Ask(model=MODEL, inputs=[Sent(name="image", datatype="BYTES", shape=(1,), data=b"\xff\0\0\0x")]),
        "do not add up",
    ),
    "bytes that are no UTF-8": (text(b"good", b"\xff\xfe"), "no UTF-8"),
}


@contextmanager
def neighbour(platform: Platform) -> Iterator[list[int]]:
    """Ask for one image after the other meanwhile; yields the statuses."""
    statuses: list[int] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            answer = over_http(platform, GOOD)
            statuses.append(200 if isinstance(answer, bytes) else int(str(answer.kind)))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield statuses
    finally:
        over.set()
        thread.join()


def engines(platform: Platform) -> set[int]:
    return {gate.engine_pid for gate in Fleet(platform=platform).gates()}


def test_bad_input_is_refused_in_words_over_both_wires(classic_platform: Platform) -> None:
    """Each is the caller's fault, said alike over REST and gRPC; engines live, and a neighbour has all its answers."""
    before, told = engines(classic_platform), {}
    with neighbour(classic_platform) as statuses:
        for what, (ask, says) in WRONG.items():
            for wire, send in WIRES.items():
                answer = send(classic_platform, ask)
                is_well = isinstance(answer, Refusal) and says in answer.message
                expected = 400 if wire == "http" else grpc.StatusCode.INVALID_ARGUMENT
                if not is_well or not isinstance(answer, Refusal) or answer.kind != expected:
                    told[what, wire] = answer
    assert told == {}
    assert set(statuses) == {200}
    assert engines(classic_platform) == before


def test_an_unknown_version_is_not_found(classic_platform: Platform) -> None:
    """A digest that no version has is a 404, and NOT_FOUND."""
    ask = replace(GOOD, version="0123456789ab")
    kinds = [answer.kind for send in WIRES.values() if isinstance(answer := send(classic_platform, ask), Refusal)]
    assert kinds == [404, grpc.StatusCode.NOT_FOUND]


def test_200_megabytes_are_refused_by_their_length(classic_platform: Platform) -> None:
    """The announced length is enough for a refusal, over gRPC the message's own length."""
    head = {"authorization": f"Bearer {classic_platform.demo_key}", "content-length": str(200 << 20)}
    with closing(HTTPConnection(classic_platform.url.removeprefix("http://"), timeout=30)) as http:
        http.request("POST", f"/v2/models/{MODEL}/infer", headers=head)
        answer = http.getresponse()
        assert (answer.status, json.loads(answer.read())["code"]) == (413, "body_too_large")
    sent = Sent(name="image", datatype="BYTES", shape=(1,), data=joined([bytes(200 << 20)]))
    answer_ = over_grpc(classic_platform, Ask(model=MODEL, inputs=[sent]))
    assert isinstance(answer_, Refusal)
    assert answer_.kind is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_megabyte_of_metadata_ends_its_connection_alone(classic_platform: Platform) -> None:
    """Over gRPC it is RESOURCE_EXHAUSTED, over HTTP a 431; the next call is answered."""
    ask = replace(GOOD, headers={"x-much": "a" * (1 << 20)})
    answer = over_grpc(classic_platform, ask)
    assert isinstance(answer, Refusal)
    assert answer.kind is grpc.StatusCode.RESOURCE_EXHAUSTED
    with classic_platform.http() as http:
        try:
            refused = http.post("/v2/models/efficientnet/infer", content=b"{}", headers=dict(ask.headers)).status_code
        except (httpx.WriteError, httpx.RemoteProtocolError):  # it was told before all of it was sent
            refused = 431
    assert refused == 431
    for send in WIRES.values():
        assert isinstance(send(classic_platform, GOOD), bytes)


def test_half_closed_calls_end(classic_platform: Platform) -> None:
    """A call without a message hears that one was needed; a stream that stops, or holds nonsense, comes to its end."""
    metadata = (("authorization", f"Bearer {classic_platform.demo_key}"),)
    with grpc.insecure_channel(grpc_address(classic_platform), options=MOST_BYTES) as channel:
        silent: Any = channel.stream_stream(INFER)(iter(()), metadata=metadata, timeout=30)
        assert silent.code() is grpc.StatusCode.INVALID_ARGUMENT
        for messages, code in (((), grpc.StatusCode.OK), ((b"\xff\xff",), grpc.StatusCode.OK)):
            stream: Any = channel.stream_stream(INFER.replace("ModelInfer", "ModelStreamInfer"))
            call = stream(iter(messages), metadata=metadata, timeout=30)
            assert len(list(call)) == len(messages)
            assert call.code() is code
    assert isinstance(over_grpc(classic_platform, GOOD), bytes)
