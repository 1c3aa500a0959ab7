"""``make infra-charts CHARTS=FOLDER``: renders every pinned chart with our values and writes the facts anew.

FOLDER holds one unpacked chart for each name, as ``helm pull SOURCE --version PIN --untar`` leaves them. A chart whose
version is not the pin, or whose content changed under the same version, is refused. Nothing of a chart is kept but the
facts.
"""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from infra.capture.fleet import capture_fleet
from infra.catalogue.charts import charts
from infra.config.load import load
from infra.graph.nodes import Node
from infra.graph.values import text
from infra.rendered.checked_in import FOLDER, OF, REGISTRY, changed, content_digest, digest, path_of
from infra.rendered.facts import facts
from infra.rendered.manifests import crds, objects

RELEASE = "kubernetes:helm.sh/v3:Release"
HELM = Path(__file__).with_name("helm.py")


def main(python: str, folder: Path) -> int:
    fleet = load(OF[0])
    (stack,) = (item for item in capture_fleet(fleet) if item.label == OF[1])
    registry = f"{fleet.environment.account_id}.dkr.ecr.{OF[1].removeprefix('platform-')}.amazonaws.com"
    FOLDER.mkdir(exist_ok=True)
    for release in sorted(stack.graph.of(RELEASE), key=lambda node: node.name):
        made = _rendered(python, folder / release.name, release)
        if made["version"] != text(release.inputs, "version"):
            print(f"{release.name}: the folder has {made['version']}, the pin is {text(release.inputs, 'version')}")
            return 1
        content = content_digest(folder / release.name)
        if refusal := changed(release.name, made["version"], content):
            print(refusal)
            return 1
        found = facts(list(objects(made["templates"])), list(crds(made["crds"])), text(release.inputs, "namespace"))
        found["images"] = [image.replace(registry, REGISTRY) for image in found["images"]]
        read = {
            "version": made["version"],
            "app_version": made["app_version"],
            "source": charts()[release.name]["source"],
            "content": content,
            "date": datetime.now(UTC).date().isoformat(),
            "values": digest(release.inputs["values"]),
        }
        path_of(release.name).write_text(_page({"read": read, **found}), encoding="utf-8")
        print(f"{release.name} {made['version']}: {len(found['workloads'])} workloads, {len(found['images'])} images")
    return 0


def _rendered(python: str, folder: Path, release: Node) -> dict[str, Any]:
    done = subprocess.run(
        [python, str(HELM), str(folder), release.name, text(release.inputs, "namespace")],
        input=json.dumps(release.inputs["values"]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _page(content: object) -> str:
    return "# Rendered by `make infra-charts`; never edited.\n" + yaml.safe_dump(content, sort_keys=False, width=120)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
