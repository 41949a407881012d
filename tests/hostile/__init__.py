"""Answers to "write add(a, b)" that are hostile, broken or odd, and the verdict that each must get.

`programs.py` is the index and needs the standard library only, so other judges can be tried on the same programs.
"""
