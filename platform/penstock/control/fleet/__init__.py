"""What runs: heartbeats, and the plan of starts and drains that makes running workers match the deployments."""
