"""The controller's HTTP side: heartbeats of workers, and the operators' API. It decides nothing itself."""
