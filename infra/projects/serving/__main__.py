"""The serving program: the stack's name is environment and region, joined by a dot."""

import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from infra.config.load import load
from infra.stacks import serving

environment, region_name = pulumi.get_stack().split(".", maxsplit=1)
serving.program(load(environment), region_name)
