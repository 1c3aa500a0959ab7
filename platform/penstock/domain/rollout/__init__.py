"""Nouns of rollouts: stages, evidence per arm, judgements."""
