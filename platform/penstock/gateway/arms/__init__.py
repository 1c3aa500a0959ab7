"""Evidence on versions that share an alias: each ended request is counted into its arm, a second at a time."""

from penstock.gateway.arms.counting import Arms as Arms
from penstock.gateway.arms.counting import Shared as Shared
