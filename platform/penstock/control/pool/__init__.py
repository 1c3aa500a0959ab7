"""Memory for fewer versions than are deployed: which workers are awake, and which sleep."""
