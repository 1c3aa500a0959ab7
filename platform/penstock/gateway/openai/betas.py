"""The names of the header ``anthropic-beta``, and what becomes of each. Pure.

A beta that opens a field changes nothing here: the field has a verdict of its own. Unknown names are reported, not
refused, since clients send names that no SDK lists.
"""

import re
from collections.abc import Iterable, Mapping

from penstock.domain.errors import InvalidField

HEADER = "anthropic-beta"
HEADER_BYTES = HEADER.encode()
MOST = 32
"""Names in one request; a coding agent sends ten."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def _each(names: str) -> frozenset[str]:
    return frozenset(names.split())


SERVED = _each("prompt-caching-2024-07-31 structured-outputs-2025-11-13 token-counting-2024-11-01")
TOLD: Mapping[str, frozenset[str]] = {
    "its fields have verdicts of their own": _each(
        """
        advisor-tool-2026-03-01 cache-diagnosis-2026-04-07 code-execution-2025-05-22 compact-2026-01-12
        compact-2026-09-04 computer-use-2024-10-22 computer-use-2025-01-24 computer-use-2025-11-24
        context-management-2025-06-27 extended-cache-ttl-2025-04-11 fallback-credit-2026-06-01
        fallback-credit-2026-07-01 fast-mode-2026-02-01 files-api-2025-04-14 inline-tools-2026-09-15
        mcp-client-2025-04-04 mcp-client-2025-11-20 mcp-client-2026-09-15 mcp-tunnels-2026-06-22
        message-threads-2026-08-12 mid-conversation-output-config-2026-07-01
        mid-conversation-system-clear-at-2026-08-21 mid-conversation-tool-changes-2026-07-01 pdfs-2024-09-25
        server-side-fallback-2026-06-01 server-side-fallback-2026-07-01 skills-2025-10-02 task-budgets-2026-03-13
        thinking-binding-controls-2026-08-01 thinking-display-updates-2026-08-18 user-profiles-2026-03-24
        user-profiles-2026-08-18 user-profiles-2026-09-04 user-profiles-billing-2026-10-01
        """
    ),
    "the model has its own context, and max_tokens bounds the answer": _each(
        """
        context-1m-2025-08-07 model-context-window-exceeded-2025-08-26 output-128k-2025-02-19 output-300k-2026-03-24
        """
    ),
    "a model thinks and calls as it was trained": _each(
        """
        dev-full-thinking-2025-05-14 interleaved-thinking-2025-05-14 thinking-token-count-2026-05-13
        token-efficient-tools-2025-02-19
        """
    ),
    "its routes are not served": _each(
        """
        admin-user-sign-out-2026-10-08 agent-memory-2026-07-22 analytics-usage-cost-2026-08-24
        ce-claude-code-managed-settings-2026-10-06 ce-plugins-2026-09-01 ce-user-management-2026-07-13
        dreaming-2026-04-21 efs-2026-10-01 experimental-claude-tag-2026-10-21
        google-managed-data-controls-2026-09-01 managed-agents-2026-04-01 message-batches-2024-09-24
        spend-limit-reads-2026-09-26 telemetry-destinations-2026-08-11 webhooks-2026-10-07
        """
    ),
}


def told(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    given = b",".join(value for name, value in headers if name == HEADER_BYTES).decode("latin-1")
    names = {name for part in given.split(",") if (name := part.strip())}
    if len(names) > MOST or not all(map(_NAME.fullmatch, names)):
        raise InvalidField(f"{HEADER} must hold at most {MOST} names, joined by commas", param=HEADER)
    return tuple(sorted(f"{HEADER}={name}" for name in names - SERVED))
