"""How the text classifier's head is made: WordNet's topics in, a few kilobytes of weights and their card out.

Trade-off: the head is kept in the repository, not trained where it is served. It weighs 31 KB, and the data comes by
npm, which no machine that serves should need; ``make topics`` shows that the bytes follow from the data.
"""
