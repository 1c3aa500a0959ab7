"""Pools as the infrastructure ships them, small, for tests."""

import json
from pathlib import Path
from typing import Any

GIB = 1 << 30
NAMESPACE = "penstock"


def template(**spec: object) -> dict[str, Any]:
    """Return a worker's pod with its open places."""
    labels = {"app.kubernetes.io/name": "worker", "penstock.io/model": "{MODEL}", "penstock.io/pool": "{POOL}"}
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


def pool(name: str, *, device_gib: int = 48, most: int = 4, spot: bool = False, gpus: int = 1) -> dict[str, Any]:
    """Return a pool that holds workers of one GPU, and of all the GPUs of a node."""
    sizes = [
        {"gpus": count, "most": most * gpus // count, "resources": {"limits": {"nvidia.com/gpu": str(count)}}}
        for count in sorted({1, gpus})
    ]
    return {
        "name": name,
        "device": "nvidia.com/gpu",
        "device_bytes": device_gib * GIB,
        "sizes": sizes,
        "template": template(),
        "is_spot": spot,
        "start_s": 1800,
    }


def content(*pools: dict[str, Any]) -> dict[str, Any]:
    found = list(pools) or [pool("base"), pool("spot", spot=True)]
    plain = {"prometheus": "http://prometheus:9090", "scaler": "controller-scaler.penstock.svc:8078"}
    return {"edition": 2, "namespace": NAMESPACE, **plain, "pools": found}


def file(folder: Path, *pools: dict[str, Any]) -> Path:
    path = folder / "pools.json"
    path.write_text(json.dumps(content(*pools)))
    return path
