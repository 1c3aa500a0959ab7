"""A stack as data: nodes with inputs, outputs and references, and how to read them. Nothing here runs a program."""
