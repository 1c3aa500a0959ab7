"""The OpenAI-shaped APIs: bodies checked and parsed, answers written, idempotency keys."""
