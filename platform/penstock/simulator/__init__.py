"""Virtual time: engine models and traffic that drive the real policies, deterministically."""
