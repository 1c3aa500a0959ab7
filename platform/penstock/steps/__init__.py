"""How fast an engine steps, learned from its own steps: which of them count, and the model that fits them. Pure."""
