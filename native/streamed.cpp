// The optimal basis of graphs that do not fit in memory: two vectors a channel, the graph read in order from a mapped file.
#include "streamed.hpp"

#include <algorithm>
#include <vector>

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
void summed(int64_t rows, int width, int threads, double* sums, Pass&& pass) {
  const int64_t blocks = (rows + block_rows - 1) / block_rows;
  std::vector<double> partial(blocks * width, 0.0);
#pragma omp parallel for num_threads(std::max(threads, 1)) schedule(dynamic, 1)
  for (int64_t b = 0; b < blocks; ++b)
    pass(Rows{b * block_rows, std::min(rows, (b + 1) * block_rows)}, partial.data() + b * width);
  std::fill_n(sums, width, 0.0);
  for (int64_t b = 0; b < blocks; ++b)
    for (int c = 0; c < width; ++c) sums[c] += partial[b * width + c];
}

}  // namespace

template <class I>
bool streamed_product(const BareCsr<I>& graph, Isa isa, int threads, int width, const float* u, const double* scale,
                      const double* beta, float* w, double* sums) {
  const auto scale_ = split(scale, width), beta_ = split(beta, width);
  const auto& passes = bare_passes<I>(isa);
  bool sound = true;
  summed(graph.rows, width, threads, sums, [&](Rows rows, double* partial) {
    if (!passes.product(graph, width, rows, u, scale_, beta_, w, partial)) {
#pragma omp atomic write
      sound = false;
    }
  });
  return sound;
}

template <class I>
void streamed_subtract(const BareCsr<I>& graph, Isa isa, int threads, int width, float* u, const double* scale,
                       const double* gamma, float* w, double* sums) {
  const auto scale_ = split(scale, width), gamma_ = split(gamma, width);
  const auto& passes = bare_passes<I>(isa);
  summed(graph.rows, width, threads, sums, [&](Rows rows, double* partial) {
    passes.subtract(graph, width, rows, u, scale_, gamma_, w, partial);
  });
}

template bool streamed_product(const BareCsr<int32_t>&, Isa, int, int, const float*, const double*, const double*, float*,
                               double*);
template bool streamed_product(const BareCsr<int64_t>&, Isa, int, int, const float*, const double*, const double*, float*,
                               double*);
template void streamed_subtract(const BareCsr<int32_t>&, Isa, int, int, float*, const double*, const double*, float*,
                                double*);
template void streamed_subtract(const BareCsr<int64_t>&, Isa, int, int, float*, const double*, const double*, float*,
                                double*);

}  // namespace polybasis
