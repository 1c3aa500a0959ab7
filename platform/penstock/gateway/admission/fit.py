"""The bound on sequences of one request, known before anything is reserved. Pure.

Sequences beyond a stated part of an engine's batch would stand in the engine's own queue, which is not fair. Vectors
take one step each and are bounded by their tokens. The gate checks again with the engine's own numbers.
"""

from penstock.domain.errors import ExceedsEngine
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.tenancy.cost import Cost, most_sequences


def check(cost: Cost, version: VersionEntry) -> None:
    """Raise ``ExceedsEngine`` if the request has more sequences than one may have."""
    if not version.max_num_seqs or not cost.output_tokens:
        return
    most = most_sequences(version.max_num_seqs)
    if cost.sequences > most:
        raise ExceedsEngine(
            f"the request asks for {cost.sequences} sequences at once (prompts times n); this model gives one request "
            f"at most {most}: send several smaller requests",
            param="n" if cost.sequences > cost.prompts else "prompt",
        )
