"""The controller's HTTP side: workers' heartbeats and the operators' API. It decides nothing itself."""
