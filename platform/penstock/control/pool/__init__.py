"""Memory for fewer versions than are deployed: decides the workers that are awake and those that sleep."""
