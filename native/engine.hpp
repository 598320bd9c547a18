// What the algorithms share: passes over a graph cut into blocks of rows, run by several threads, with sums that come out
// the same for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "passes.hpp"
#include "repeats.hpp"

namespace polybasis {

// The rows of a matrix in blocks of about the same work.
class Blocks {
 public:
  template <class T, class I>
  Blocks(const Csr<T, I>& matrix, int threads, int width) {
    const int64_t work = (matrix.rows ? matrix.indptr[matrix.rows] : 0) + row_work * matrix.rows;
    cut(matrix.rows, work, threads, width, [&](int64_t done) { return row_at(matrix, done); });
  }

  // Rows that all cost the same.
  Blocks(int64_t rows, int threads, int width) {
    cut(rows, row_work * rows, threads, width, [&](int64_t done) { return done / row_work; });
  }

  int64_t count() const { return static_cast<int64_t>(bounds_.size()) - 1; }

  // Calls f(block, rows) for every block; whoever is free takes the next one.
  template <class F>
  void run(F&& f) const {
#pragma omp parallel for num_threads(threads_) schedule(dynamic, 1)
    for (int64_t b = 0; b < count(); ++b) f(b, Rows{bounds_[b], bounds_[b + 1]});
  }

 private:
  static constexpr int64_t row_work = 4;       // what a row costs beside its nonzeros, in nonzeros
  static constexpr int64_t smallest = 1 << 16;  // fewer multiplications are not worth waking a thread
  static constexpr int64_t most = 128;

  template <class RowAt>
  void cut(int64_t rows, int64_t work, int threads, int width, RowAt&& row_at) {
    const int64_t blocks = std::clamp<int64_t>(work * std::max(width, 4) / smallest, 1, most);
    for (int64_t b = 0; b <= blocks; ++b) bounds_.push_back(row_at(work / blocks * b));
    bounds_.back() = rows;
    threads_ = static_cast<int>(std::clamp<int64_t>(threads, 1, blocks));
  }

  // The first row before which `work` has been done.
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
      : graph(graph), on_graph(passes<T, I>(isa)), on_rows(row_passes<T>(isa)), width_(width),
        threads_(threads), blocks_(graph.repeats ? Blocks(graph.rows, threads, width) : Blocks(graph, threads, width)) {
    if (!graph.repeats) return;
    members_.emplace(graph.repeats->members.view(), threads, width);
    core_.emplace(graph.repeats->core.view(), threads, width);
    in_classes_.resize(graph.repeats->core.rows() * width);
    of_classes_.resize(graph.repeats->core.rows() * width);
  }

  // P x, for passes to multiply out. Where rows of P repeat, most of it is done here, once for each class of equal rows;
  // what is returned is good until the next call.
  Product<T, I> product_with(const T* x) {
    if (!graph.repeats) return {graph, x};
    const auto& [members, core, links, class_of] = *graph.repeats;
    const Product<T, I> of_members{members.view(), x}, of_core{core.view(), in_classes_.data()};
    members_->run([&](int64_t, Rows rows) { on_graph.product(of_members, width_, rows, in_classes_.data()); });
    core_->run([&](int64_t, Rows rows) { on_graph.product(of_core, width_, rows, of_classes_.data()); });
    follow(links);
    return {graph, of_classes_.data(), class_of.data()};
  }

  template <class Pass>
  void run(Pass&& pass) const {
    blocks_.run([&](int64_t, Rows rows) { pass(rows); });
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
  template <class Pass, class Join>
  std::vector<double> reduced(int64_t count, Pass&& pass, Join&& join) {
    partial_.assign(blocks_.count() * count, 0.0);
    blocks_.run([&](int64_t b, Rows rows) { pass(rows, partial_.data() + b * count); });
    std::vector<double> result(count, 0.0);
    for (int64_t b = 0; b < blocks_.count(); ++b)
      for (int64_t i = 0; i < count; ++i) result[i] = join(result[i], partial_[b * count + i]);
    return result;
  }

  // A row waits for the one it is linked to, a channel for no other: each thread has channels of its own.
  void follow(const std::vector<Link<T>>& links) {
    if (links.empty() || width_ == 0) return;
    constexpr int step = 64 / sizeof(T);
#pragma omp parallel for num_threads(std::clamp(threads_, 1, (width_ + step - 1) / step)) schedule(static)
    for (int c = 0; c < width_; c += step)
      on_rows.follow(std::min(step, width_ - c), width_, links.data(), static_cast<int64_t>(links.size()),
                     of_classes_.data() + c);
  }

  const int width_, threads_;
  Blocks blocks_;
  std::optional<Blocks> members_, core_;
  std::vector<T> in_classes_, of_classes_;
  std::vector<double> partial_;
};

}  // namespace polybasis
