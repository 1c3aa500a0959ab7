"""Values for the fleet: versions, workers, the routing table, decisions about them."""
