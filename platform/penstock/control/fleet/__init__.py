"""What runs: heartbeats taken in, and the plan that brings what runs to what should run."""
