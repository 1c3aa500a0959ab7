"""One component per concern. Each takes a `Site` and typed inputs, makes resources, offers outputs as attributes."""
