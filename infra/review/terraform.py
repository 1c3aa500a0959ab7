"""Runs the Terraform binary over a translation, offline: its provider comes from a folder that the caller names.

Terraform is a tool on the box, never a dependency: if it or the folder is absent, callers skip and say so.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.graph.values import Json, dig, items, text
from infra.review.mapper import alias
from infra.review.schema import Block

MIRROR_VARIABLE = "PENSTOCK_TF_MIRROR"
"""A folder laid out as a Terraform filesystem mirror that holds hashicorp/aws."""

GARBAGE_RATIO = "400"
"""Go's `GOGC`: what may pile up before a collection, in per cent of what lives. Each command starts the provider anew,
and a third of its CPU went into collections while schemas were read; in return it takes some hundred megabytes more."""
REQUIRED = Path(__file__).with_name("provider") / "versions.tf.json"
"""The provider's version; the first day fills a mirror by the same file."""


class TerraformFailedError(RuntimeError):
    """Terraform said no; the message is its own."""


def missing() -> str:
    """Why Terraform can't run here; an empty string if it can."""
    if shutil.which("terraform") is None:
        return "no terraform binary on PATH"
    folder = os.environ.get(MIRROR_VARIABLE, "")
    if not folder:
        return f"{MIRROR_VARIABLE} names no provider mirror"
    return (
        ""
        if Path(folder, "registry.terraform.io/hashicorp/aws").is_dir()
        else f"{MIRROR_VARIABLE} holds no hashicorp/aws"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Terraform:
    """A working folder with the provider initialised."""

    folder: Path

    def init(self) -> None:
        """Write the provider's requirement and fetch it from the mirror."""
        mirror = os.environ[MIRROR_VARIABLE]
        config = f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror}"\n  }}\n}}\n'
        (self.folder / "cli.tfrc").write_text(config, encoding="utf-8")
        shutil.copy(REQUIRED, self.folder)
        self._run("init", "-input=false", "-no-color")

    def schema(self) -> Path:
        """The provider's schema as a file."""
        path = self.folder / "schema.json"
        path.write_text(self._run("providers", "schema", "-json"), encoding="utf-8")
        return path

    def write(self, document: Mapping[str, Json], regions: list[str], provider: Block, endpoint: str) -> None:
        """The configuration and one provider per region, all pointing at `endpoint`."""
        self._write("main.tf.json", document)
        self._write(
            "providers.tf.json", {"provider": {"aws": [_provider(region, provider, endpoint) for region in regions]}}
        )

    def validate(self) -> None:
        """Raises `TerraformFailedError` with every diagnostic."""
        raw: Json = json.loads(self._run("validate", "-json", check=False))
        if dig(raw, "valid") is not True:
            raise TerraformFailedError(_diagnostics(raw))

    def plan(self) -> Json:
        """The plan as JSON. Raises `TerraformFailedError`."""
        self._run("plan", "-input=false", "-no-color", "-refresh=false", "-out=plan.bin", "-parallelism=4")
        text_plan = self._run("show", "-json", "plan.bin")
        (self.folder / "plan.json").write_text(text_plan, encoding="utf-8")
        plan: Json = json.loads(text_plan)
        return plan

    def apply(self) -> str:
        """What Terraform prints at the end of an apply."""
        return self._run("apply", "-input=false", "-no-color", "-auto-approve", "-parallelism=8")

    def _write(self, name: str, content: Mapping[str, Json]) -> None:
        (self.folder / name).write_text(json.dumps(content, indent=1, sort_keys=True), encoding="utf-8")

    def _run(self, *arguments: str, check: bool = True) -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "TF_CLI_CONFIG_FILE": str(self.folder / "cli.tfrc"),
            "CHECKPOINT_DISABLE": "1",
            "GOGC": GARBAGE_RATIO,
            "AWS_ACCESS_KEY_ID": "placeholder",
            "AWS_SECRET_ACCESS_KEY": "placeholder",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        done = subprocess.run(
            ["terraform", *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            raise TerraformFailedError(done.stderr[-6000:] or done.stdout[-6000:])
        return done.stdout


def _provider(region: str, schema: Block, endpoint: str) -> dict[str, Json]:
    services = schema.blocks["endpoints"].attributes
    return {
        "alias": alias(region),
        "region": region,
        "access_key": "placeholder",
        "secret_key": "placeholder",
        "skip_credentials_validation": True,
        "skip_metadata_api_check": True,
        "skip_requesting_account_id": True,
        "skip_region_validation": True,
        "s3_use_path_style": True,
        "max_retries": 2,
        "endpoints": [dict.fromkeys(sorted(services), endpoint)],
    }


def _diagnostics(raw: Json) -> str:
    found = items(raw, "diagnostics")
    return "\n".join(f"{text(item, 'address')} {text(item, 'summary')}: {text(item, 'detail')}" for item in found)
