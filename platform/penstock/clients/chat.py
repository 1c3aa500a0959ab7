"""A client of the streaming chat API, for ``penstock ask`` and the first question.

It uses the public API only, and knows nothing of the gateway's inside.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx

from penstock.domain.command_error import CommandError

DATA = "data: "
NOTE = ": penstock "
"""The begin of the comment in a stream that has the time of each stage."""
HEADER_VERSION = "x-penstock-version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    model: str
    text: str
    max_tokens: int = 256


@dataclass(slots=True, kw_only=True)
class Stats:
    version: str = ""
    request_id: str = ""
    stages_ms: dict[str, float] = field(default_factory=dict)
    prompt_tokens: int = 0
    output_tokens: int = 0
    ttft_s: float = 0.0
    total_s: float = 0.0


def ask_model(http: httpx.Client, question: Question, write: Callable[[str], None], now: Callable[[], float]) -> Stats:
    """Ask one question, ``write`` the answer as it streams, return its stats; raise ``CommandError`` if refused."""
    body = {
        "model": question.model,
        "messages": [{"role": "user", "content": question.text}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "max_tokens": question.max_tokens,
    }
    began = now()
    stats = Stats()
    try:
        with http.stream("POST", "/v1/chat/completions", json=body) as answer:
            if answer.status_code != httpx.codes.OK:
                answer.read()
                raise refused(answer)
            stats.version = answer.headers.get(HEADER_VERSION, "")
            stats.request_id = answer.headers.get("x-request-id", "")
            for line in answer.iter_lines():
                if line.startswith(NOTE):
                    stats.stages_ms = stages_of(json.loads(line.removeprefix(NOTE)))
                elif line.startswith(DATA) and line != f"{DATA}[DONE]":
                    _take(_mapping(json.loads(line.removeprefix(DATA))), stats, write, lambda: now() - began)
    except httpx.ConnectError:
        raise
    except httpx.HTTPError as error:
        raise CommandError(f"The answer broke off: {error}.", do="Look at `penstock status`.") from error
    stats.total_s = now() - began
    return stats


def breakdown(stats: Stats) -> str:
    rate = stats.output_tokens / (stats.total_s - stats.ttft_s) if stats.total_s > stats.ttft_s > 0 else 0.0
    answered = f"{stats.version} · request {stats.request_id}"
    amount = f"{stats.prompt_tokens} prompt"
    if stats.ttft_s:
        amount += (
            f" + {stats.output_tokens} output tokens · first after {stats.ttft_s * 1000:.0f} ms · {rate:.0f} tokens/s"
        )
    else:
        amount += " tokens"
    amount += f" · {stats.total_s:.2f} s in all"
    stages = " · ".join(f"{name} {ms:.1f} ms" for name, ms in stats.stages_ms.items())
    return "\n".join(line for line in (answered, amount, stages) if line)


def refused(answer: httpx.Response) -> CommandError:
    try:
        body = answer.json()
        error = body["error"] if isinstance(body["error"], dict) else {**body, "message": body["error"]}
        message, code, request = str(error["message"]), str(error.get("code", "")), str(error.get("request_id", ""))
    except (ValueError, LookupError, TypeError):
        return CommandError(f"Status {answer.status_code} from {answer.url}: {answer.text[:200]}")
    hints = {
        "invalid_api_key": "Is the key of this platform? Keys are made with `penstock keys create TENANT`.",
        "model_not_found": "`penstock models list` shows the models and their aliases.",
        "request_not_found": "Records are kept for days, and each gateway has its own: --gateway names others.",
        "no_capacity": "`penstock status` shows the workers.",
    }
    suffix = f" (request {request})" if request else ""
    return CommandError(f"{message} [{code}, status {answer.status_code}]{suffix}", do=hints.get(code, ""))


def _take(
    chunk: Mapping[str, object], stats: Stats, write: Callable[[str], None], elapsed: Callable[[], float]
) -> None:
    if error := _mapping(chunk.get("error")):
        began = "The answer broke off" if stats.ttft_s else "There was no answer"
        raise CommandError(f"{began}: {error.get('message')} [{error.get('code')}]")
    choices = chunk.get("choices")
    if isinstance(choices, list) and choices:
        text = _mapping(_mapping(choices[0]).get("delta")).get("content")
        if isinstance(text, str) and text:
            stats.ttft_s = stats.ttft_s or elapsed()
            write(text)
    if usage := _mapping(chunk.get("usage")):
        stats.prompt_tokens = _whole(usage.get("prompt_tokens"))
        stats.output_tokens = _whole(usage.get("completion_tokens"))


def stages_of(block: object) -> dict[str, float]:
    """Return the time of each stage by an answer's own field; empty without one."""
    stages = _mapping(_mapping(block).get("stages_ms"))
    return {name: float(ms) for name, ms in stages.items() if isinstance(ms, int | float)}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
