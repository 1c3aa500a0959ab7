"""Preprocess: renders the prompt like the engine, and counts its tokens exactly before any GPU time is spent."""
