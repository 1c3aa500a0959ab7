"""Values for models: a version's manifest, its tensors, its adapters."""
