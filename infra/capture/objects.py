"""`python -m infra.capture.objects dev`: every Kubernetes object that an environment deploys, by stack, as JSON.

What runs outside a cluster what a cluster would run reads these, and nothing else of the infrastructure.
"""

import json
import sys

from infra.capture.fleet import capture_fleet
from infra.config.load import load
from infra.graph.captured import Capture
from infra.graph.values import Json

PREFIX, CHART = "kubernetes:", "kubernetes:helm.sh"


def objects(item: Capture) -> list[Json]:
    """The objects of one stack as they are sent to its cluster; third parties' charts are no objects."""
    nodes = item.graph.resources()
    return [node.inputs for node in nodes if node.type.startswith(PREFIX) and not node.type.startswith(CHART)]


def main(environment: str) -> None:
    """Print all of an environment."""
    print(json.dumps({item.label: objects(item) for item in capture_fleet(load(environment))}))


if __name__ == "__main__":
    main(sys.argv[1])
