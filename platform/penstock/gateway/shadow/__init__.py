"""Shadow traffic: copies of answered requests to other versions, invisible to callers, under caps, shed first."""
