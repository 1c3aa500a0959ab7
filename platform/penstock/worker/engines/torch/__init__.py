"""The torch engine: models that vLLM does not know, through typed handlers (ADR 0071)."""
