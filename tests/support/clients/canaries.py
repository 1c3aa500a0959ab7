"""Secrets that are planted in every place of a request that a caller fills, and the search for them in every sink."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import httpx

WORD = "canary7f3a"
PLACES = ("prompt", "system", "tool", "argument", "file", "user", "metadata", "header", "agent", "key", "idempotency")
CANARIES: Mapping[str, str] = {place: f"{WORD}-{place}-do-not-keep" for place in PLACES}
HEADERS = {
    "x-secret-header": CANARIES["header"],
    "user-agent": CANARIES["agent"],
    "idempotency-key": CANARIES["idempotency"],
}


def chat(model: str, **more: object) -> dict[str, object]:
    """Return a chat request that has a canary wherever text may stand."""
    call = {"name": "find", "arguments": f'{{"what": "{CANARIES["argument"]}"}}'}
    tool = {"name": "find", "description": CANARIES["tool"], "parameters": {"type": "object", "properties": {}}}
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": CANARIES["system"]},
            {"role": "user", "content": CANARIES["prompt"]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": CANARIES["file"]},
        ],
        "tools": [{"type": "function", "function": tool}],
        "user": CANARIES["user"],
        "metadata": {"file": CANARIES["metadata"]},
        "max_tokens": 4,
        **more,
    }


def with_file(model: str) -> dict[str, object]:
    """Return a chat request with an attachment of canaries: its name and its content."""
    file = {"type": "file", "file": {"filename": f"{CANARIES['file']}.pdf", "file_data": CANARIES["prompt"]}}
    return {"model": model, "messages": [{"role": "user", "content": [file]}], "max_tokens": 4}


def ask_in_every_way(http: httpx.Client, model: str) -> list[httpx.Response]:
    """Send requests that are answered, refused at every stage, and nonsense; all of them carry canaries."""
    path, wrong = "/v1/chat/completions", {"authorization": f"Bearer psk_{CANARIES['key']}"}
    return [
        http.post(path, json=chat(model), headers=HEADERS),
        http.post(path, json=chat(model, stream=True)),
        http.post(path, json=with_file(model), headers=HEADERS),
        http.post(path, json=chat("no-such-model"), headers=HEADERS),
        http.post(path, json=chat(model), headers={**HEADERS, **wrong}),
        http.post(path, json=chat(model, temperature=CANARIES["prompt"])),
        http.post(path, json=chat(model, max_tokens=10**9)),
        http.post(path, content=f'{{"model": "{CANARIES["prompt"]}'.encode()),
        http.post(path, json=chat(model), headers={"x-penstock-deadline-ms": "1"}),
        http.post("/v1/completions", json={"model": model, "prompt": CANARIES["prompt"], "max_tokens": 4}),
        http.post("/v1/messages", json={**chat(model), "stop_sequences": CANARIES["argument"]}),
        http.get(f"/v1/requests/{CANARIES['file']}"),
        http.get(f"/v1/models/{CANARIES['file']}"),
    ]


def found_in(sinks: Mapping[str, bytes], secrets: Iterable[str] = (WORD,)) -> list[str]:
    """Return each sink that holds a secret, with what stands around it."""
    found = []
    for name, data in sinks.items():
        for secret in secrets:
            at = data.find(secret.encode())
            if at >= 0:
                found.append(f"{name}: {data[max(0, at - 60) : at + 60]!r}")
    return found


def files_below(folder: Path, *, leaving_out: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Return every file below a folder as a sink."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in paths
        if not path.relative_to(folder).as_posix().startswith(leaving_out)
    }


def arguments_of(pids: Iterable[int]) -> dict[str, bytes]:
    """Return the command lines of processes as sinks."""
    return {f"arguments of {pid}": Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids}
