"""Running untrusted Python: `pool.py` is the way in, `rungs.py` says what contains it, `zygote.py` what runs inside."""
