"""The Kubernetes fleet against an API server with unreadable answers, over real HTTP and the official client."""

from pathlib import Path

import pytest

from penstock.domain.ids import WorkerId
from tests.support.clusters.api import Fault, KubeApi
from tests.support.clusters.fleet import SERVED, following, standing, until

pytestmark = pytest.mark.integration
NO_VERSION = b'{"metadata": {}, "items": []}'
NO_ITEMS = b'{"metadata": {"resourceVersion": "1"}, "items": null}'
BARE_MARK = b'{"type": "BOOKMARK", "object": {"kind": "Pod"}}\n'
NO_NUMBER = {"Retry-After": "\u00b2".encode().decode("latin-1")}


@pytest.mark.parametrize(
    ("verb", "raw"),
    [
        ("list", b"{}"),
        ("list", NO_VERSION),
        ("list", NO_ITEMS),
        ("watch", b"[]\n"),
        ("watch", b"\xff\n"),
        ("watch", BARE_MARK),
        ("watch", b'{"a":' * 50_000),
    ],
)
async def test_news_that_cannot_be_read_end_nothing(
    kube_server: KubeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, raw: bytes
) -> None:
    """The fleet asks again while lists or watches can't be read, says so, and goes on once they can."""
    kube_server.fault = Fault(status=200, verbs=frozenset({verb}), raw=raw)
    async with following(tmp_path) as fleet:
        await until(fleet, SERVED, lambda _: sum(call.verb == verb for call in kube_server.calls) >= 6)
        assert verb == "watch" or not (await fleet.view()).is_known
        kube_server.fault = None
        await standing(fleet, kube_server)
    said = capsys.readouterr()
    assert verb == "list" or "an answer that can't be read" in said.out + said.err


@pytest.mark.parametrize(
    "fault",
    [Fault(status=200, raw=raw, verbs=frozenset({"patch"})) for raw in (b"[]", b"{}", b"\xff")]
    + [Fault(status=429, raw=b"{}", headers=NO_NUMBER, verbs=frozenset({"patch"}))],
    ids=["a list", "nothing in it", "no UTF-8", "Retry-After"],
)
async def test_a_write_whose_answer_cannot_be_read_is_held(kube_server: KubeApi, tmp_path: Path, fault: Fault) -> None:
    """It is held in words and tried again, and made good once the answers can be read."""
    kube_server.fault = fault
    async with following(tmp_path) as fleet:
        view = await until(fleet, SERVED, lambda view: view.held and len(kube_server.writes()) >= 3)
        assert "can't be read" in view.held[0] or "the API server answers 429" in view.held[0]
        kube_server.fault = None
        await standing(fleet, kube_server)
        assert (await fleet.view()).held == ()


async def test_a_pod_whose_status_is_null_hides_no_other(kube_server: KubeApi, tmp_path: Path) -> None:
    """A pod of which nothing is told is one among others: the view goes on."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, kube_server)
        (pod,) = kube_server.names("pods")
        kube_server.edit("pods", pod, lambda it: it.update(status=None), "kubelet")
        kube_server.scale(name, 2)
        view = await until(fleet, SERVED, lambda view: len(view.running) == 2)
        assert WorkerId(pod) in {one.worker for one in view.running}


async def test_a_redirect_leads_nowhere(kube_server: KubeApi, tmp_path: Path) -> None:
    """A redirect of the API server is not followed, and is held in words."""
    with KubeApi() as other:
        where = {"Location": f"{other.url}/elsewhere"}
        kube_server.fault = Fault(status=307, raw=b"", headers=where, verbs=frozenset({"patch"}))
        async with following(tmp_path) as fleet:
            view = await until(fleet, SERVED, lambda view: view.held)
        assert "a redirect, which is not followed" in view.held[0]
        assert other.calls == []
