"""The autoscaler's stage of the loop: it gives the rule of scaling each tick's values, and keeps its state."""
