"""Reads an environment's folder: `environment.yaml` and one file per region it lists. Nothing else reads config."""

from pathlib import Path

import yaml

from infra.config.model import Environment, Fleet, Region
from infra.config.problems import ConfigRefusedError, Problem
from infra.config.rules import judge
from infra.config.shape import shape

ENVIRONMENTS = Path(__file__).resolve().parent.parent / "environments"


def load(name: str, root: Path = ENVIRONMENTS) -> Fleet:
    """The judged config of one environment. Raises `ConfigRefusedError` naming every key at fault."""
    folder = root / name
    environment = shape(Environment, _read(folder / "environment.yaml", name), "environment")
    regions = tuple(shape(Region, _read(folder / f"{region}.yaml", name), region) for region in environment.regions)
    fleet = Fleet(environment=environment, regions=regions)
    problems = [*judge(fleet), *_named(environment, name)]
    if problems:
        raise ConfigRefusedError(problems)
    return fleet


def _named(environment: Environment, folder: str) -> list[Problem]:
    """Stacks are named after the folder, and refer to each other by the name in the file."""
    if environment.name == folder:
        return []
    fault = f"is {environment.name!r} in the folder {folder!r}"
    return [Problem(key="environment.name", fault=fault, remedy=f"write `name: {folder}`, or rename the folder")]


def _read(path: Path, environment: str) -> object:
    if not path.is_file():
        problem = Problem(
            key=f"{environment}/{path.name}",
            fault="there is no such file",
            remedy="write it, or correct the stack name",
        )
        raise ConfigRefusedError([problem])
    content: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content
