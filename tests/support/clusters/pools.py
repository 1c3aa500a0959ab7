"""Devices as the infrastructure ships them, small, for tests."""

import json
from pathlib import Path
from typing import Any

GIB = 1 << 30
NAMESPACE = "penstock"


def template(**spec: object) -> dict[str, Any]:
    """Return a worker's pod with its open places."""
    labels = {"app.kubernetes.io/name": "worker", "penstock.io/model": "{MODEL}", "penstock.io/device": "{DEVICE}"}
    return {
        "metadata": {"labels": {**labels, "penstock.io/digest": "{DIGEST}"}},
        "spec": {
            "terminationGracePeriodSeconds": 30,
            "containers": [
                {
                    "name": "worker",
                    "image": "worker@sha256:" + "3" * 64,
                    "command": ["penstock", "worker", "{VERSION}", "--id", "{WORKER}"],
                    "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                }
            ],
            **spec,
        },
    }


def device(name: str, *, gib: int = 48, groups: int = 4, burst: int = 0, gpus: int = 1) -> dict[str, Any]:
    """Return a device that holds workers of one GPU, and of all the GPUs of a node."""
    most = groups + burst
    sizes = [
        {"gpus": count, "most": most // count, "resources": {"limits": {"nvidia.com/gpu": str(count)}}}
        for count in sorted({1, gpus})
    ]
    places = {"asg": groups, "karpenter": burst}
    return {
        "name": name,
        "bytes": gib * GIB,
        "places": [{"scaler": scaler, "most": count} for scaler, count in places.items() if count],
        "sizes": sizes,
        "template": template(),
        "start_s": 1800,
        "dollars_per_hour": 1.86,
    }


def content(*devices: dict[str, Any]) -> dict[str, Any]:
    found = list(devices) or [device("l40s", burst=4)]
    plain = {"prometheus": "http://prometheus:9090", "scaler": "controller-scaler.penstock.svc:8078"}
    return {"edition": 5, "namespace": NAMESPACE, **plain, "devices": found}


def file(folder: Path, *devices: dict[str, Any]) -> Path:
    path = folder / "pools.json"
    path.write_text(json.dumps(content(*devices)))
    return path
