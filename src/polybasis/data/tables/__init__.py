"""The user's own files: tables of edges, features and labels in many formats, and files of graphs."""

from polybasis.data.tables.numbered import edge_batches as edge_batches
from polybasis.data.tables.numbered import read_node_classes as read_node_classes
from polybasis.data.tables.numbered import read_node_features as read_node_features
from polybasis.data.tables.problems import TableError as TableError
from polybasis.data.tables.reading import read_tables as read_tables

__all__ = ["TableError", "edge_batches", "read_node_classes", "read_node_features", "read_tables"]
