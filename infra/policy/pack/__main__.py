"""The pack for `pulumi up --policy-pack infra/policy/pack`. Making it starts a server, so it stands alone."""

import sys
from pathlib import Path

from pulumi_policy import PolicyPack

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from infra.policy.crossguard import policies

PolicyPack(name="penstock", policies=policies())
