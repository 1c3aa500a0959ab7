"""What the stages of the request corridor share of one request: the call, the ports on its answer's way, its fields."""
