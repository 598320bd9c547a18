"""
Denoise a sensor network and fill its gaps
==========================================

You have weather stations with noisy thermometers, and some stations do not report. You will apply a filter with a given
frequency response, learn a better one from a few hours of reference measurements, and interpolate missing readings.
"""

# %%
# A network of sensors
# --------------------
#
# Four hundred stations in a hilly region, denser along a valley, measure the temperature every hour for two days. The
# temperature field has a trend from south to north, drifting warm and cold areas, and a daily cycle. The measurement
# noise has a standard deviation of 1.5 degrees.

import matplotlib.pyplot as plt
import numpy as np

import polybasis as pb

rng = np.random.default_rng(3)
stations, hours = 400, 48
position = rng.random((stations, 2))
in_valley = position[::2]
in_valley[:, 1] = 0.45 + 0.12 * rng.standard_normal(len(in_valley))
position = position.clip(0, 1)

time = np.arange(hours)
truth = 14 - 6 * position[:, 1:] + 4 * np.sin(2 * np.pi * (time - 9) / 24)
for _ in range(12):
    centre, drift = rng.random(2), 0.01 * rng.standard_normal(2)
    width = rng.uniform(0.08, 0.25)
    offset = position[:, None] - centre - time[:, None] * drift
    truth = truth + rng.normal(0, 3) * np.exp(-(offset**2).sum(-1) / (2 * width**2))
noisy = truth + 1.5 * rng.standard_normal(truth.shape)

# %%
# Each station is connected to its six nearest neighbours, with weights that decay with distance. The normalisation
# matters here. With ``"rw"``, :math:`P = D^{-1} A` takes weighted means over neighbours, so every filter with response
# 1 at :math:`\mu = 1` leaves a constant field unchanged. The default, ``"sym"``, preserves :math:`\sqrt{\text{degree}}`
# instead and would imprint the node degrees on the temperatures.

from scipy.spatial import cKDTree

distance, neighbour = cKDTree(position).query(position, k=7)
edge_index = np.stack([np.repeat(np.arange(stations), 6), neighbour[:, 1:].ravel()])
low, high = np.sort(edge_index, axis=0)
(low, high) = np.unique(np.stack([low, high]), axis=1)
length = np.linalg.norm(position[low] - position[high], axis=1)
weight = np.exp(-((length / np.median(length)) ** 2) / 2)
edges = np.stack([low, high])
graph = pb.Graph.from_edge_index(edges, stations, weight, normalization="rw")
print(graph)


def draw(panels):
    """Draws a map of the stations for each title and its values, which may be NaN."""
    size = (0.8 + 2.6 * len(panels), 2.9)
    colours = {"cmap": "plasma", "vmin": truth[:, 15].min(), "vmax": truth[:, 15].max()}
    figure, axes = plt.subplots(1, len(panels), figsize=size, layout="constrained")
    for ax, (title, values) in zip(axes, panels.items(), strict=True):
        ends = position[np.stack([low, high])]
        ax.plot(*ends.transpose(2, 0, 1), color="#8884", linewidth=0.5, zorder=0)
        missing = np.isnan(values)
        ax.scatter(*position[missing].T, s=10, c="none", edgecolors="#888", linewidths=0.7)
        image = ax.scatter(*position[~missing].T, c=values[~missing], s=13, **colours)
        ax.set(title=title, xticks=[], yticks=[], aspect="equal")
        ax.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label="°C", shrink=0.8)


draw({"the field at 15 h": truth[:, 15], "what the sensors say": noisy[:, 15]})

# %%
# A filter with a given response
# ------------------------------
#
# The field is smooth and the noise is not, so dampen components that vary quickly along edges. The Tikhonov filter
# minimises :math:`\|y - x\|^2 + \tau \, \text{roughness}(y)` and has the response
# :math:`h(\lambda) = 1 / (1 + \tau \lambda)`, where :math:`\lambda = 1 - \mu` is an eigenvalue of the Laplacian. It is
# 0 for the smoothest signals and at most 2. ``apply_response`` takes this formula directly and filters all hours at
# once.


def rms(error):
    """The root mean square of an error."""
    return float(np.sqrt(np.mean(error**2)))


for tau in (0.3, 1, 3, 10, 30):
    smooth = pb.apply_response(graph, noisy, lambda lam, tau=tau: 1 / (1 + tau * lam))
    print(f"tau = {tau:4}: off by {rms(smooth - truth):.2f} degrees")
print(f"no filter : off by {rms(noisy - truth):.2f} degrees")

