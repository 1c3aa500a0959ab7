"""A client of the APIs that answer in one step: labels for an image or a text, vectors for texts.

It uses the public API only, and knows nothing of the gateway's inside.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from penstock.clients.chat import HEADER_VERSION, Stats, refused, stages_of
from penstock.domain.command_error import CommandError

CLASSIFIER, IMAGE = "penstock_classify", "image"
"""Marks in Open Inference Protocol metadata of a model that takes images."""
KINDS = {".jpg": "jpeg", ".jpeg": "jpeg", ".png": "png", ".webp": "webp"}


def image_of(path: Path) -> str:
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise CommandError(f"{path} is no image by its name.", do="Send a .jpg, .png or .webp file.")
    try:
        return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    except OSError as error:
        raise CommandError(f"{path} can't be read: {error.strerror}.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    found: tuple[tuple[str, float], ...]
    stats: Stats


def image_model(http: httpx.Client, wanted: str = "") -> str:
    """Return the model for an image: the requested one, or one that takes images, ready ones first.

    Raises ``CommandError`` without one, or if the requested one takes none: it would read the image's URL as a text.
    """
    if wanted and _takes_images(_metadata(http, wanted)) is not False:
        return wanted
    lines = sorted(_checked(http.post, "/v2/repository/index").json(), key=lambda line: line.get("state") != "READY")
    names = dict.fromkeys(str(line.get("name", "")) for line in lines)
    taking = (name for name in names if _takes_images(_metadata(http, name)))
    if not wanted:
        name = next(taking, None)
        if name is not None:
            return name
    elif found := ", ".join(taking):
        raise CommandError(f"{wanted} takes no images.", do=f"These do: {found}.")
    raise CommandError(
        f"{wanted} takes no images, and no other model here does." if wanted else "No model here takes images.",
        do="Start one (PENSTOCK_MODELS=smollm2,minilm,efficientnet make serve), or name yours: --model NAME.",
    )


def _metadata(http: httpx.Client, name: str) -> dict[str, Any]:
    answer = http.get(f"/v2/models/{quote(name, safe='')}")
    told: dict[str, Any] = answer.json() if answer.status_code == httpx.codes.OK else {}
    return told


def _takes_images(told: Mapping[str, Any]) -> bool | None:
    if not told:
        return None
    return told.get("platform") == CLASSIFIER and any(one["name"] == IMAGE for one in told["inputs"])


def classify(http: httpx.Client, model: str, given: str | Sequence[str], now: Callable[[], float]) -> Labelled:
    began = now()
    answer = _post(http, "/v1/classify", {"model": model, "input": given})
    body = answer.json()
    stats = Stats(
        version=answer.headers.get(HEADER_VERSION, ""),
        request_id=answer.headers.get("x-request-id", ""),
        stages_ms=stages_of(body.get("penstock")),
        prompt_tokens=body.get("usage", {}).get("prompt_tokens", 0),
        total_s=now() - began,
    )
    return Labelled(found=tuple((row["label"], max(row["probs"])) for row in body["data"]), stats=stats)


def embed(http: httpx.Client, model: str, texts: Sequence[str]) -> list[list[float]]:
    rows = _post(http, "/v1/embeddings", {"model": model, "input": list(texts)}).json()["data"]
    return [row["embedding"] for row in sorted(rows, key=lambda row: row["index"])]


def _post(http: httpx.Client, path: str, body: dict[str, object]) -> httpx.Response:
    return _checked(partial(http.post, content=json.dumps(body), headers={"content-type": "application/json"}), path)


def _checked(send: Callable[[str], httpx.Response], path: str) -> httpx.Response:
    try:
        answer = send(path)
    except httpx.ConnectError:
        raise
    except httpx.HTTPError as error:
        raise CommandError(f"The answer broke off: {error}.", do="Look at `penstock status`.") from error
    if answer.status_code != httpx.codes.OK:
        raise refused(answer)
    return answer
