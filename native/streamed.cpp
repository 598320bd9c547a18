// The optimal basis of graphs that do not fit in memory: two vectors a channel, the graph read in order from a mapped file.
#include "streamed.hpp"

#include <algorithm>
#include <exception>
#include <vector>

#include "pages.hpp"

namespace polybasis {
namespace {

constexpr int64_t block_rows = 1 << 14;
constexpr int64_t striped_rows = 16 * block_rows;
constexpr int64_t striped_nonzeros = 1 << 22;  // sorted at a time: enough visits to a stripe to pay for going there

// Runs pass(rows, partial sums, scratch) over blocks of `size` rows and adds up their sums in order: the same for any number
// of threads, each of which has its own copy of the scratch.
template <class Scratch, class Pass>
void summed(int64_t rows, int64_t size, int width, int threads, bool backward, double* sums, const Scratch& scratch,
            Pass&& pass) {
  const int64_t blocks = (rows + size - 1) / size;
  std::vector<double> partial(blocks * width, 0.0);
  std::exception_ptr thrown;  // memory may run out; that has to leave the threads first
#pragma omp parallel num_threads(std::max(threads, 1))
  {
    Scratch own = scratch;
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t b = backward ? blocks - 1 - i : i;
      try {
        pass(Rows{b * size, std::min(rows, (b + 1) * size)}, partial.data() + b * width, own);
      } catch (...) {
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

// The nonzeros of a block of rows, sorted into stripes of columns. Random reads from one stripe of a vector miss the
// translation of addresses far less than reads from all of it.
template <class I>
class Stripes {
 public:
  explicit Stripes(int64_t count) : stripes_(count) {}

  void sort(const BareCsr<I>& graph, Rows rows) {
    const int64_t columns = (graph.rows + count() - 1) / count();
    first_row_ = rows.begin;
    for (auto& stripe : stripes_) {
      stripe.indptr.assign(1, 0);
      stripe.indices.clear();
    }
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      const I* at = graph.indices + graph.indptr[i];
      const I* const end = graph.indices + graph.indptr[i + 1];
      for (int64_t s = 0; s < count(); ++s) {
        auto& [indptr, indices] = stripes_[s];
        const I* stop = at;
        if (s + 1 == count())
          stop = end;  // whatever is left, of rows out of order too
        else
          while (stop < end && *stop < (s + 1) * columns) ++stop;
        indices.insert(indices.end(), at, stop);
        indptr.push_back(static_cast<int64_t>(indices.size()));
        at = stop;
      }
    }
  }

  int64_t count() const { return static_cast<int64_t>(stripes_.size()); }
  BarePart<I> operator[](int64_t s) const {
    const auto& [indptr, indices] = stripes_[s];
    return {indptr.data(), indices.data(), indptr.back(), first_row_, s == 0, s + 1 == count()};
  }

 private:
  struct Stripe {
    std::vector<int64_t> indptr;
    std::vector<I> indices;
  };
  std::vector<Stripe> stripes_;
  int64_t first_row_ = 0;
};

// What a product reads of a graph in mapped files: the block it is at, and before long the one some way ahead.
template <class I>
class Window {
 public:
  Window(const BareCsr<I>& graph, int64_t block, bool backward)
      : graph_(graph), indptr_{graph.indptr, graph.rows + 1}, indices_{graph.indices, graph.indptr[graph.rows]},
        ahead_(std::max(16 * block_rows, 4 * block) * (backward ? -1 : 1)) {}

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
  const BareCsr<I>& graph_;
  MappedArray<int64_t> indptr_;
  MappedArray<I> indices_;
  int64_t ahead_;
};

}  // namespace

template <class I>
bool streamed_product(const BareCsr<I>& graph, Isa isa, int threads, Streaming streaming, int width, const float* u,
                      const double* scale, const double* beta, float* w, double* sums) {
  const auto scale_ = Split<float>::of(scale, width), beta_ = Split<float>::of(beta, width);
  const auto& passes = bare_passes<I>(isa);
  const int64_t bytes = graph.rows * width * int64_t(sizeof(float));
  const int64_t stripes = (bytes + streaming.stripe_bytes - 1) / streaming.stripe_bytes;
  const int64_t size = stripes > 1 ? striped_rows : block_rows;
  const Window<I> window(graph, size, streaming.backward);
  bool sound = true;
  const auto pass = [&](Rows rows, double* partial, Stripes<I>& sorted) {
    if (streaming.mapped) window.enter(rows);
    const auto add = [&](const BarePart<I>& part, Rows here) {
      return passes.product(graph, part, width, here, u, scale_, beta_, w, partial);
    };
    bool sound_here = true;
    if (stripes > 1)
      for (Rows here{rows.begin, rows.begin}; here.begin < rows.end; here.begin = here.end) {
        const int64_t* const row = graph.indptr + here.begin;
        const auto after = std::upper_bound(row + 2, graph.indptr + rows.end + 1, *row + striped_nonzeros);
        here.end = after - graph.indptr - 1;  // one row at least
        sorted.sort(graph, here);
        for (int64_t s = 0; s < stripes; ++s) sound_here &= add(sorted[s], here);
      }
    else
      sound_here = add({graph.indptr, graph.indices, graph.indptr[graph.rows], 0, true, true}, rows);
    if (!sound_here) {
#pragma omp atomic write
      sound = false;
    }
    if (streaming.mapped) window.leave(rows);
  };
  summed(graph.rows, size, width, threads, streaming.backward, sums, Stripes<I>(stripes), pass);
  return sound;
}

template <class I>
void streamed_subtract(const BareCsr<I>& graph, Isa isa, int threads, Streaming streaming, int width, float* u,
                       const double* scale, const double* gamma, float* w, double* sums) {
  const auto scale_ = Split<float>::of(scale, width), gamma_ = Split<float>::of(gamma, width);
  const auto& passes = bare_passes<I>(isa);
  const MappedArray<int64_t> indptr{graph.indptr, graph.rows + 1};
  struct Nothing {};
  const auto pass = [&](Rows rows, double* partial, Nothing) {
    passes.subtract(graph, width, rows, u, scale_, gamma_, w, partial);
    if (streaming.mapped) indptr.let_go(rows.begin, rows.end);
  };
  summed(graph.rows, block_rows, width, threads, streaming.backward, sums, Nothing{}, pass);
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
