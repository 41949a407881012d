"""Judges that run the answer: by calling it, as a program, or under pytest."""
