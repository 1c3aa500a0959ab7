"""How much memory versions need. The numbers of replicas that follow from it belong to the autoscaler."""
