"""Sequential tests that decide from counts whether a candidate version may go on beside the incumbent. Pure."""
