"""`python -m infra.estimate [ENVIRONMENT]`: prints the month per stack; ends with 1 above a budget."""

import sys

from infra.capture.fleet import capture_fleet
from infra.config.load import load
from infra.estimate.report import estimate, render

fleet = load(sys.argv[1] if len(sys.argv) > 1 else "prod")
estimates = [
    estimate(fleet.environment, item.kind, item.graph, fleet.region(item.region) if item.region else None)
    for item in capture_fleet(fleet)
]
print(render(estimates))
sys.exit(0 if all(one.within for one in estimates) else 1)
