// Builds a symmetric adjacency matrix in compressed rows from pairs of nodes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace polybasis {

enum class SelfLoops { drop, keep, add };

// `count` pairs (first[e], second[e]) of nodes from 0 to nodes - 1; weight is null for an unweighted graph.
struct Pairs {
  const int64_t *first, *second;
  const double* weight;
  int64_t count, nodes;
};

bool nodes_in_range(const Pairs&, int threads);

// A neighbour in a row, and the direction in which its pair was given. Nodes are below 2^31, so the direction has a bit.
class Neighbour {
 public:
  static constexpr bool weighted = false;
  static constexpr double weight = 1;
  Neighbour() = default;
  Neighbour(int64_t node, bool reversed, double) : node_and_direction_(tagged(node, reversed)) {}
  int64_t node() const { return node_and_direction_ & ~reversed_bit; }
  bool reversed() const { return node_and_direction_ & reversed_bit; }

 protected:
  static constexpr uint32_t reversed_bit = uint32_t{1} << 31;
  static uint32_t tagged(int64_t node, bool reversed) {
    return static_cast<uint32_t>(node) | static_cast<uint32_t>(reversed) << 31;
  }
  uint32_t node_and_direction_;
};

class WeightedNeighbour : public Neighbour {
 public:
  static constexpr bool weighted = true;
  double weight;
  WeightedNeighbour() = default;
  WeightedNeighbour(int64_t node, bool reversed, double weight) : Neighbour(node, reversed, weight), weight(weight) {}
};

// Compressed rows that may have unused entries between them.
template <class Entry>
struct EntryRows {
  std::unique_ptr<Entry[]> entries;
  std::vector<int64_t> first, last;  // row i: entries[first[i]] to entries[last[i] - 1]

  int64_t size() const { return static_cast<int64_t>(first.size()); }
  Entry* begin(int64_t row) const { return entries.get() + first[row]; }
  Entry* end(int64_t row) const { return entries.get() + last[row]; }
};

// The upper triangle of the adjacency matrix with its diagonal: row i holds the neighbours j >= i in ascending order,
// each once. It holds every edge once, so pairs are merged in half of the matrix and mirror() knows the size of the
// whole. Requires nodes < 2^31. The result does not depend on the number of threads.
template <class Entry>
class UpperTriangle {
 public:
  UpperTriangle(const Pairs&, SelfLoops, int threads);

  int64_t nodes() const { return rows_.size(); }
  // The number of edges, a self-loop counting once, and of those between two nodes given in one direction only.
  std::pair<int64_t, int64_t> edges() const { return {edges_, one_way_}; }
  int64_t nonzeros() const { return 2 * edges_ - loops_; }

  // The first pair, in ascending order, that was given two different weights. The other members are then undefined.
  // Weights that agree up to the rounding of float32 are not different; the one given first is used.
  std::optional<std::pair<int64_t, int64_t>> conflict() const { return conflict_; }

  // Writes the whole matrix. indptr: nodes() + 1 entries; indices: nonzeros(); weight: nonzeros(), unused without
  // weights.
  template <class I>
  void mirror(I* indptr, I* indices, double* weight, int threads) const;

 private:
  void merge(SelfLoops, int threads);

  EntryRows<Entry> rows_;
  int64_t edges_ = 0, loops_ = 0, one_way_ = 0;
  std::optional<std::pair<int64_t, int64_t>> conflict_;
};

}  // namespace polybasis
