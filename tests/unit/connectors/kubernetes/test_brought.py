"""What a host measures of a start: the seconds to a node with a free device, and from there to the process."""

from typing import Any

import pytest

from penstock.connectors.kubernetes.pods import running

ADMITTED = 1_795_600_000.0
SCHEDULED, PROCESS = "2026-11-25T09:50:00Z", "2026-11-25T09:52:30Z"


def pod(**status: Any) -> dict[str, Any]:  # noqa: ANN401  any field
    return {
        "metadata": {
            "name": "a-pod",
            "creationTimestamp": "2026-11-25T09:40:00Z",
            "annotations": {"penstock.io/version": "chat@0", "penstock.io/admitted-at": str(ADMITTED)},
        },
        "status": {"phase": "Running", **status},
    }


def conditions(status: str = "True") -> list[dict[str, Any]]:
    return [{"type": "PodScheduled", "status": status, "lastTransitionTime": SCHEDULED}]


def containers(name: str = "worker", restarts: int = 0) -> list[dict[str, Any]]:
    return [{"name": name, "restartCount": restarts, "state": {"running": {"startedAt": PROCESS}}}]


@pytest.mark.parametrize(
    ("status", "brought"),
    [
        ({"conditions": conditions(), "containerStatuses": containers()}, (200.0, 150.0)),
        ({"conditions": conditions()}, (200.0, 0.0)),
        ({"conditions": conditions("False"), "containerStatuses": containers()}, (0.0, 0.0)),
        ({"conditions": conditions(), "containerStatuses": containers(restarts=1)}, (200.0, 0.0)),
        ({"conditions": conditions(), "containerStatuses": containers("beside")}, (200.0, 0.0)),
        ({}, (0.0, 0.0)),
    ],
    ids=["whole", "pulls", "no node", "restarted", "another container", "nothing"],
)
def test_a_start_is_measured_from_the_open_gate(status: dict[str, Any], brought: tuple[float, float]) -> None:
    """Node and image are measured once each is there; a restarted process tells nothing of the image."""
    found = running(pod(**status))
    assert found is not None
    assert (found.machine_s, found.image_s) == brought
