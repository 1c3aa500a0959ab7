"""The one reader of engines' answers: what was said (``content``) and how it ended (``account``), for every API.

Each reader decodes its own fields alone; the rest is skipped as bytes.
"""
