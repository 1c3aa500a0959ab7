"""What a started engine must do before it may serve: work through typical shapes, and answer golden prompts."""
