"""Layers and models by PyTorch Geometric's conventions."""

from polybasis.features import SparseFeatures
from polybasis.nn.favard_conv import FavardConv
from polybasis.nn.models import MODELS, FavardGNN, OptBasisGNN
from polybasis.nn.optbasis_conv import OptBasisConv
from polybasis.nn.poly_conv import PolyConv

__all__ = ["MODELS", "FavardConv", "FavardGNN", "OptBasisConv", "OptBasisGNN", "PolyConv", "SparseFeatures"]
