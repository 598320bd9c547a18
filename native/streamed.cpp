// The optimal basis of graphs that do not fit in memory: two vectors a channel, the graph read in order from its file.
#include "streamed.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <numeric>
#include <vector>

#include "pages.hpp"

namespace polybasis {
namespace {

constexpr int64_t block_rows = 1 << 14;
// Where there are stripes a visit to one has to be long enough to pay for going there: blocks have more rows then. What each
// thread holds follows from these: 20 to 60 MB with indices of 32 bits, twice that with 64, more only for a longer row.
constexpr int64_t block_bytes = 8 << 20;    // of the product of a block of rows
constexpr int64_t read_nonzeros = 1 << 22;  // read and dealt out at a time at most, or as many as one row has
constexpr int64_t read_for_a_row = 32;      // the same, for each row of a block

// Runs pass(rows, partial sums, scratch) over blocks of `size` rows and adds up their sums in order: the same for any number
// of threads, each of which has its own copy of the scratch.
template <class Scratch, class Pass>
void summed(int64_t rows, int64_t size, int width, int threads, bool backward, double* sums, const Scratch& scratch,
            Pass&& pass) {
  const int64_t blocks = (rows + size - 1) / size;
  std::vector<double> partial(blocks * width, 0.0);
  std::exception_ptr thrown;  // memory or the file may end; that has to leave the threads first
  std::atomic<bool> failed = false;
#pragma omp parallel num_threads(std::max(threads, 1))
  {
    Scratch own = scratch;
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < blocks; ++i) {
      if (failed) continue;
      const int64_t b = backward ? blocks - 1 - i : i;
      try {
        pass(Rows{b * size, std::min(rows, (b + 1) * size)}, partial.data() + b * width, own);
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

// Columns in stripes: of a vector, as much as can be read from at random before the translation of addresses runs out.
struct Columns {
  int shift;      // a stripe has 2^shift columns
  int64_t count;  // of stripes

  static Columns of(int64_t nodes, int64_t row_bytes, int64_t stripe_bytes) {
    if (nodes * row_bytes <= stripe_bytes) return {63, 1};
    int shift = 0;
    while ((row_bytes << (shift + 1)) <= stripe_bytes && (int64_t(1) << shift) < nodes) ++shift;
    return {shift, ((nodes - 1) >> shift) + 1};
  }

  // The one a column lies in; those out of range, which are found when they are used, have to be in one too.
  int64_t stripe(int64_t column) const { return std::min(static_cast<uint64_t>(column) >> shift, uint64_t(count - 1)); }
};

// Sums over the nonzeros of a few rows, stripe by stripe.
template <class I>
class Stripes {
 public:
  explicit Stripes(Columns columns) : columns_(columns) {}

  // y = A u on these rows; false where an index was out of range.
  bool gather(const BarePasses<I>& passes, const BarePart<I>& part, int64_t rows, int64_t nodes, int width, const float* u) {
    deal(part, rows);
    make_room(sums_, rows * width);
    sums_.assign(rows * width, 0.0f);
    bool sound = true;
    int64_t begin = 0;
    for (const int64_t end : ends_) {  // as they are after dealing
      sound &= passes.add(nonzeros_.data() + begin, end - begin, nodes, width, u, sums_.data());
      begin = end;
    }
    return sound;
  }
  const float* y() const { return sums_.data(); }

 private:
  // Sorts by stripes; within one, rows stay in their order.
  void deal(const BarePart<I>& part, int64_t rows) {
    const int64_t count = part.indptr[rows] - part.indptr[0];
    make_room(nonzeros_, count);
    nonzeros_.resize(std::max<size_t>(nonzeros_.size(), count));
    ends_.assign(columns_.count, 0);
    for (int64_t e = 0; e < count; ++e) ++ends_[columns_.stripe(part.indices[e])];
    std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), int64_t{0});
    const I* index = part.indices;
    for (int32_t i = 0; i < rows; ++i)
      for (const I* const end = part.indices + (part.indptr[i + 1] - part.indptr[0]); index < end; ++index)
        nonzeros_[ends_[columns_.stripe(*index)]++] = {*index, i};
  }

  template <class T>
  static void make_room(std::vector<T>& numbers, size_t count) {
    if (count <= numbers.capacity()) return;
    numbers = {};  // what is there is not needed any more
    numbers.reserve(count);
  }

  Columns columns_;
  std::vector<Nonzero<I>> nonzeros_;
  std::vector<int64_t> ends_;
  std::vector<float> sums_;
};

}  // namespace

template <class I>
bool streamed_product(const StreamedCsr<I>& graph, Isa isa, int threads, Streaming streaming, int width, const float* u,
                      const double* scale, const double* beta, float* w, double* sums) {
  const auto scale_ = Split<float>::of(scale, width), beta_ = Split<float>::of(beta, width);
  const auto& passes = bare_passes<I>(isa);
  const int64_t* const indptr = graph.rows.indptr;
  const int64_t nodes = graph.rows.rows;
  const auto columns = Columns::of(nodes, width * int64_t(sizeof(float)), streaming.stripe_bytes);
  const MappedArray<int64_t> mapped{indptr, nodes + 1};
  const int64_t size = columns.count > 1 ? block_bytes / (width * int64_t(sizeof(float))) : block_rows;
  const int64_t most = std::min(read_nonzeros, read_for_a_row * size);
  struct Scratch {
    Reader<I> reader;
    Stripes<I> stripes;
  };
  bool sound = true;
  const auto pass = [&](Rows rows, double* partial, Scratch& scratch) {
    const auto finish = [&](Rows here, const float* y) {
      passes.finish(graph.rows, width, here, y, u, scale_, beta_, w, partial);
    };
    bool sound_here = true;
    for (Rows here{rows.begin, rows.begin}; here.begin < rows.end; here.begin = here.end) {
      const int64_t* const row = indptr + here.begin;
      here.end = std::upper_bound(row + 2, indptr + rows.end + 1, *row + most) - indptr - 1;  // one row at least
      const BarePart<I> part{row, scratch.reader.read(*row, indptr[here.end]), indptr[here.end] - *row};
      if (columns.count > 1) {
        sound_here &= scratch.stripes.gather(passes, part, here.end - here.begin, nodes, width, u);
        finish(here, scratch.stripes.y());
        continue;
      }
      alignas(64) float y[tile_rows * widest<float>];
      for (Rows tile{here.begin, here.begin}; tile.begin < here.end; tile.begin = tile.end) {
        tile.end = std::min(tile.begin + tile_rows, here.end);
        const int64_t before = indptr[tile.begin] - *row;
        const BarePart<I> few{indptr + tile.begin, part.indices + before, part.count - before};
        sound_here &= passes.gather(few, tile.end - tile.begin, nodes, width, u, y);
        finish(tile, y);
      }
    }
    if (!sound_here) {
#pragma omp atomic write
      sound = false;
    }
    if (graph.mapped()) mapped.let_go(rows.begin, rows.end);
  };
  // A thread that reads past the file cache sleeps until the disk has answered: another one computes in the meantime.
  if (graph.indices.file && graph.indices.file->direct()) threads *= 2;
  summed(nodes, size, width, threads, streaming.backward, sums, Scratch{Reader<I>(graph.indices), Stripes<I>(columns)}, pass);
  return sound;
}

template <class I>
void streamed_subtract(const StreamedCsr<I>& graph, Isa isa, int threads, Streaming streaming, int width, float* u,
                       const double* scale, const double* gamma, float* w, double* sums) {
  const auto scale_ = Split<float>::of(scale, width), gamma_ = Split<float>::of(gamma, width);
  const auto& passes = bare_passes<I>(isa);
  const int64_t* const indptr = graph.rows.indptr;
  const int64_t nodes = graph.rows.rows;
  const MappedArray<int64_t> mapped{indptr, nodes + 1};
  struct Nothing {};
  const auto pass = [&](Rows rows, double* partial, Nothing) {
    passes.subtract(graph.rows, width, rows, u, scale_, gamma_, w, partial);
    if (graph.mapped()) mapped.let_go(rows.begin, rows.end);
  };
  summed(nodes, block_rows, width, threads, streaming.backward, sums, Nothing{}, pass);
}

#define POLYBASIS_STREAMED(I)                                                                                            \
  template bool streamed_product(const StreamedCsr<I>&, Isa, int, Streaming, int, const float*, const double*, const double*, \
                                 float*, double*);                                                                       \
  template void streamed_subtract(const StreamedCsr<I>&, Isa, int, Streaming, int, float*, const double*, const double*,     \
                                  float*, double*);
POLYBASIS_STREAMED(int32_t)
POLYBASIS_STREAMED(int64_t)
#undef POLYBASIS_STREAMED

}  // namespace polybasis
