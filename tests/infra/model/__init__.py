"""What the other systems do with our graph: walks that end in a sentence for each thing that would not work."""
