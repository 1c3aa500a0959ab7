"""Runs a stack's program without an engine and keeps everything it registered. No cloud, no CLI, no network."""
