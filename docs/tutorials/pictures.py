r"""
Learn a filter from pictures before and after
=============================================

Somebody has processed a picture and will not say how. From the picture before and after, recover the filter in closed
form, apply it to other pictures, and undo it.
"""

# %%
# A picture is a signal on a grid
# -------------------------------
#
# Each pixel is a node, joined to its four neighbours, and its colour is three signals: brightness and two colour
# differences. ``sample_photograph`` returns the photograph that comes with Matplotlib; ``pb.data.read_image`` reads
# your own.

import matplotlib.pyplot as plt
import numpy as np

import polybasis as pb
from polybasis.data.images import sample_photograph, to_pixels

picture = sample_photograph(side=120)
graph, before = picture.graph, picture.x
print(graph, tuple(before.shape))

# %%
# The secret process
# ------------------
#
# Sharpening adds back what blurring takes away. Its frequency response, a function of the eigenvalue :math:`\mu` of
# :math:`P`, is 1 for smooth signals and grows for fine detail. Afterwards, colours are rounded to whole numbers as in
# any file, so the filter cannot be recovered exactly.


def secret(mu):
    """The response that nobody told us."""
    return 1 + 2 * (1 - np.exp(-6 * (1 - mu)))


after = pb.apply_response(graph, before, secret, variable="mu").round()


def show(pictures):
    """Draws pictures side by side; values beyond the range of colours are cut off."""
    size = (2.6 * len(pictures), 2.9)
    _, axes = plt.subplots(1, len(pictures), figsize=size, layout="constrained")
    for ax, (title, x) in zip(axes, pictures.items(), strict=True):
        side = int(len(x) ** 0.5)
        ax.imshow(to_pixels(x, (side, side)))
        ax.set(title=title, xticks=[], yticks=[])
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)


show({"before": before, "after": after})

# %%
# Recover it
# ----------
#
# ``GraphFilter`` searches all polynomials of degree 10. There is nothing to tune and nothing to iterate: in the optimal
# basis :math:`V` of the picture, the coefficients with the least squared error are :math:`V^\top y`, eleven inner
# products.

learned = pb.GraphFilter(K=10).fit(graph, before, after)
print(f"root mean square error: {learned.mse_**0.5:.2f} of 255 levels")
print(f"of which rounding costs {1 / 12**0.5:.2f}")

# %%
# Eleven numbers explain the picture to within the rounding. Here is the response they stand for, against the secret
# one. The picture has almost all of its energy at :math:`\mu = 1`, as photographs do; where it has less than a
# thousandth, the response is hatched, because the picture says little about it there.

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
learned.plot(ax)
mu = np.linspace(-1, 1, 201)
ax.plot(mu, secret(mu), "--", linewidth=1.4)
ax.annotate("secret", (0.2, secret(0.2) + 0.1), color="C1")
ax.set_ylim(0.5, 3.6)
plt.show()

# %%
# Use it on another picture
# -------------------------
#
# The filter is a polynomial, not a list of pixels, so it applies to any other grid. The same photograph at 300 by 300
# pixels is another graph and another signal:

large = sample_photograph(side=300)
sharpened = learned.transform(large.graph, large.x)
expected = pb.apply_response(large.graph, large.x, secret, variable="mu")
error = float((sharpened - expected).square().mean().sqrt())
print(f"off by {error:.4f} levels on {len(large.x):,} pixels")

show({"300 x 300": large.x, "learned filter": sharpened, "secret filter": expected})

# %%
# Undo a blur
# -----------
#
# Swap before and after, and the closed form finds the filter that goes back. This time the process is not ours:
# Pillow's Gaussian blur, which knows nothing about graphs.

from PIL import Image, ImageFilter

pixels = Image.fromarray(to_pixels(before, picture.shape))
blurred = pb.data.image_signals(np.asarray(pixels.filter(ImageFilter.GaussianBlur(1.2)))).x
deblur = pb.GraphFilter(K=10, ridge=1e-7).fit(graph, blurred, before)
restored = deblur.transform(graph, blurred)


def level(error):
    """Root mean square of an error, in levels of 255."""
    return f"{float(error.square().mean().sqrt()):.1f} levels"


print("blurred: off by", level(blurred - before))
print("restored: off by", level(restored - before))
show({"blurred": blurred, "restored": restored, "original": before})

# %%
# Rounding has erased the finest detail, and no filter can bring it back: the restoring response rises to amplify what
# is left, and then falls again where there is mostly rounding noise. The ``ridge`` holds it down there.

figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
deblur.plot(ax)
ax.set_ylim(-2, 9)
plt.show()

# %%
# Several pictures, or several colours, give one filter that is best for all of them: pass them as further channels, as
# we did with the three signals of a colour picture. To learn one filter *for each*, fit them one by one. That is the
# paper's experiment, and ``polybasis demo`` runs it on this photograph.

each = [pb.GraphFilter(K=10).fit(graph, before[:, i], after[:, i]) for i in range(3)]
print("root mean square error by channel:", ", ".join(f"{f.mse_**0.5:.3f}" for f in each))

# %%
# .. admonition:: Next steps
#
#    - :doc:`reproduce_the_paper`: sixty such problems, and how other bases fare on them
#    - :doc:`sensors`: the same tools on an irregular network
#    - :doc:`/how-to/graphs-and-signals`: shapes and types of signals, and the energy behind a response
