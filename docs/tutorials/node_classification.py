"""
Classify the nodes of a graph
=============================

Train OptBasisGNN on a graph in which neighbours mostly belong to *different* classes, and look at the filters that it
has learned.
"""

# %%
# ``csbm`` draws a graph from the contextual stochastic block model. With ``phi=-0.5`` the graph is heterophilous: most
# edges join nodes of different classes, so that averaging over neighbours would blur the classes.

import polybasis as pb

data = pb.data.csbm(nodes=1000, features=100, phi=-0.5, seed=1)
print(f"{data.graph.num_nodes} nodes, {data.graph.num_edges} edges, {pb.data.edge_homophily(data):.0%} within a class")

# %%
# A split divides the nodes: the first part trains the weights, the second chooses the epoch, the third is the test.

split = data.split("random", seed=0)
classifier = pb.NodeClassifier("optbasisgnn", K=6, epochs=100)
classifier.fit(data.graph, data.x, data.y, train_mask=split.train, val_mask=split.val)
print(f"test accuracy: {classifier.score(data.y, mask=split.test):.1%}")

# %%
# Every hidden channel has a filter of its own. An eigenvalue of 1 belongs to signals that vary slowly along edges, -1
# to signals that change their sign along every edge. The grey histogram counts the eigenvalues of this graph: the
# responses matter only where there are some.

from polybasis.nn.interpret import filters_of, spectral_density
from polybasis.report.figures import draw_responses

filters = filters_of(classifier.model_, data.x, data.graph)
draw_responses(filters.mu, filters.responses, spectral_density(data.graph))
