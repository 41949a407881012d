"""Our own code in a process that can be killed: for work that may hang, and for pytest."""
