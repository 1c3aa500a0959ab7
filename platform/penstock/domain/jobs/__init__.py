"""Nouns of work without a waiting caller: jobs, batches, files, webhooks, and what is stored of them."""
