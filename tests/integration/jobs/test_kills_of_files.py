"""Killed with bytes of tenants in their hands: a gateway in an upload, a runner in retention, both in a deletion."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from penstock.domain.serving.request import Api
from tests.support.jobs.stages import locked, patiently
from tests.support.patience import until
from tests.support.platforms.jobs import MODEL, Jobs, chat
from tests.support.platforms.tenants import key_of

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]
PIECE = b"x" * 262_144
"""A block is written to the disk once a mebibyte of it came."""
ORPHANED_S = 3600
"""Seconds by which what was left is aged: longer than an upload may take."""


def drafts(jobs: Jobs) -> list[Path]:
    return list((jobs.platform.home / "payloads").glob("*/.*"))


def objects(jobs: Jobs) -> list[str]:
    return sorted(path.name for path in (jobs.platform.home / "payloads").glob("*/*") if path.name[0] != ".")


@contextmanager
def uploading(jobs: Jobs, key: str) -> Iterator[None]:
    """Upload a file whose last byte never comes; yield once bytes are on the disk."""
    host, port = jobs.platform.url.removeprefix("http://").split(":")
    part = b'--x\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n'
    head = (
        f"POST /v1/files HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
        f"content-type: multipart/form-data; boundary=x\r\ncontent-length: {64 * len(PIECE)}\r\n\r\n"
    )
    before = set(drafts(jobs))
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + part + 8 * PIECE)
        ended = threading.Event()

        def send() -> None:
            while not ended.wait(0.5):
                try:
                    connection.sendall(PIECE[:1024])
                except OSError:
                    return

        sending = threading.Thread(target=send)
        sending.start()
        try:
            until("bytes are on the disk", lambda: any(one.stat().st_size for one in {*drafts(jobs)} - before))
            yield
        finally:
            ended.set()
            sending.join()


def upload(jobs: Jobs, key: str) -> httpx.Response:
    with jobs.platform.http(key) as http:
        return http.post("/v1/files", files={"file": ("in.jsonl", b"{}")}, data={"purpose": "batch"})


def restarted(jobs: Jobs) -> None:
    """Kill all runners: new ones sweep at once."""
    for pid in jobs.platform.kill("runner"):
        until(f"{pid} is gone", lambda pid=pid: pid not in jobs.platform.pids("runner"))  # type: ignore[misc]


def test_a_gateway_killed_in_an_upload_leaves_nothing(jobs: Jobs) -> None:
    """Its room is held while the upload may still live, then free; its draft is swept, and no row stays."""
    key = key_of(jobs.platform, "uploader", files=1)
    with uploading(jobs, key):
        jobs.platform.kill("gateway")
    left = drafts(jobs)
    assert left
    (row,) = jobs.rows("select id, state, expires_at from file where tenant = 'uploader'")
    assert (row["state"], 0 < row["expires_at"] - time.time() <= 120) == ("uploading", True)
    refused = until_answered(jobs, key)
    assert (refused.status_code, refused.headers["x-penstock-reason"]) == (429, "tenant_files")
    jobs.rows("update file set expires_at = extract(epoch from now()) where tenant = 'uploader'")
    until(
        "its room is free", lambda: upload(jobs, key).status_code == httpx.codes.CREATED or is_made(jobs), within_s=10
    )
    for draft in left:
        os.utime(draft, (time.time() - ORPHANED_S,) * 2)
    restarted(jobs)
    until("nothing is left", lambda: not {*drafts(jobs)} & {*left} and not is_known(jobs, row["id"]), within_s=120)
    assert not [name for name in objects(jobs) if row["id"] in name]


def until_answered(jobs: Jobs, key: str) -> httpx.Response:
    """Return the gateway's answer to an upload, once it is back."""

    def ask() -> httpx.Response:
        answer = upload(jobs, key)
        return answer if answer.status_code == httpx.codes.TOO_MANY_REQUESTS else answer.raise_for_status()

    return patiently(ask)


