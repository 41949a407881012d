"""Models this small are faster on one thread, and much faster on a busy machine."""

import torch

torch.set_num_threads(1)
