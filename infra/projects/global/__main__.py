"""The global program: the stack's name is the environment."""

import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from infra.config.load import load
from infra.stacks import global_

global_.program(load(pulumi.get_stack()))
