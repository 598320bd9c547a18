// Runs row kernels in parallel over blocks of rows. Blocks do not depend on the number of threads and their sums are
// added in order, so results are the same for any number of threads.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "parallel.hpp"
#include "row_compression.hpp"
#include "row_kernels.hpp"

namespace polybasis {

// Splits the rows of a matrix into blocks of about equal work.
class Blocks {
 public:
  template <class T, class I>
  Blocks(const Csr<T, I>& matrix, int threads, int width) {
    const int64_t work = (matrix.rows ? matrix.indptr[matrix.rows] : 0) + row_work * matrix.rows;
    cut(matrix.rows, work, threads, width, [&](int64_t done) { return row_at(matrix, done); });
  }

  // Rows of equal cost.
  Blocks(int64_t rows, int threads, int width) {
    cut(rows, row_work * rows, threads, width, [&](int64_t done) { return done / row_work; });
  }

  int64_t count() const { return static_cast<int64_t>(bounds_.size()) - 1; }

  // Calls f(block, rows) for every block, dynamically scheduled; with one thread, in a plain loop.
  template <class F>
  void run(F&& f) const {
    if (threads_ == 1) {
      for (int64_t b = 0; b < count(); ++b) f(b, Rows{bounds_[b], bounds_[b + 1]});
      return;
    }
#pragma omp parallel for num_threads(threads_) schedule(dynamic, 1)
    for (int64_t b = 0; b < count(); ++b) f(b, Rows{bounds_[b], bounds_[b + 1]});
  }

 private:
  static constexpr int64_t row_work = 4;              // overhead of a row, in nonzeros
  static constexpr int64_t min_block_work = 1 << 16;  // multiplications; fewer do not pay for a thread
  static constexpr int64_t max_blocks = 128;

  template <class RowAt>
  void cut(int64_t rows, int64_t work, int threads, int width, RowAt&& row_at) {
    const int64_t blocks = std::clamp<int64_t>(work * std::max(width, 4) / min_block_work, 1, max_blocks);
    for (int64_t b = 0; b <= blocks; ++b) bounds_.push_back(row_at(work / blocks * b));
    bounds_.back() = rows;
    assert(bounds_.front() == 0 && std::is_sorted(bounds_.begin(), bounds_.end()));
    threads_ = static_cast<int>(std::clamp<int64_t>(threads, 1, blocks));
  }

  // The first row whose predecessors amount to at least `work`.
  template <class T, class I>
  static int64_t row_at(const Csr<T, I>& matrix, int64_t work) {
    int64_t low = 0, high = matrix.rows;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (static_cast<int64_t>(matrix.indptr[middle]) + row_work * middle < work)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  std::vector<int64_t> bounds_;
  int threads_;
};

template <class T, class I>
class Engine {
 public:
  Engine(const Csr<T, I>& graph, Isa isa, int threads, int width)
      : graph(graph), product_kernels(polybasis::product_kernels<T, I>(isa)),
        vector_kernels(polybasis::vector_kernels<T>(isa)), width_(width), threads_(threads),
        blocks_(graph.compression ? Blocks(graph.rows, threads, width) : Blocks(graph, threads, width)) {
    if (!graph.compression) return;
    const auto& [members, quotient, deltas, row_class] = *graph.compression;
    assert(members.rows() == quotient.rows() && static_cast<int64_t>(row_class.size()) == graph.rows);
    member_blocks_.emplace(members.view(), threads, width);
    quotient_blocks_.emplace(quotient.view(), threads, width);
    class_sums_.resize(quotient.rows() * width);
    class_products_.resize(quotient.rows() * width);
  }

  // P x, for a kernel to evaluate. With row compression, the product is computed here, once for each class of equal
  // rows. The result is valid until the next call.
  Product<T, I> product_with(const T* x) {
    if (!graph.compression) return {graph, x};
    const auto& [members, quotient, deltas, row_class] = *graph.compression;
    const Product<T, I> Sx{members.view(), x}, QSx{quotient.view(), class_sums_.data()};
    member_blocks_->run([&](int64_t, Rows rows) { product_kernels.product(Sx, width_, rows, class_sums_.data()); });
    quotient_blocks_->run(
        [&](int64_t, Rows rows) { product_kernels.product(QSx, width_, rows, class_products_.data()); });
    apply_deltas(deltas);
    return {graph, class_products_.data(), row_class.data()};
  }

  // Calls kernel(rows) for every block.
  template <class Kernel>
  void run(Kernel&& kernel) const {
    blocks_.run([&](int64_t, Rows rows) { kernel(rows); });
  }

  // Calls kernel(rows, partial) with `count` zeroed sums for every block, then adds the sums of the blocks in order.
  // The result is valid until the next call.
  template <class Kernel>
  double* sum(int64_t count, Kernel&& kernel) {
    return reduce(count, kernel, [](double total, double partial) { return total + partial; });
  }

  // As sum, with the maximum over the blocks instead of the sum.
  template <class Kernel>
  double* largest(int64_t count, Kernel&& kernel) {
    return reduce(count, kernel, [](double largest, double partial) { return std::max(largest, partial); });
  }

  const Csr<T, I>& graph;
  const ProductKernels<T, I>& product_kernels;
  const VectorKernels<T>& vector_kernels;

 private:
  template <class Kernel, class Join>
  double* reduce(int64_t count, Kernel&& kernel, Join&& join) {
    partial_.assign(blocks_.count() * count, 0.0);
    blocks_.run([&](int64_t b, Rows rows) { kernel(rows, partial_.data() + b * count); });
    double* const result = partial_.data();
    for (int64_t b = 1; b < blocks_.count(); ++b)
      for (int64_t i = 0; i < count; ++i) result[i] = join(result[i], partial_[b * count + i]);
    return result;
  }

  // A row depends on its parent, but channels are independent: threads work on different channels.
  void apply_deltas(const std::vector<RowDelta<T>>& deltas) {
    if (deltas.empty() || width_ == 0) return;
    constexpr int step = 64 / sizeof(T);
    const int parts = (width_ + step - 1) / step;
    parallel_for(parts, std::min(threads_, parts), [&](int64_t part) {
      const int c = static_cast<int>(part) * step;
      vector_kernels.apply_deltas(std::min(step, width_ - c), width_, deltas.data(),
                                  static_cast<int64_t>(deltas.size()), class_products_.data() + c);
    });
  }

  const int width_, threads_;
  Blocks blocks_;
  std::optional<Blocks> member_blocks_, quotient_blocks_;
  std::vector<T> class_sums_, class_products_;
  std::vector<double> partial_;
};

}  // namespace polybasis
