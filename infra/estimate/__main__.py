"""`python -m infra.estimate [ENVIRONMENT]`: prints the month per stack.

It ends with 1 above a budget, or if capacity that is paid ahead has ended.
"""

import sys
from datetime import UTC, datetime

from infra.capture.fleet import capture_fleet
from infra.config.load import load
from infra.estimate.report import ending, estimate, render

fleet = load(sys.argv[1] if len(sys.argv) > 1 else "prod")
estimates = [
    estimate(fleet.environment, item.kind, item.graph, fleet.region(item.region) if item.region else None)
    for item in capture_fleet(fleet)
]
print(render(estimates))
left = ending(fleet, datetime.now(UTC).date())
for what, days in left.items():
    print(f"{what}: {'has ended' if days < 0 else f'{days} days left'}")
sys.exit(0 if all(one.within for one in estimates) and min(left.values(), default=0) >= 0 else 1)