# %%
# Too little smoothing leaves noise, and too much removes the signal. Here we choose :math:`\tau` by comparing with the
# ground truth, which is only known because the data are synthetic. In practice, you would choose it on hidden readings,
# as below, or learn the filter.
#
# Learn the filter from reference measurements
# --------------------------------------------
#
# Suppose that accurate instruments ran next to the sensors for the first six hours. This gives six pairs of noisy and
# true signals. ``GraphFilter`` finds the polynomial filter that maps one to the other with the least squared error, in
# closed form. A small ``ridge`` penalty keeps the response small where the readings have too little energy to determine
# it. We test the filter on the remaining 42 hours.

reference = slice(0, 6)
later = slice(6, hours)
learned = pb.GraphFilter(K=8, ridge=1e-3)
learned.fit(graph, noisy[:, reference], truth[:, reference])
cleaned = learned.transform(graph, noisy)
print(f"hours 6 to 48, no filter: off by {rms((noisy - truth)[:, later]):.2f} degrees")
print(f"          learned filter: off by {rms((cleaned - truth)[:, later]):.2f} degrees")

# %%
# The learned response resembles a Wiener filter: it is close to 1 where the signal dominates and close to 0 where the
# noise does. The histogram behind it shows the energy of the readings. Nearly all of it is at :math:`\mu = 1`, the mean
# temperature; the noise is spread over the rest of the spectrum.

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
learned.plot(ax)
mu = np.linspace(-1, 1, 201)
ax.plot(mu, 1 / (1 + 10 * (1 - mu)), "--", linewidth=1.2)
ax.annotate(r"Tikhonov, $\tau = 10$", (0.42, 0.42), color="C1")
ax.set_ylim(-0.25, 1.1)
plt.show()

# %%
# Fill the gaps
# -------------
#
# Now a third of the stations do not report. A filter cannot distinguish a missing reading from a reading of zero, so
# filter two signals: the readings with zeros in the gaps, and a mask of ones and zeros. Their ratio is a weighted mean
# of nearby readings, with the weights of the filter. The heat kernel :math:`e^{-\tau\lambda}` has positive weights and
# reaches about :math:`\sqrt\tau` hops.

heard = rng.random(stations) > 1 / 3
reading = np.where(heard[:, None], noisy, 0.0)


def interpolate(reading, heard, tau):
    """The weighted mean of the readings around every station, (stations, hours)."""
    both = np.column_stack([reading, heard.astype(float)])
    filtered = pb.apply_response(graph, both, lambda lam: np.exp(-tau * lam))
    return filtered[:, :-1] / filtered[:, -1:]


# %%
# How far should it reach? Hide a fifth of the readings, predict them from the rest, and keep the :math:`\tau` that
# predicts best. This requires no ground truth.

hidden = heard & (rng.random(stations) < 0.2)
shown = heard & ~hidden
visible = np.where(shown[:, None], noisy, 0.0)
scores = {}
for tau in (0.5, 1, 2, 4, 8, 16):
    guess = interpolate(visible, shown, tau)
    scores[tau] = rms((guess - noisy)[hidden])
best = min(scores, key=scores.get)
print("; ".join(f"tau {tau}: {score:.2f}" for tau, score in scores.items()))
print("best:", best)

filled = interpolate(reading, heard, best)
mean = noisy[heard].mean(axis=0)
print(f"silent stations, mean of the others: {rms((mean - truth)[~heard]):.2f} degrees off")
print(f"silent stations, interpolated      : {rms((filled - truth)[~heard]):.2f} degrees off")
print(f"others, as measured                : {rms((noisy - truth)[heard]):.2f} degrees off")

# %%
# The interpolated values are closer to the truth than the raw readings of working stations, because each is an average
# over a whole neighbourhood.

draw(
    {
        "readings, a third missing": np.where(heard, noisy[:, 15], np.nan),
        "filled": filled[:, 15],
        "the field": truth[:, 15],
    }
)

# %%
# Your own stations
# -----------------
#
# All of this needs only two arrays: positions, (N, 2), and readings, (N, hours). For example, the Molène data set
# contains one month of hourly temperatures, in kelvin, from 37 stations in Brittany. Read its MATLAB file
# (``gsp_molene_data.mat`` from https://github.com/bgirault-usc/Molene-Dataset) as follows:
#
# .. code-block:: python
#
#    import scipy.io
#
#    wind, temperature, rain = scipy.io.loadmat("gsp_molene_data.mat")["gsp_molene_graphs"][0]
#    position = temperature["coords"][0, 0]  # (37, 2)
#    noisy = temperature["data"][0, 0][0, 0]  # (37, 744)
#
# .. admonition:: Next steps
#
#    - :doc:`/how-to/graphs-and-signals`: graphs from other packages, the four normalisations, shapes of signals
#    - :doc:`pictures`: learn a filter from pictures before and after
#    - :doc:`/auto_gallery/index`: more responses and spectra
