"""Turns records into lines and listings for the terminal.

A view takes JSON of the operators' API (``Record``), or types of ``slo`` and ``diagnosis``, and returns elements with
figures in words. It reads no file, prints nothing, and knows no colours or widths.
"""
