"""Billed count of an item, within its version's declared bounds, and with what decoding its image costs."""

from dataclasses import replace

from penstock.formats import pictures
from penstock.worker.engines.torch.handler import Given, Prepared
from penstock.worker.engines.torch.places import log


class Counts:
    """One handler's counts; the first beyond its bounds is logged."""

    def __init__(self, item_tokens: int) -> None:
        self._most, self._is_said = item_tokens, False

    def billed(self, prepared: Prepared, given: Given) -> Prepared:
        """Return the item with the count that the gateway has reserved: it knows images by the same heads."""
        within = self._within(prepared)
        decoded = pictures.tokens_of_item(given) if self._most else 0
        return replace(within, tokens=within.tokens + decoded) if decoded else within

    def _within(self, prepared: Prepared) -> Prepared:
        tokens = max(0, prepared.tokens)
        if self._most:
            tokens = min(self._most, tokens)
        if tokens == prepared.tokens:
            return prepared
        if not self._is_said:
            self._is_said = True
            log(
                "the handler counts an item as %d tokens, which is not from 0 to its item_tokens: it is charged as %d",
                prepared.tokens,
                tokens,
            )
        return replace(prepared, tokens=tokens)
