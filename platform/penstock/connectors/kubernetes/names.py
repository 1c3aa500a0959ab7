"""Names and labels of the controller's objects: valid for any model name, and unique.

A Deployment's name is part of its pods' host names of 63 characters, 17 of which Kubernetes uses.
"""

import hashlib
import re

from penstock.domain.ids import VersionId

OWNER = "penstock-controller"
"""The field manager of all written objects, and the value of the label that marks them."""
MANAGED_BY = "app.kubernetes.io/managed-by"
OURS = f"{MANAGED_BY}={OWNER}"
MODEL, DIGEST, WORKLOAD = "penstock.io/model", "penstock.io/digest", "penstock.io/workload"
DEVICE, SCALER = "penstock.io/device", "penstock.io/scaler"
"""Labels of pods: the device, and the node scaler, which is a node's label too. A gated pod has no scaler."""
GROUPS = "asg"
"""The scaler of node groups; machines of any other scaler may be taken at short notice."""
NEEDED, ADMITTED = "penstock.io/devices", "penstock.io/admitted-at"
"""A pod's annotations: the number of its devices, and the time at which its gate was opened (Unix seconds)."""
VERSION = "penstock.io/version"
"""The version's full id as an annotation, since a label's value may not contain ``@``."""
RENEWED = "penstock.io/renewed-at"
TEMPLATE = "penstock.io/template"
"""A Deployment's annotation with the digest of its pod template, so that a change is known in advance."""
MAIN = "worker"
DRAINING = "penstock.io/draining"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_LONGEST_MODEL, _LONGEST_DEVICE, _HASH_DIGITS, _LONGEST_LABEL = 20, 12, 10, 63


def workload(version: VersionId, device: str) -> str:
    model = version.partition("@")[0]
    digest = hashlib.sha256(f"{version} {device}".encode()).hexdigest()[:_HASH_DIGITS]
    return f"{_label(model, _LONGEST_MODEL)}-{_label(device, _LONGEST_DEVICE)}-{digest}"


def filled(version: VersionId, device: str) -> dict[str, str]:
    model, _, digest = version.partition("@")
    return {
        "{VERSION}": version,
        "{WORKER}": "$(POD_NAME)",
        "{NAME}": workload(version, device),
        "{MODEL}": _label(model, _LONGEST_LABEL),
        "{DIGEST}": digest,
        "{DEVICE}": device,
    }


def _label(text: str, longest: int) -> str:
    kept = re.sub(r"[^a-z0-9]+", "-", text.lower())[:longest].strip("-")
    return kept if kept[:1].isalpha() else f"m{kept}"[:longest].strip("-")
