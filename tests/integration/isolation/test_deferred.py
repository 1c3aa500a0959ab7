"""Isolation of deferred work: tenant x object x method, over every route of the document that names an object.

A route of an object without a maker here fails, so each new kind of object comes with one.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.integration.conftest import HomeMaker
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.platforms.tenants import FORGED, Strangers
from tests.support.samples.deferred_routes import LISTS, NAMED, OF_OBJECTS, PAGES, ROOM, ROUTES

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

REQUEST = {"model": "smollm2", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
LATER_S = 3600.0
OK = 200
LINE = (
    '{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": '
    '{"model": "smollm2", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}}\n'
)
UNKNOWN = {"jobs": "job_", "files": "file-", "batches": "batch_", "responses": "resp_", "webhooks": "we_"}
"""Beginnings of ids, by the first part of their address."""


def made(strangers: Strangers, path: str, body: object) -> dict[str, Any]:
    answer = strangers.ask(strangers.platform.url, strangers.victims, "POST", path, body)
    assert answer.is_success, answer.text
    told: dict[str, Any] = answer.json()
    return told


def a_job(strangers: Strangers) -> str:
    """Make a job that waits, so that it stays as it is."""
    wish = {"api": "/v1/chat/completions", "request": REQUEST, "not_before": time.time() + LATER_S}
    return str(made(strangers, "/v1/jobs", wish)["id"])


def a_file(strangers: Strangers) -> str:
    answer = strangers.http.post(
        f"{strangers.platform.url}/v1/files",
        headers={"authorization": f"Bearer {strangers.victims}"},
        data={"purpose": "batch"},
        files={"file": ("lines.jsonl", LINE.encode(), "application/octet-stream")},
    )
    assert answer.is_success, answer.text
    return str(answer.json()["id"])


def a_batch(strangers: Strangers) -> str:
    wish = {"input_file_id": a_file(strangers), "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    return str(made(strangers, "/v1/batches", wish)["id"])


def a_response(strangers: Strangers) -> str:
    return str(made(strangers, "/v1/responses", {"model": "smollm2", "input": "hi", "max_output_tokens": 1})["id"])


def an_endpoint(strangers: Strangers) -> str:
    return str(made(strangers, "/v1/webhooks", {"url": "https://example.com/hook", "events": ["*"]})["id"])


MAKERS: Mapping[str, Callable[[Strangers], str]] = {
    "jobs": a_job,
    "files": a_file,
    "batches": a_batch,
    "responses": a_response,
    "webhooks": an_endpoint,
}


@pytest.fixture(scope="module")
def strangers(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[Strangers]:
    """Yield a victim and strangers of a platform with a jobs runner: without one there are no such routes."""
    settings = {**shared_settings, "job_runners": "1"}
    with Platform(home=new_home("deferred"), models="smollm2", settings=settings) as platform:
        made = Strangers(platform=platform, name=f"t{time.time_ns():x}")
        made.prepare()
        with platform.http(made.infer) as http:
            until("the new keys have reached the gateway", lambda: http.get("/v1/models").status_code == OK, within_s=5)
        yield made
        made.leave()


@pytest.fixture(scope="module")
def objects(strangers: Strangers) -> dict[str, str]:
    """Return one object of the victim's for each first part of an address in the document."""
    return {kind: MAKERS[kind](strangers) for kind in sorted({kind_of(path) for _, path in ROUTES})}


def kind_of(path: str) -> str:
    """Return the first part of an address of this room."""
    found = ROOM.match(path)
    assert found is not None
    return found[1]


def of_victim(path: str, objects: Mapping[str, str], *, is_there: bool = True) -> str:
    """Return the address of the victim's object, or of one that never was."""
    kind = kind_of(path)
    name = objects[kind] if is_there else UNKNOWN[kind] + "f" * 24
    return NAMED.sub("whd_00000001", NAMED.sub(name, path, count=1))


@pytest.mark.parametrize(("method", "path"), OF_OBJECTS)
def test_another_tenants_object_is_not_there(
    strangers: Strangers, objects: dict[str, str], method: str, path: str
) -> None:
    """Keys of any role hear of it what they hear of an object that never was; nothing changes and nothing is told."""
    base, own = strangers.platform.url, f"/v1/{kind_of(path)}/{objects[kind_of(path)]}"
    before = strangers.ask(base, strangers.victims, "GET", own).json()
    for secret in (strangers.infer, strangers.scoped, strangers.admin):
        told = [
            strangers.ask(
                base, secret, method, of_victim(path, objects, is_there=is_there), None if method == "GET" else {}
            )
            for is_there in (True, False)
        ]
        assert [answer.status_code for answer in told] == [404, 404], told[0].text
        assert told[0].json()["error"]["message"] == told[1].json()["error"]["message"]
        assert strangers.victim not in told[0].text
    for secret, status in (("", 401), (FORGED, 401), (strangers.revoked, 401), (strangers.auditor, 403)):
        assert strangers.ask(base, secret, method, of_victim(path, objects)).status_code == status
    after = strangers.ask(base, strangers.victims, "GET", own).json()
    assert {name: after[name] for name in ("id", "metadata") if name in after} == {
        name: before[name] for name in ("id", "metadata") if name in before
    }
    assert (after.get("cancel_requested_at"), after.get("cancelling_at")) == (None, None)


@pytest.mark.parametrize("path", LISTS)
def test_a_list_has_the_callers_own_objects(strangers: Strangers, objects: dict[str, str], path: str) -> None:
    """The victim finds its object; another tenant does not, and can't page after it."""
    name, base = objects[kind_of(path)], strangers.platform.url
    mine = strangers.ask(base, strangers.victims, "GET", path).json()["data"]
    assert name in [one["id"] for one in mine]
    assert strangers.ask(base, strangers.infer, "GET", path).json()["data"] == []
    if path in PAGES:
        answer = strangers.ask(base, strangers.infer, "GET", f"{path}?after={name}")
        assert answer.status_code == 400 or answer.json()["data"] == []


def test_another_tenants_file_is_no_input(strangers: Strangers, objects: dict[str, str]) -> None:
    """A batch of another tenant's file, and a job for another tenant's endpoint, are refused like unknown ones."""
    if "batches" in objects:
        for file in (objects["files"], "file-" + "f" * 24):
            wish = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
            answer = strangers.ask(strangers.platform.url, strangers.infer, "POST", "/v1/batches", wish)
            assert answer.status_code in {400, 404}
            assert answer.json()["error"]["param"] == "input_file_id"
    for endpoint in filter(None, (objects.get("webhooks"), "we_" + "f" * 24)):
        later = {"api": "/v1/chat/completions", "request": REQUEST, "webhook": endpoint}
        answer = strangers.ask(strangers.platform.url, strangers.infer, "POST", "/v1/jobs", later)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "webhook")
