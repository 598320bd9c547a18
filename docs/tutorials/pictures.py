r"""
Learn a filter from pictures before and after
=============================================

Suppose a picture has been processed with an unknown filter. From the picture before and after, you will recover the
filter in closed form, apply it to another picture, and then learn a filter that undoes a blur.
"""

# %%
# A picture is a signal on a grid
# -------------------------------
#
# Each pixel is a node that is connected to its four neighbours. The colours form three signals: brightness and two
# colour differences. ``sample_photograph`` returns the photograph that ships with Matplotlib; ``pb.data.read_image``
# reads your own.

import matplotlib.pyplot as plt
import numpy as np

import polybasis as pb
from polybasis.data.images import sample_photograph, to_pixels

picture = sample_photograph(side=120)
graph, before = picture.graph, picture.x
print(graph, tuple(before.shape))

# %%
# The secret filter
# -----------------
#
# The secret filter sharpens the picture. Its frequency response, a function of the eigenvalue :math:`\mu` of :math:`P`,
# is 1 for smooth signals and grows for fine detail. Afterwards, colours are rounded to integers as in any image file,
# so the filter cannot be recovered exactly.


def secret(mu):
    """The response that we pretend not to know."""
    return 1 + 2 * (1 - np.exp(-6 * (1 - mu)))


after = pb.apply_response(graph, before, secret, variable="mu").round()


def show(pictures):
    """Draws pictures side by side; values outside the range of colours are clipped."""
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
# ``GraphFilter`` finds the best polynomial of degree 10 without tuning or iterations. In the optimal basis :math:`V` of
# the picture, the coefficients with the least squared error are :math:`V^\top y`, eleven inner products.

learned = pb.GraphFilter(K=10).fit(graph, before, after)
print(f"root mean square error: {learned.mse_**0.5:.2f} of 255 levels")
print(f"error of rounding alone: {1 / 12**0.5:.2f}")

# %%
# Eleven coefficients explain the picture up to rounding. The next figure compares their response with the secret one.
# Like most photographs, the picture has almost all of its energy at :math:`\mu = 1`. Where it has less than a
# thousandth of its energy, the response is hatched, because the picture does not determine it there.

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
# The filter is a polynomial and does not depend on the number of pixels, so you can apply it to any other grid. The
# same photograph at 300 by 300 pixels is a different graph with a different signal:

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
# If you swap the pictures before and after, the closed form finds the inverse filter. This time, the process is
# Pillow's Gaussian blur, which is not defined through graphs.

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
# Rounding has erased the finest detail, and no filter can restore it. The response of the learned filter rises to
# amplify the remaining detail, and falls again where there is mostly rounding noise, because the ``ridge`` penalty
# limits it there.

figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
deblur.plot(ax)
ax.set_ylim(-2, 9)
plt.show()

# %%
# To fit a single filter to several pictures or colours, pass them as additional channels, as we did with the three
# colour signals. To learn one filter *for each* channel, fit them one by one. This is the paper's experiment, and
# ``polybasis demo`` runs it on this photograph.

each = [pb.GraphFilter(K=10).fit(graph, before[:, i], after[:, i]) for i in range(3)]
print("root mean square error by channel:", ", ".join(f"{f.mse_**0.5:.3f}" for f in each))

# %%
# .. admonition:: Next steps
#
#    - :doc:`reproduce_the_paper`: sixty such problems, and how other bases perform on them
#    - :doc:`sensors`: the same tools on an irregular network
#    - :doc:`/how-to/graphs-and-signals`: shapes and types of signals, and spectral densities
