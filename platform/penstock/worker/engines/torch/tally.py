"""Counters of the torch engine under its own names, which the agent translates like vLLM's (``translate``)."""

from dataclasses import dataclass


@dataclass(slots=True)
class Numbers:
    running: int = 0
    waiting: int = 0
    batches: int = 0
    items: int = 0
    tokens: int = 0

    def exposition(self) -> str:
        return (
            f"torch:items_running {self.running}\n"
            f"torch:items_waiting {self.waiting}\n"
            f"torch:batches_total {self.batches}\n"
            f"torch:items_total {self.items}\n"
            f"torch:tokens_total {self.tokens}\n"
        )
