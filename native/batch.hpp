// Graphs as independent problems: a single graph, or a batch, whose matrix is block diagonal with one block a graph.
// Each graph is computed exactly as if it were alone.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <memory>
#include <vector>

#include "parallel.hpp"
#include "row_compression.hpp"
#include "row_kernels.hpp"

namespace polybasis {

template <class T, class I>
class Batch {
 public:
  struct Graph {
    int64_t index;                                            // of the graph in the batch
    int64_t first;                                            // its first row in the arrays of the batch
    Csr<T, I> matrix;                                         // its own rows and columns, numbered from 0
    std::unique_ptr<const RowCompression<T, I>> compression;  // that of the matrix
  };

  // A single graph. The arrays of the matrix must outlive the batch.
  explicit Batch(const Csr<T, I>& matrix) {
    add(0, matrix);
    group();
  }

  // `count` graphs: graph g has the rows ptr[g] to ptr[g + 1] - 1, and the indices of these rows are in the same range.
  Batch(const Csr<T, I>& matrix, const int64_t* ptr, int64_t count)
      : indptr_(matrix.rows + count), indices_(matrix.indptr[matrix.rows]) {
    assert(ptr[0] == 0 && ptr[count] == matrix.rows);
    graphs_.reserve(count);
    for (int64_t g = 0; g < count; ++g) {
      const int64_t first = ptr[g], rows = ptr[g + 1] - first;
      const I begin = matrix.indptr[first], end = matrix.indptr[ptr[g + 1]];
      I *const indptr = indptr_.data() + first + g, *const indices = indices_.data() + begin;
      for (int64_t i = 0; i <= rows; ++i) indptr[i] = matrix.indptr[first + i] - begin;
      for (I e = begin; e < end; ++e) indices[e - begin] = matrix.indices[e] - static_cast<I>(first);
      add(first, {indptr, indices, matrix.values + begin, rows});
    }
    group();
  }

  Batch(const Batch&) = delete;

  const std::vector<Graph>& graphs() const { return graphs_; }

  // Calls f(graph, threads) for every graph, with signals of d channels.
  template <class F>
  void for_each_graph(int threads, int d, F&& f) const {
    for_each_group(threads, d, [&](int64_t, const Group& group, int each) {
      for (int64_t g = group.begin; g < group.end; ++g) f(graphs_[g], each);
    });
  }

  // As for_each_graph with f(graph, threads, sums), where f adds to `count` sums. Returns the sums over all graphs,
  // which do not depend on the number of threads: those of a group are added in order, then those of the groups.
  template <class F>
  std::vector<double> sum(int threads, int d, int64_t count, F&& f) const {
    std::vector<double> partial(groups_.size() * count, 0.0), result(count, 0.0);
    for_each_group(threads, d, [&](int64_t at, const Group& group, int each) {
      for (int64_t g = group.begin; g < group.end; ++g) f(graphs_[g], each, partial.data() + at * count);
    });
    for (size_t at = 0; at < groups_.size(); ++at)
      for (int64_t i = 0; i < count; ++i) result[i] += partial[at * count + i];
    return result;
  }

 private:
  // Consecutive graphs that one thread computes. Groups do not depend on the number of threads.
  struct Group {
    int64_t begin, end, work;
  };

  static constexpr int64_t row_work = 4, graph_work = 64;  // overhead of a row and of a graph, in nonzeros
  static constexpr int64_t groups_of_full_size = 128;      // at most twice as many have less work
  static constexpr int64_t min_thread_work = 1 << 16;      // multiplications; fewer do not pay for a thread
  static constexpr int64_t min_shared_work = 1 << 18;      // fewer do not pay for all threads on one graph

  void add(int64_t first, const Csr<T, I>& matrix) {
    auto compression = RowCompression<T, I>::of(matrix);
    graphs_.push_back({static_cast<int64_t>(graphs_.size()), first, matrix, std::move(compression)});
    graphs_.back().matrix.compression = graphs_.back().compression.get();
  }

  static int64_t work_of(const Graph& graph) {
    return graph.matrix.indptr[graph.matrix.rows] + row_work * graph.matrix.rows + graph_work;
  }

  void group() {
    for (const Graph& graph : graphs_) work_ += work_of(graph);
    for (const Graph& graph : graphs_) {
      const int64_t work = work_of(graph);
      if (groups_.empty() || groups_.back().work + work > work_ / groups_of_full_size)
        groups_.push_back({graph.index, graph.index, 0});
      groups_.back().end = graph.index + 1;
      groups_.back().work += work;
    }
  }

  // Calls f(at, group, threads) for every group: groups of one graph with much of the work one after another on all
  // threads, the others in parallel on one thread each.
  template <class F>
  void for_each_group(int threads, int d, F&& f) const {
    const auto is_shared = [&](const Group& group) {
      if (groups_.size() == 1) return group.end - group.begin == 1;
      return group.end - group.begin == 1 && group.work * d >= min_shared_work && 4 * threads * group.work > work_;
    };
    const auto count = static_cast<int64_t>(groups_.size());
    int64_t alone = 0;  // groups for one thread
    for (int64_t at = 0; at < count; ++at)
      if (is_shared(groups_[at]))
        f(at, groups_[at], threads);
      else
        ++alone;
    if (alone == 0) return;
    threads = static_cast<int>(std::clamp<int64_t>(work_ * d / min_thread_work, 1, std::max(threads, 1)));
    parallel_for(count, threads, [&](int64_t at) {
      if (!is_shared(groups_[at])) f(at, groups_[at], 1);
    });
  }

  std::vector<I> indptr_, indices_;  // of the graphs, one after another; empty for a single graph
  std::vector<Graph> graphs_;
  std::vector<Group> groups_;
  int64_t work_ = 0;
};

}  // namespace polybasis
