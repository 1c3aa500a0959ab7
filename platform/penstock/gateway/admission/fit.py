"""Whether a request is small enough for one engine to run it beside others: known before anything is reserved. Pure.

Sequences of one request beyond a stated part of an engine's would stand in the engine's own queue, where nobody is
fair. Vectors are through in one step each and are bounded by their tokens. The gate is the second wall: it knows the
engine's own numbers.
"""

from penstock.domain.errors import ExceedsEngine
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.tenancy.cost import Cost, most_sequences


def check(cost: Cost, version: VersionEntry) -> None:
    """Raise ``ExceedsEngine`` where the request has more sequences than one may have."""
    if not version.max_num_seqs or not cost.output_tokens:
        return
    most = most_sequences(version.max_num_seqs)
    if cost.sequences > most:
        raise ExceedsEngine(
            f"the request asks for {cost.sequences} sequences at once (prompts times n); this model gives one request "
            f"at most {most}: send several smaller requests",
            param="n" if cost.sequences > cost.prompts else "prompt",
        )
