"""Turns records into lines and listings, for the terminal now and a page later.

A view takes JSON of the operators' API (``Record``), or nouns of ``slo`` and ``diagnosis``, and gives elements with
figures in words. It reads no file, prints nothing, and knows no colours or widths.
"""
