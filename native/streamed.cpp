// The optimal basis of graphs that do not fit in memory: two vectors a channel, the graph read in order from a mapped file.
#include "streamed.hpp"

#include <algorithm>
#include <vector>

#include "pages.hpp"

namespace polybasis {
namespace {

constexpr int64_t block_rows = 1 << 14;

Split<float> split(const double* numbers, int width) {
  Split<float> parts{};
  for (int c = 0; c < width; ++c) {
    parts.high[c] = static_cast<float>(numbers[c]);
    parts.low[c] = static_cast<float>(numbers[c] - parts.high[c]);
  }
  return parts;
}

// Runs pass(rows, partial sums) over blocks of rows and adds up their sums in order: the same for any number of threads.
template <class Pass>
void summed(int64_t rows, int width, int threads, bool backward, double* sums, Pass&& pass) {
  const int64_t blocks = (rows + block_rows - 1) / block_rows;
  std::vector<double> partial(blocks * width, 0.0);
#pragma omp parallel for num_threads(std::max(threads, 1)) schedule(dynamic, 1)
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t b = backward ? blocks - 1 - i : i;
    pass(Rows{b * block_rows, std::min(rows, (b + 1) * block_rows)}, partial.data() + b * width);
  }
  std::fill_n(sums, width, 0.0);
  for (int64_t b = 0; b < blocks; ++b)
    for (int c = 0; c < width; ++c) sums[c] += partial[b * width + c];
}

// What a product reads of a graph in mapped files: the block it is at, and before long the one some blocks ahead.
template <class I>
class Window {
 public:
  Window(const BareCsr<I>& graph, bool backward)
      : graph_(graph), indptr_{graph.indptr, graph.rows + 1}, indices_{graph.indices, graph.indptr[graph.rows]},
        ahead_(backward ? -blocks_ahead * block_rows : blocks_ahead * block_rows) {}

  void enter(Rows rows) const {
    const int64_t begin = std::clamp<int64_t>(rows.begin + ahead_, 0, graph_.rows);
    const int64_t end = std::clamp<int64_t>(rows.end + ahead_, begin, graph_.rows);
    indices_.ask_for(graph_.indptr[begin], graph_.indptr[end]);
  }
  void leave(Rows rows) const {
    indices_.let_go(graph_.indptr[rows.begin], graph_.indptr[rows.end]);
    indptr_.let_go(rows.begin, rows.end);
  }

 private:
  static constexpr int64_t blocks_ahead = 16;
  const BareCsr<I>& graph_;
  MappedArray<int64_t> indptr_;
  MappedArray<I> indices_;
  int64_t ahead_;
};

}  // namespace

template <class I>
bool streamed_product(const BareCsr<I>& graph, Isa isa, int threads, Streaming streaming, int width, const float* u,
                      const double* scale, const double* beta, float* w, double* sums) {
  const auto scale_ = split(scale, width), beta_ = split(beta, width);
  const auto& passes = bare_passes<I>(isa);
  const Window<I> window(graph, streaming.backward);
  bool sound = true;
  summed(graph.rows, width, threads, streaming.backward, sums, [&](Rows rows, double* partial) {
    if (streaming.mapped) window.enter(rows);
    if (!passes.product(graph, width, rows, u, scale_, beta_, w, partial)) {
#pragma omp atomic write
      sound = false;
    }
    if (streaming.mapped) window.leave(rows);
  });
  return sound;
}

template <class I>
void streamed_subtract(const BareCsr<I>& graph, Isa isa, int threads, Streaming streaming, int width, float* u,
                       const double* scale, const double* gamma, float* w, double* sums) {
  const auto scale_ = split(scale, width), gamma_ = split(gamma, width);
  const auto& passes = bare_passes<I>(isa);
  const MappedArray<int64_t> indptr{graph.indptr, graph.rows + 1};
  summed(graph.rows, width, threads, streaming.backward, sums, [&](Rows rows, double* partial) {
    passes.subtract(graph, width, rows, u, scale_, gamma_, w, partial);
    if (streaming.mapped) indptr.let_go(rows.begin, rows.end);
  });
}

#define POLYBASIS_STREAMED(I)                                                                                            \
  template bool streamed_product(const BareCsr<I>&, Isa, int, Streaming, int, const float*, const double*, const double*, \
                                 float*, double*);                                                                       \
  template void streamed_subtract(const BareCsr<I>&, Isa, int, Streaming, int, float*, const double*, const double*,     \
                                  float*, double*);
POLYBASIS_STREAMED(int32_t)
POLYBASIS_STREAMED(int64_t)
#undef POLYBASIS_STREAMED

}  // namespace polybasis
