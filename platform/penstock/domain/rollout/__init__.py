"""Values for rollouts: stages, evidence per arm, judgements."""
