"""Registers all operators ``torch.ops.polybasis``; programs that contain them can be loaded after this import.

>>> import torch, polybasis.operators
>>> torch.ops.polybasis.optimal_filter
<OpOverloadPacket(op='polybasis.optimal_filter')>
"""

from polybasis import features, matrix, tensor_graph
from polybasis.krylov import operators
from polybasis.nn import linear

__all__ = ["features", "linear", "matrix", "operators", "tensor_graph"]
