"""Content filters: packs of rules as data, their validation, and how a text is judged and held back by them."""
