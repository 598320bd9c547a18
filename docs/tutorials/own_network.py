"""
A filter layer in your own network
==================================

``OptBasisConv`` is a ``torch.nn.Module`` that is called like a PyG convolution. It works with your own network and
training loop.

You will train on one graph and on mini-batches of many graphs, compile and export a layer, and learn edge weights.
"""

# %%
# Train on one graph
# ------------------
#
# The layer maps (N, channels) to (N, channels) and filters each channel with its own polynomial. Place linear layers
# before and after it to mix channels. ``scale="signal"`` makes the result independent of the size of the graph; use it
# unless you want to reproduce the paper.

import copy

import torch
from torch.nn.functional import cross_entropy

import polybasis as pb


class Net(torch.nn.Module):
    def __init__(self, features, hidden, classes, K=6):
        super().__init__()
        self.first = torch.nn.Linear(features, hidden)
        self.conv = pb.nn.OptBasisConv(hidden, K, scale="signal")
        self.last = torch.nn.Linear(hidden, classes)

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        h = torch.dropout(self.first(x).relu(), 0.5, self.training)
        return self.last(self.conv(h, edge_index, edge_weight, batch))


data = pb.data.csbm(nodes=600, features=50, phi=-0.5, seed=0)
x, y, edge_index = data.x, data.y, data.graph.edge_index()
split = data.split("stratified", seed=0)

torch.manual_seed(0)
net = Net(features=50, hidden=32, classes=2)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
best, best_weights = 0.0, {}
for _ in range(60):
    net.train()
    optimizer.zero_grad()
    cross_entropy(net(x, edge_index)[split.train], y[split.train]).backward()
    optimizer.step()
    net.eval()
    with torch.no_grad():
        right = net(x, edge_index).argmax(dim=1) == y
    if (score := right[split.val].float().mean().item()) >= best:
        best, best_weights = score, copy.deepcopy(net.state_dict())

net.load_state_dict(best_weights)
with torch.no_grad():
    right = net(x, edge_index).argmax(dim=1) == y
print(f"validation {best:.1%}, test {right[split.test].float().mean():.1%}")

# %%
# The graph needs no preparation. The layer builds and normalises it in the first call and caches it for the lifetime of
# the tensor ``edge_index``. Graphs are undirected, and you may list each edge in one direction or in both. If some
# edges are listed in both directions and others in one, the layer warns you, because the graph may be directed.
#
# Mini-batches of graphs
# ----------------------
#
# The data are 400 small random graphs with two node signals each. In half of the graphs, the second signal is a noisy
# version of the first one after two diffusion steps along the edges. In the other half, it comes from an unrelated
# signal. The task is to tell the two cases apart, which is impossible without the edges.

from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_mean_pool
from torch_geometric.utils import to_undirected


