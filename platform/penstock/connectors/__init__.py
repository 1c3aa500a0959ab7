"""The outside world: one folder per system; each satisfies ports by shape and knows no other adapter."""
