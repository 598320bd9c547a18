// Lanczos steps that keep two vectors in memory and read the graph sequentially from its file.
#include "streamed.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <exception>
#include <numeric>
#include <vector>

#include "pages.hpp"

namespace polybasis {
namespace {

constexpr int64_t block_rows = 1 << 14;
// With stripes, blocks have more rows, so that each stripe is read often enough per block. These constants determine
// the memory of a thread: 20 to 60 MB with 32-bit indices, twice that with 64-bit indices, more only if one row is
// longer.
constexpr int64_t block_bytes = 8 << 20;        // of the product of a block of rows
constexpr int64_t chunk_nonzeros = 1 << 22;     // maximum read at a time; a chunk has at least one row
constexpr int64_t chunk_nonzeros_per_row = 32;  // the same, for each row of a block

// Calls kernel(rows, partial sums, scratch) for blocks of `size` rows and adds their sums in order, so that the result
// does not depend on the number of threads. Each thread has its own copy of the scratch.
template <class Scratch, class Kernel>
void reduce_blocks(int64_t rows, int64_t size, int width, int threads, bool backward, double* sums,
                   const Scratch& scratch, Kernel&& kernel) {
  const int64_t blocks = (rows + size - 1) / size;
  std::vector<double> partial(blocks * width, 0.0);
  std::exception_ptr thrown;  // rethrown after the parallel region
  std::atomic<bool> failed = false;
#pragma omp parallel num_threads(std::max(threads, 1))
  {
    Scratch thread_scratch = scratch;
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < blocks; ++i) {
      if (failed) continue;
      const int64_t b = backward ? blocks - 1 - i : i;
      try {
        kernel(Rows{b * size, std::min(rows, (b + 1) * size)}, partial.data() + b * width, thread_scratch);
      } catch (...) {
        failed = true;
#pragma omp critical
        thrown = std::current_exception();
      }
    }
  }
  if (thrown) std::rethrow_exception(thrown);
  std::fill_n(sums, width, 0.0);
  for (int64_t b = 0; b < blocks; ++b)
    for (int c = 0; c < width; ++c) sums[c] += partial[b * width + c];
}

// Splits columns into stripes. A stripe of a vector is small enough for random reads to hit the TLB.
struct Striping {
  int shift;      // a stripe has 2^shift columns
  int64_t count;  // of stripes

  static Striping of(int64_t nodes, int64_t row_bytes, int64_t stripe_bytes) {
    if (nodes * row_bytes <= stripe_bytes) return {63, 1};
    int shift = 0;
    while ((row_bytes << (shift + 1)) <= stripe_bytes && (int64_t(1) << shift) < nodes) ++shift;
    return {shift, ((nodes - 1) >> shift) + 1};
  }

  // The stripe of a column; columns out of range, which the kernels detect, go to the last one.
  int64_t stripe(int64_t column) const { return std::min(static_cast<uint64_t>(column) >> shift, uint64_t(count - 1)); }
};

// Sums over the nonzeros of a chunk, stripe by stripe.
template <class I>
class Stripes {
 public:
  explicit Stripes(Striping striping) : striping_(striping) {}

  // y = A u on the rows of a chunk. Returns whether all indices are in range.
  bool gather(const UnweightedKernels<I>& kernels, const UnweightedChunk<I>& chunk, int64_t rows, int64_t nodes,
              int width, const float* u) {
    sort_by_stripe(chunk, rows);
    reserve_uninitialised(sums_, rows * width);
    sums_.assign(rows * width, 0.0f);
    bool in_range = true;
    int64_t begin = 0;
    for (const int64_t end : ends_) {
      in_range &= kernels.add(nonzeros_.data() + begin, end - begin, nodes, width, u, sums_.data());
      begin = end;
    }
    return in_range;
  }
  const float* y() const { return sums_.data(); }

 private:
  // Counting sort by stripe, stable within a stripe.
  void sort_by_stripe(const UnweightedChunk<I>& chunk, int64_t rows) {
    const int64_t count = chunk.indptr[rows] - chunk.indptr[0];
    reserve_uninitialised(nonzeros_, count);
    nonzeros_.resize(std::max<size_t>(nonzeros_.size(), count));
    ends_.assign(striping_.count, 0);
    for (int64_t e = 0; e < count; ++e) ++ends_[striping_.stripe(chunk.indices[e])];
    std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), int64_t{0});
    const I* index = chunk.indices;
    for (int32_t i = 0; i < rows; ++i)
      for (const I* const end = chunk.indices + (chunk.indptr[i + 1] - chunk.indptr[0]); index < end; ++index)
        nonzeros_[ends_[striping_.stripe(*index)]++] = {*index, i};
  }

  template <class T>
  static void reserve_uninitialised(std::vector<T>& numbers, size_t count) {
    if (count <= numbers.capacity()) return;
    numbers = {};  // frees the old memory first
    numbers.reserve(count);
  }

  Striping striping_;
  std::vector<Nonzero<I>> nonzeros_;
  std::vector<int64_t> ends_;
  std::vector<float> sums_;
};

}  // namespace

