"""Layers by PyTorch Geometric's conventions."""

from polybasis.nn.favard_conv import FavardConv
from polybasis.nn.optbasis_conv import OptBasisConv
from polybasis.nn.poly_conv import PolyConv

__all__ = ["FavardConv", "OptBasisConv", "PolyConv"]
