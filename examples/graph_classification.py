"""Graph classification with filter layers: ten-fold cross-validation on a TU data set.

    python examples/graph_classification.py --data-root data/tu --dataset MUTAG --filter optbasis

Each fold holds out a tenth of the graphs for testing and a tenth of the others for validation. The epoch is chosen by
validation accuracy, and the test graphs are evaluated once, with the model of that epoch (Errica et al., 2020).
Finished folds are lines of ``--out``; if you run the command again, it skips them.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Dropout, Linear, Module, ModuleList, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch_geometric.data import Batch, Data
from torch_geometric.datasets import TUDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, GINConv, global_add_pool

import polybasis as pb
from polybasis.code_version import code_version

FILTERS = ("optbasis", "favard", "chebyshev", "bernstein", "jacobi", "none")
BASELINES = ("gin", "gcn")  # PyG's layers
HIDDEN, BLOCKS, DROPOUT, BATCH_SIZE = 32, 3, 0.2, 64


def filter_layer(name: str, K: int) -> Module:
    """A layer of this name; a filter of degree 0 ("none") ignores the edges."""
    if name == "optbasis":
        return pb.nn.OptBasisConv(HIDDEN, K, scale="signal")  # "unit" would depend on the size of the graph
    if name == "favard":
        return pb.nn.FavardConv(HIDDEN, K, recurrence="bounded")
    if name == "gin":
        return GINConv(Sequential(Linear(HIDDEN, HIDDEN), ReLU(), Linear(HIDDEN, HIDDEN)), train_eps=True)
    if name == "gcn":
        return GCNConv(HIDDEN, HIDDEN)
    return pb.nn.PolyConv(HIDDEN, 0) if name == "none" else pb.nn.PolyConv(HIDDEN, K, basis=name)


class GraphClassifier(Module):
    """Blocks of filter, batch norm, linear layer, ReLU and dropout; the sums over nodes after each go into an MLP."""

    def __init__(self, tags: int, classes: int, name: str, K: int) -> None:
        super().__init__()
        self.name = name
        self.encoder = Linear(tags, HIDDEN)
        self.filters = ModuleList(filter_layer(name, K) for _ in range(BLOCKS))
        self.mixers = ModuleList(
            Sequential(BatchNorm1d(HIDDEN), Linear(HIDDEN, HIDDEN), ReLU(), Dropout(DROPOUT)) for _ in range(BLOCKS)
        )
        pooled = BLOCKS * HIDDEN
        self.head = Sequential(
            BatchNorm1d(pooled), Linear(pooled, HIDDEN), ReLU(), Dropout(DROPOUT), Linear(HIDDEN, classes)
        )

    def forward(self, data: Batch) -> Tensor:
        # The Graph of a batch filters every graph as if it were alone. PyG's layers take node pairs.
        adjacency = data.edge_index if self.name in BASELINES else pb.Graph.from_pyg(data)
        x, pooled = self.encoder(data.x), []
        for conv, mix in zip(self.filters, self.mixers, strict=True):
            x = mix(conv(x, adjacency))
            pooled.append(global_add_pool(x, data.batch))
        return self.head(torch.cat(pooled, dim=1))


def stratified_folds(y: Tensor, folds: int, seed: int) -> Tensor:
    """The fold of each graph; the folds have equal shares of every class, up to one graph."""
    shuffled = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    by_class = shuffled[y[shuffled].argsort(stable=True)]
    fold = torch.empty_like(by_class)
    fold[by_class] = torch.arange(len(y)) % folds
    return fold


@torch.no_grad()
def evaluate(model: Module, batches: list[Batch]) -> tuple[float, float]:
    """Accuracy and mean loss."""
    model.eval()
    logits, y = torch.cat([model(batch) for batch in batches]), torch.cat([batch.y for batch in batches])
    return (logits.argmax(1) == y).float().mean().item(), cross_entropy(logits, y).item()


def run_fold(graphs: list[Data], fold: int, args: argparse.Namespace) -> dict[str, Any]:
    """Trains on one fold; the test graphs are evaluated once, after the epoch is chosen."""
    torch.manual_seed(1000 * args.seed + fold)
    y = torch.cat([graph.y for graph in graphs])
    folds = stratified_folds(y, args.folds, args.seed)
    rest = (folds != fold).nonzero()[:, 0]
    inner = stratified_folds(y[rest], 10, args.seed)
    train_graphs = [graphs[i] for i in rest[inner > 0]]
    single = len(train_graphs) % BATCH_SIZE == 1  # batch norm needs more than one graph
    train = DataLoader(train_graphs, BATCH_SIZE, shuffle=True, drop_last=single)
    val = list(DataLoader([graphs[i] for i in rest[inner == 0]], 256))
    test = list(DataLoader([graphs[i] for i in (folds == fold).nonzero()[:, 0]], 256))

    model = GraphClassifier(graphs[0].num_features, int(y.max()) + 1, args.filter, args.K)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    best, chosen, weights, seconds = (-1.0, 0.0), 0, {}, 0.0
    for epoch in range(args.epochs):
        start = time.process_time()
        model.train()
        for batch in train:
            optimizer.zero_grad()
            cross_entropy(model(batch), batch.y).backward()
            optimizer.step()
        schedule.step()
        seconds += time.process_time() - start
        accuracy, loss = evaluate(model, val)
        if (accuracy, -loss) > best:  # ties go to the lower loss
            best, chosen, weights = (accuracy, -loss), epoch, copy.deepcopy(model.state_dict())
    model.load_state_dict(weights)
    scores = {"val_accuracy": best[0], "test_accuracy": evaluate(model, test)[0]}
    return {"epoch": chosen, **scores, "cpu_seconds_per_epoch": round(seconds / args.epochs, 4)}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default="data/tu", help="folder of TU data sets; missing ones are downloaded")
    parser.add_argument("--dataset", default="MUTAG")
    parser.add_argument("--filter", choices=FILTERS + BASELINES, default="optbasis")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--K", type=int, default=4, help="degree of the polynomials")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("graph-classification.jsonl"))
    args = parser.parse_args(argv)

    torch.set_num_threads(1)  # the batches are small
    graphs = list(TUDataset(args.data_root, args.dataset))  # x: one-hot node tags
    lines = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    job = {name: value for name, value in vars(args).items() if name not in ("data_root", "out")}
    scores = []
    for fold in range(args.folds):
        job["fold"] = fold
        result = next((line for line in lines if job.items() <= line.items()), None)
        if result is None:
            result = job | run_fold(graphs, fold, args) | {"code": code_version()}
            with args.out.open("a") as file:
                file.write(json.dumps(result) + "\n")
        scores.append(100 * result["test_accuracy"])
        print(f"fold {fold}: validation {100 * result['val_accuracy']:.1f}, test {scores[-1]:.1f}", flush=True)
    mean, deviation = torch.tensor(scores).mean(), torch.tensor(scores).std(correction=0)
    print(f"{args.dataset}, {args.filter}: {mean:.1f} ± {deviation:.1f} over {len(scores)} folds")


if __name__ == "__main__":
    main()
