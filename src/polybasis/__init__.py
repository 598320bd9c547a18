"""Polynomial graph filters with learnable and optimal bases.

>>> import torch, polybasis as pb
>>> g = pb.Graph.from_edge_index(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
>>> b = pb.optimal_basis(g, torch.tensor([[1.0], [2.0], [0.0], [0.0]]), K=2)
>>> b.vectors.shape
torch.Size([3, 4, 1])
"""

from typing import TYPE_CHECKING

from polybasis.lazy import lazy_exports

if TYPE_CHECKING:
    from polybasis import bases as bases
    from polybasis import data as data
    from polybasis import krylov as krylov
    from polybasis import nn as nn
    from polybasis import store as store
    from polybasis import train as train
    from polybasis.bases.names import register_basis as register_basis
    from polybasis.classifier import NodeClassifier as NodeClassifier
    from polybasis.graph import Graph as Graph
    from polybasis.graph_filter import GraphFilter as GraphFilter
    from polybasis.krylov.basis import OptimalBasis as OptimalBasis
    from polybasis.krylov.filters import optimal_basis as optimal_basis
    from polybasis.nn.models.own_models import load_model_file as load_model_file
    from polybasis.nn.models.own_models import register_model as register_model
    from polybasis.on_graph import OnGraph as OnGraph
    from polybasis.regressor import NodeRegressor as NodeRegressor
    from polybasis.responses import apply_response as apply_response
    from polybasis.store.basis_store import open_store as open_store
    from polybasis.train.fitting import StopTraining as StopTraining
    from polybasis.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "bases": [],
        "bases.names": ["register_basis"],
        "classifier": ["NodeClassifier"],
        "data": [],
        "graph": ["Graph"],
        "graph_filter": ["GraphFilter"],
        "krylov": [],
        "krylov.basis": ["OptimalBasis"],
        "krylov.filters": ["optimal_basis"],
        "nn": [],
        "nn.models.own_models": ["load_model_file", "register_model"],
        "on_graph": ["OnGraph"],
        "regressor": ["NodeRegressor"],
        "responses": ["apply_response"],
        "train.fitting": ["StopTraining"],
        "store": [],
        "store.basis_store": ["open_store"],
        "train": [],
        "version": ["__version__"],
    },
)
