"""What runs: heartbeats, and the plan of starts and drains that brings what runs to what is deployed."""
