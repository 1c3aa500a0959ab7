"""The stacks as pictures and lists, drawn from the captured graphs, in plain Python: no drawing program is needed."""
