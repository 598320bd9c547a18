// What the algorithms share: passes over a graph cut into blocks of rows, run by several threads, with sums that come out
// the same for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "passes.hpp"

namespace polybasis {

template <class T, class I>
class Engine {
 public:
  Engine(const Csr<T, I>& graph, Isa isa, int threads, int width)
      : graph(graph), on_graph(passes<T, I>(isa)), on_rows(row_passes<T>(isa)) {
    const int64_t nonzeros = graph.rows ? graph.indptr[graph.rows] : 0;
    const int64_t work = (nonzeros + row_work * graph.rows) * std::max(width, 4);
    const int64_t blocks = std::clamp<int64_t>(work / smallest_block, 1, most_blocks);
    for (int64_t b = 0; b <= blocks; ++b) bounds_.push_back(row_at((nonzeros + row_work * graph.rows) / blocks * b));
    bounds_.back() = graph.rows;
    threads_ = static_cast<int>(std::clamp<int64_t>(threads, 1, blocks));
  }

  template <class Pass>
  void run(Pass&& pass) const {
    over_blocks([&](int64_t, Rows rows) { pass(rows); });
  }

  // Runs pass(rows, partial) with `count` zeroed sums for each block, then adds up the blocks' sums in their order.
  template <class Pass>
  std::vector<double> sum(int64_t count, Pass&& pass) {
    return reduced(count, pass, [](double total, double partial) { return total + partial; });
  }

  // As sum, with the largest number of the blocks in place of their sum.
  template <class Pass>
  std::vector<double> largest(int64_t count, Pass&& pass) {
    return reduced(count, pass, [](double most, double partial) { return std::max(most, partial); });
  }

  const Csr<T, I>& graph;
  const Passes<T, I>& on_graph;
  const RowPasses<T>& on_rows;

 private:
  static constexpr int64_t row_work = 4;            // what a row costs beside its nonzeros, in nonzeros
  static constexpr int64_t smallest_block = 1 << 16;  // fewer multiplications are not worth waking a thread
  static constexpr int64_t most_blocks = 128;

  int64_t blocks() const { return static_cast<int64_t>(bounds_.size()) - 1; }

  template <class Pass, class Join>
  std::vector<double> reduced(int64_t count, Pass&& pass, Join&& join) {
    partial_.assign(blocks() * count, 0.0);
    over_blocks([&](int64_t b, Rows rows) { pass(rows, partial_.data() + b * count); });
    std::vector<double> result(count, 0.0);
    for (int64_t b = 0; b < blocks(); ++b)
      for (int64_t i = 0; i < count; ++i) result[i] = join(result[i], partial_[b * count + i]);
    return result;
  }

  // Calls f(block, rows) for every block; whoever is free takes the next one.
  template <class F>
  void over_blocks(F&& f) const {
    const int64_t count = blocks();
#pragma omp parallel for num_threads(threads_) schedule(dynamic, 1)
    for (int64_t b = 0; b < count; ++b) f(b, Rows{bounds_[b], bounds_[b + 1]});
  }

  // The first row before which `work` has been done.
  int64_t row_at(int64_t work) const {
    int64_t low = 0, high = graph.rows;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (static_cast<int64_t>(graph.indptr[middle]) + row_work * middle < work)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  std::vector<int64_t> bounds_;
  std::vector<double> partial_;
  int threads_;
};

}  // namespace polybasis
