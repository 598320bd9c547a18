"""
A photograph through learned filters
====================================

Brightness and the two colour channels each pass through a filter of their own. Left: the true filters. Middle: filters
of degree 10 that were learned from the pictures before and after, in closed form. Right: the difference, amplified
until it is visible.
"""

from polybasis.data.images import sample_photograph
from polybasis.experiments.figures import filtered_images

filtered_images(sample_photograph(side=80))
