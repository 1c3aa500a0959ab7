"""Nouns of work that nobody waits for: jobs, batches, files, webhooks, and what is stored of them."""
