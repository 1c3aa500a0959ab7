"""Evidence on versions that share an alias: each ended request is counted for its version's arm, second by second."""
