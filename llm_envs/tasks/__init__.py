"""The built-in tasks of one file or two; `generated.py` is what those share whose examples a program writes."""