template <class I>
bool streamed_product(const StreamedCsr<I>& graph, Isa isa, int threads, Streaming streaming, int width, const float* u,
                      const double* scale, const double* beta, float* w, double* sums) {
  assert(width <= max_width<float> && (u != w || graph.rows.rows * width == 0));
  const auto scale_ = DoubleWord<float>::of(scale, width), beta_ = DoubleWord<float>::of(beta, width);
  const auto& kernels = unweighted_kernels<I>(isa);
  const int64_t* const indptr = graph.rows.indptr;
  const int64_t nodes = graph.rows.rows;
  const auto striping = Striping::of(nodes, width * int64_t(sizeof(float)), streaming.stripe_bytes);
  const MappedArray<int64_t> mapped{indptr, nodes + 1};
  const int64_t size = striping.count > 1 ? block_bytes / (width * int64_t(sizeof(float))) : block_rows;
  const int64_t max_nonzeros = std::min(chunk_nonzeros, chunk_nonzeros_per_row * size);
  struct Scratch {
    Reader<I> reader;
    Stripes<I> stripes;
  };
  bool in_range = true;
  const auto kernel = [&](Rows rows, double* partial, Scratch& scratch) {
    const auto finish = [&](Rows here, const float* y) {
      kernels.finish(graph.rows, width, here, y, u, scale_, beta_, w, partial);
    };
    bool in_range_here = true;
    for (Rows here{rows.begin, rows.begin}; here.begin < rows.end; here.begin = here.end) {
      const int64_t* const row = indptr + here.begin;
      // At least one row.
      here.end = std::upper_bound(row + 2, indptr + rows.end + 1, *row + max_nonzeros) - indptr - 1;
      const UnweightedChunk<I> chunk{row, scratch.reader.read(*row, indptr[here.end]), indptr[here.end] - *row};
      if (striping.count > 1) {
        in_range_here &= scratch.stripes.gather(kernels, chunk, here.end - here.begin, nodes, width, u);
        finish(here, scratch.stripes.y());
        continue;
      }
      alignas(64) float y[tile_rows * max_width<float>];
      for (Rows tile{here.begin, here.begin}; tile.begin < here.end; tile.begin = tile.end) {
        tile.end = std::min(tile.begin + tile_rows, here.end);
        const int64_t before = indptr[tile.begin] - *row;
        const UnweightedChunk<I> rest{indptr + tile.begin, chunk.indices + before, chunk.count - before};
        in_range_here &= kernels.gather(rest, tile.end - tile.begin, nodes, width, u, y);
        finish(tile, y);
      }
    }
    if (!in_range_here) {
#pragma omp atomic write
      in_range = false;
    }
    if (graph.mapped()) mapped.drop_pages(rows.begin, rows.end);
  };
  // With direct reads a thread blocks on the disk; a second one computes in the meantime.
  if (graph.indices.file && graph.indices.file->direct()) threads *= 2;
  reduce_blocks(nodes, size, width, threads, streaming.backward, sums,
                Scratch{Reader<I>(graph.indices), Stripes<I>(striping)}, kernel);
  return in_range;
}

template <class I>
void streamed_subtract(const StreamedCsr<I>& graph, Isa isa, int threads, Streaming streaming, int width, float* u,
                       const double* scale, const double* gamma, float* w, double* sums) {
  assert(width <= max_width<float> && (u != w || graph.rows.rows * width == 0));
  const auto scale_ = DoubleWord<float>::of(scale, width), gamma_ = DoubleWord<float>::of(gamma, width);
  const auto& kernels = unweighted_kernels<I>(isa);
  const int64_t* const indptr = graph.rows.indptr;
  const int64_t nodes = graph.rows.rows;
  const MappedArray<int64_t> mapped{indptr, nodes + 1};
  struct Empty {};
  const auto kernel = [&](Rows rows, double* partial, Empty) {
    kernels.scale_and_subtract(graph.rows, width, rows, u, scale_, gamma_, w, partial);
    if (graph.mapped()) mapped.drop_pages(rows.begin, rows.end);
  };
  reduce_blocks(nodes, block_rows, width, threads, streaming.backward, sums, Empty{}, kernel);
}

#define POLYBASIS_STREAMED(I)                                                                                  \
  template bool streamed_product(const StreamedCsr<I>&, Isa, int, Streaming, int, const float*, const double*, \
                                 const double*, float*, double*);                                              \
  template void streamed_subtract(const StreamedCsr<I>&, Isa, int, Streaming, int, float*, const double*,      \
                                  const double*, float*, double*);
POLYBASIS_STREAMED(int32_t)
POLYBASIS_STREAMED(int64_t)
#undef POLYBASIS_STREAMED

}  // namespace polybasis
