"""The report of an auto alias: the share of answers with which another rule's model agrees."""

from collections.abc import Iterator

from penstock.views.elements import Record, Shown, Style, listing, prose

_HOW = "Write `compare: {other}` into the rule {rule}, and some of its requests are asked of the model of {other} too."
_EMPTY = "No rule with `compare` has answered anything yet. Give it a minute of traffic, or a longer `--hours`."
_LEGEND = """
texts: both models hold the same token for the likeliest at nine tenths of the answer's tokens and more, of the first
64; and the mean part of such tokens. One model in another precision has 93 % of them alike and more, rounded to four
bits 72 %. JSON, labels: equal, where JSON was asked for or texts were classified. In brackets: where the true ratio
lies with 95 %, if these requests are like all others; the same request again and again is no further witness.

answered: all that the rule has answered. compared: those that there was room for at its rate, of chat completions,
completions of one text, and classifications. Never: requests with tools, several answers or a seed, very long ones,
JSON that was cut, tenants that are not copied. could not: the other model refused, or its engine failed. unknown: texts
of models with different tokenizers, or nobody had room to score them.

price: what the other one's answers cost, as part of what these cost, nothing cached. What all copies cost the platform
stands in `penstock usage show _shadow`. That two models differ does not say which one is right.
"""
"""Explanation of the figures, by paragraphs."""
_COLUMNS = (
    *("answered by", "asked too", "answered", "compared", "texts", "JSON, labels"),
    *("could not", "unknown", "price"),
)


def shown(found: Record) -> Iterator[Shown]:
    alias, rules, pairs = found["auto"]["alias"], found["auto"]["rules"], found["pairs"]
    if not pairs and not any(rule["compare"] for rule in rules):
        yield prose(f"No rule of {alias} is compared with another: nothing is asked twice.")
        yield prose(_HOW.format(rule=rules[-1]["name"], other=rules[0]["name"]))
        return
    if not pairs:
        yield prose(_EMPTY)
        return
    title = f"{alias}: how often another rule's model would have agreed, last {found['hours']:g} h"
    yield listing(title, _COLUMNS, map(_row, pairs))
    for paragraph in _LEGEND.strip().split("\n\n"):
        yield prose(paragraph.replace("\n", " "), Style.MUTED)


def _row(pair: Record) -> tuple[str, ...]:
    alike, price = pair["alike_ratio"], pair["price_ratio"]
    return (
        f"{pair['rule']} ({pair['version']})",
        f"{pair['other']} ({pair['other_version'] or 'not there for its callers'})",
        f"{pair['answered']:,}",
        f"{pair['pairs']:,}{_tenants(pair)}",
        _agreed(pair, "texts", "agree") + ("" if alike is None else f"; tokens alike {alike:.0%}"),
        _agreed(pair, "forms", "equal"),
        f"{pair['failed']:,}",
        f"{pair['untold']:,}",
        "-" if price is None else f"{price:.2f} of it",
    )


def _agreed(pair: Record, kind: str, word: str) -> str:
    ratio = pair[f"{kind}_ratio"]
    if ratio is None:
        return "-"
    low, high = pair[f"{kind}_between"]
    return f"{ratio:.0%} of {pair[kind]:,} {word} ({low:.0%} to {high:.0%})"


def _tenants(pair: Record) -> str:
    if not pair["pairs"]:
        return ""
    if pair["tenants"] == 1:
        return ", all of one tenant"
    return f" of {pair['tenants']} tenants, {pair['most']:.0%} of one"