def is_made(jobs: Jobs) -> bool:
    return bool(jobs.rows("select from file where tenant = 'uploader' and state = 'ready'"))


def is_known(jobs: Jobs, file: str) -> bool:
    return bool(jobs.rows("select from file where id = $1", file))


def test_a_runner_killed_in_retention_is_followed(jobs: Jobs) -> None:
    """Killed between a file's bytes and its row: the next one drops the row, and what is kept stays readable."""
    key = key_of(jobs.platform, "keeper")
    gone, kept = (upload(jobs, key).raise_for_status().json()["id"] for _ in range(2))
    with jobs.platform.http(key) as http:
        http.delete(f"/v1/files/{gone}").raise_for_status()
    with locked(jobs.dsn, "file"):
        restarted(jobs)
        until("its bytes are gone", lambda: not any(gone in name for name in objects(jobs)), within_s=120)
        assert is_known(jobs, gone)
        for pid in jobs.platform.pids("runner"):
            os.kill(pid, signal.SIGKILL)
    until("its row is gone, too", lambda: not is_known(jobs, gone), within_s=120)
    with jobs.platform.http(key) as http:
        assert http.get(f"/v1/files/{kept}/content").content == b"{}"


def test_both_killed_in_a_deletion_are_followed(jobs: Jobs) -> None:
    """Once its keys are shredded nothing opens, before and after the kills; the receipt counts each thing once."""
    key = key_of(jobs.platform, "leaver")
    file = upload(jobs, key).raise_for_status().json()["id"]
    with jobs.platform.http(key) as http:
        job = http.post("/v1/jobs", json={"api": Api.CHAT, "request": chat(tokens=4)}).raise_for_status().json()["id"]
        asked = {"model": MODEL, "input": "Tell a story.", "max_output_tokens": 4}
        response = http.post(Api.RESPONSES, json=asked).raise_for_status().json()["id"]
    stored = [f"/v1/jobs/{job}", f"/v1/responses/{response}", f"/v1/responses/{response}/input_items"]

    def told(path: str) -> tuple[int, str]:
        with jobs.platform.http(key) as http:
            answer = http.get(path)
        return answer.status_code, "" if answer.is_success else answer.json()["error"]["code"]

    until("all is stored", lambda: {told(one)[0] for one in stored} == {200} and is_over(jobs, job), within_s=60)
    with locked(jobs.dsn, "file"):
        deletion = jobs.platform.act("POST", "/tenants/leaver/privacy/delete", {"everything": True})["id"]
        until("the sweep waits", lambda: not any(file in name for name in objects(jobs)), within_s=60)
        until("the key has left the gateway", lambda: told(stored[0])[0] == httpx.codes.NOT_FOUND, within_s=10)
        assert [told(one) for one in stored] == [(404, "payload_gone")] * 3
        jobs.platform.kill("runner")
        jobs.platform.kill("gateway")
        until("another gateway answers", lambda: patiently_told(told, stored[0]) == (404, "payload_gone"), within_s=60)
        assert [told(one) for one in stored] == [(404, "payload_gone")] * 3
    path = f"/privacy/deletions/{deletion}"
    until("the receipt is signed", lambda: jobs.platform.act("GET", path)["state"] == "done", within_s=120)
    counts = json.loads(jobs.platform.act("GET", path)["receipt"])["counts"]
    assert {name: counts[name] for name in ("keys", "jobs", "files", "responses")} == {
        "keys": 1, "jobs": 1, "files": 1, "responses": 1,
    }  # fmt: skip
    assert [told(one)[0] for one in stored] == [404] * 3


def patiently_told(told: Callable[[str], tuple[int, str]], path: str) -> tuple[int, str]:
    try:
        return told(path)
    except httpx.TransportError:
        return 0, ""


def is_over(jobs: Jobs, job: str) -> bool:
    return bool(jobs.rows("select from job where name = $1 and state = 'succeeded'", job))
