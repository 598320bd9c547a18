"""
A photograph through learned filters
====================================

Brightness and the two colour channels each pass through their own filter. Left: the true filters. Middle: filters
of degree 10, learned in closed form from the pictures before and after. Right: the difference, amplified to make it
visible.
"""

from polybasis.data.images import sample_photograph
from polybasis.experiments.figures import filtered_images

filtered_images(sample_photograph(side=80))
