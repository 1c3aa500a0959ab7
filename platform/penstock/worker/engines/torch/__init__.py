"""The second engine: models that vLLM does not know, through typed handlers in torch (ADR 0071)."""
