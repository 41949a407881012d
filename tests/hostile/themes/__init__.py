"""The programs, one file per theme."""