def example(label):
    nodes = int(torch.randint(15, 40, ()))
    ring = torch.arange(nodes)
    chords = torch.randint(nodes, (2, nodes // 2))
    chords = chords[:, chords[0] != chords[1]]
    edges = torch.cat([torch.stack([ring, ring.roll(-1)]), chords], dim=1)
    graph = pb.Graph.from_edge_index(edges, nodes, directed=False)
    before, other = torch.randn(2, nodes)
    after = graph @ (graph @ (before if label else other))
    x = torch.stack([before, after / after.std() + 0.3 * torch.randn(nodes)], dim=1)
    return Data(x=x, edge_index=to_undirected(edges), y=torch.tensor([label]))


torch.manual_seed(0)
graphs = [example(number % 2) for number in range(400)]
print(*graphs[:2], sep="\n")

# %%
# PyG's ``DataLoader`` joins the graphs of a mini-batch into one and provides a vector ``batch`` that assigns each node
# to its graph. Pass this vector to the layer. Every graph is then filtered as if it were alone, with identical bits,
# although a single native call processes all of them. Without ``batch``, all graphs would share one optimal basis, and
# a prediction would depend on the other graphs in the batch.


class GraphNet(torch.nn.Module):
    def __init__(self, hidden=16, K=4):
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, hidden), torch.nn.Linear(2, hidden)
        self.conv = pb.nn.OptBasisConv(hidden, K, scale="signal")
        self.last = torch.nn.Linear(hidden, 2)

    def forward(self, x, edge_index, batch):
        filtered = self.conv(self.first(x), edge_index, batch=batch)
        similarity = global_mean_pool(filtered * self.second(x), batch)
        return self.last(similarity)


train = DataLoader(graphs[:300], batch_size=30, shuffle=True)
test = DataLoader(graphs[300:], batch_size=100)

torch.manual_seed(0)
net = GraphNet()
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for _ in range(20):
    for part in train:
        optimizer.zero_grad()
        cross_entropy(net(part.x, part.edge_index, part.batch), part.y).backward()
        optimizer.step()

part = next(iter(test))
with torch.no_grad():
    scores = net(part.x, part.edge_index, part.batch)
print(f"test accuracy {(scores.argmax(dim=1) == part.y).float().mean():.1%}")

# %%
# To check that a graph does not depend on its batch, filter one graph alone:

alone = graphs[317]
with torch.no_grad():
    inside = net.conv(net.first(part.x), part.edge_index, batch=part.batch)[part.batch == 17]
    by_itself = net.conv(net.first(alone.x), alone.edge_index)
print("same filtered signal, bit for bit:", torch.equal(inside, by_itself))

# %%
# Compile and export
# ------------------
#
# The kernels are ``torch.library`` operators, so ``torch.compile`` and ``torch.export`` trace the layer without graph
# breaks. For a fixed graph, pass a ``pb.Graph``, which is prepared only once; compiled code prepares node pairs again
# in every call. (``backend="aot_eager"`` traces everything but skips the C++ compiler, so that this page builds
# quickly.)

graph = pb.Graph.from_edge_index(edge_index, num_nodes=600)
conv = pb.nn.OptBasisConv(50, K=6, scale="signal")
compiled = torch.compile(conv, fullgraph=True, backend="aot_eager")
print("compiled:", torch.allclose(compiled(x, graph), conv(x, graph), atol=1e-6))

sizes = ({0: torch.export.Dim("nodes", min=2)}, {1: torch.export.Dim("edges", min=2)})
program = torch.export.export(conv, (x, edge_index), dynamic_shapes=sizes)
other = pb.data.csbm(nodes=90, features=50, seed=5)
inputs = other.x, other.graph.edge_index()
print("exported:", torch.allclose(program.module()(*inputs), conv(*inputs), atol=1e-6))

# %%
# The exported program runs on graphs of any size. Save it with ``torch.export.save``. To load it, you need
# ``import polybasis.operators`` but not the code of your class.
#
# Learn edge weights
# ------------------
#
# If ``edge_weight`` requires gradients, the layer computes them. As an example, suppose that the recorded connections
# of a sensor network are unreliable: for every three true connections, there are about two false ones. You also have
# sixty noisy snapshots of the sensors together with the clean values. Filtering along true connections removes noise,
# and filtering along false ones mixes unrelated values. So learn from the error how much to trust each connection.

torch.manual_seed(0)
side = 12
number = torch.arange(side * side).view(side, side)
along, down = (number[:, :-1], number[:, 1:]), (number[:-1], number[1:])
true = torch.cat([torch.stack([a.flatten(), b.flatten()]) for a, b in (along, down)], dim=1)
false = torch.randint(side * side, (2, true.shape[1]))
false = false[:, (false[0] - false[1]).abs() > 2 * side]
recorded = torch.cat([true, false], dim=1)

network = pb.Graph.from_edge_index(true, directed=False)
clean = pb.apply_response(network, torch.randn(side * side, 60), "low-pass").float()
clean = clean / clean.std()
noisy = clean + 0.7 * torch.randn_like(clean)

both = torch.cat([recorded, recorded.flip(0)], dim=1)  # each connection in both directions
logit = torch.zeros(recorded.shape[1], requires_grad=True)
conv = pb.nn.FavardConv(60, K=3)
optimizer = torch.optim.Adam([logit, *conv.parameters()], lr=0.05)
for _ in range(150):
    optimizer.zero_grad()
    loss = (conv(noisy, both, logit.sigmoid().repeat(2)) - clean).square().mean()
    loss.backward()
    optimizer.step()

# %%
# The layer does not know which connections are false (orange). The line width shows the learned weight:

from matplotlib.collections import LineCollection

from polybasis.report.figures import COLOURS, figure

weight = logit.detach().sigmoid()
place = torch.stack([number.flatten() % side, number.flatten() // side], dim=1)
with figure(2, width=8.4, height=3.9) as (drawn, (left, right)):
    lines = place[recorded.T].numpy()
    colours = [COLOURS[0]] * true.shape[1] + [COLOURS[1]] * false.shape[1]
    widths = 2.5 * weight.numpy()
    left.add_collection(LineCollection(lines, colors=colours, linewidths=widths))
    left.scatter(*place.T, s=10, color="0.5", zorder=3)
    left.set_aspect("equal")
    left.set_axis_off()
    edges = torch.linspace(0, 1, 21).numpy()
    right.hist(weight[: true.shape[1]], edges, color=COLOURS[0], alpha=0.7, label="true")
    right.hist(weight[true.shape[1] :], edges, color=COLOURS[1], alpha=0.7, label="false")
    right.set(xlabel="learned weight", ylabel="connections")
    right.legend(loc="upper center")
drawn

# %%
# .. admonition:: Next steps
#
#    - :doc:`/how-to/layers`: all inputs of the layers, ``torch.func``, autocast and explainers
#    - :doc:`/how-to/graph-classification`: graph classification with cross-validation
#    - :doc:`filter_responses`: look at the filters that a network has learned
#    - :doc:`own_basis_and_model`: register your network by name, then train and save it like a built-in model
