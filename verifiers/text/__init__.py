"""Judges that read the answer."""
