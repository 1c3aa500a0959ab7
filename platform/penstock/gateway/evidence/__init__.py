"""Evidence on versions that share an alias: each ended request is counted for its version's arm, second by second."""

from penstock.gateway.evidence.counting import Arms as Arms
from penstock.gateway.evidence.counting import Shared as Shared
