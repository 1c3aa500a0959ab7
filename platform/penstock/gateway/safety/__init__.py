"""Safety: judges prompts before a worker is asked, and answers before they reach the reply."""
