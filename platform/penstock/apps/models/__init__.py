"""From weights on disk to a signed version in the store: reading, converting, packing, publishing, the demo models."""
