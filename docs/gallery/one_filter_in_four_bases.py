r"""
One filter, written in four bases
=================================

The filter :math:`\lambda^2 + 1` (thick) and its terms in four bases, as in Figure 1 of the paper. The sum is always the
same, but the coefficients in the legends differ.
"""

from polybasis.experiments.figures import representation

representation()
