"""Training of the text classifier's head: WordNet's topics in, a few kilobytes of weights and a model card out.

Trade-off: the 31 KB head is kept in the repository instead of trained on the serving machine, since the data comes by
npm; ``make topics`` shows that the bytes follow from the data.
"""
