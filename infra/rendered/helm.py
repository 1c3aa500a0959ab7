"""Renders one chart with Helm's own library: values come on stdin, manifests go to stdout.

``python infra/rendered/helm.py FOLDER NAME NAMESPACE``; the output is JSON: versions, templates, and the texts of CRDs
that the chart keeps outside its templates.
"""

import json
import sys

import helm_python


def main(folder: str, name: str, namespace: str) -> None:
    with helm_python.Chart.load(folder) as chart:
        made = chart.render(json.load(sys.stdin), name=name, namespace=namespace)
        meta = chart.metadata
        rendered = {
            "version": meta["version"],
            "app_version": meta.get("appVersion", ""),
            "templates": made,
            "crds": [one["data"] for one in chart.crds],
        }
    json.dump(rendered, sys.stdout, default=str)


if __name__ == "__main__":
    main(*sys.argv[1:])
