"""
The filters of a trained model
==============================

OptBasisGNN on a graph whose edges mostly join different classes: the response of every hidden channel, and the
distribution of these responses. The eigenvalues of the graph are shown in grey. The isolated eigenvalues outside the
bulk carry the information about the classes.
"""

import polybasis as pb
from polybasis.nn.interpret import filters_of, spectral_density
from polybasis.report.figures import draw_responses

data = pb.data.csbm(nodes=600, features=60, phi=-0.5, seed=1)
classifier = pb.NodeClassifier("optbasisgnn", K=6, epochs=40).fit(data.graph, data.x, data.y)
filters = filters_of(classifier.model_, data.x, data.graph)
draw_responses(filters.mu, filters.responses, spectral_density(data.graph))
