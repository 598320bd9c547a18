// The optimal basis of graphs that do not fit in memory: two vectors a channel, the graph read in order from a mapped file.
#include "streamed.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "pages.hpp"

namespace polybasis {
namespace {

constexpr int64_t block_rows = 1 << 14;
constexpr int64_t striped_nonzeros = 1 << 22;  // of a block, about: enough visits to a stripe to pay for going there

// Runs pass(rows, partial sums, scratch) over blocks of `size` rows and adds up their sums in order: the same for any number
// of threads, each of which has its own copy of the scratch.
template <class Scratch, class Pass>
void summed(int64_t rows, int64_t size, int width, int threads, bool backward, double* sums, const Scratch& scratch,
            Pass&& pass) {
  const int64_t blocks = (rows + size - 1) / size;
  std::vector<double> partial(blocks * width, 0.0);
#pragma omp parallel num_threads(std::max(threads, 1))
  {
    Scratch own = scratch;
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t b = backward ? blocks - 1 - i : i;
      pass(Rows{b * size, std::min(rows, (b + 1) * size)}, partial.data() + b * width, own);
    }
  }
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
    for (auto& stripe : stripes_) stripe.indptr.assign(1, 0);
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      const I* at = graph.indices + graph.indptr[i];
      const I* const end = graph.indices + graph.indptr[i + 1];
      for (int64_t s = 0; s < count(); ++s) {
        auto& [indptr, indices] = stripes_[s];
        const auto used = static_cast<size_t>(indptr.back()), most = used + static_cast<size_t>(end - at);
        if (indices.size() < most) indices.resize(2 * most);
        I* to = indices.data() + used;
        // The last one takes whatever is left, of rows out of order too.
        const int64_t limit = s + 1 == count() ? std::numeric_limits<int64_t>::max() : (s + 1) * columns;
        while (at < end && *at < limit) *to++ = *at++;
        indptr.push_back(to - indices.data());
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
  Window(const BareCsr<I>& graph, bool backward)
      : graph_(graph), indptr_{graph.indptr, graph.rows + 1}, indices_{graph.indices, graph.indptr[graph.rows]},
        ahead_(backward ? -rows_ahead : rows_ahead) {}

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
  static constexpr int64_t rows_ahead = 16 * block_rows;
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
  const Window<I> window(graph, streaming.backward);
  const int64_t nonzeros = graph.indptr[graph.rows], bytes = graph.rows * width * int64_t(sizeof(float));
  const int64_t stripes = (bytes + streaming.stripe_bytes - 1) / streaming.stripe_bytes;
  const int64_t wanted_rows = graph.rows * striped_nonzeros / std::max<int64_t>(nonzeros, 1);
  const int64_t size = stripes > 1 ? std::clamp(wanted_rows, block_rows, 16 * block_rows) : block_rows;
  bool sound = true;
  const auto pass = [&](Rows rows, double* partial, Stripes<I>& sorted) {
    if (streaming.mapped) window.enter(rows);
    const auto add = [&](const BarePart<I>& part) {
      return passes.product(graph, part, width, rows, u, scale_, beta_, w, partial);
    };
    bool sound_here = true;
    if (stripes > 1) {
      sorted.sort(graph, rows);
      for (int64_t s = 0; s < stripes; ++s) sound_here &= add(sorted[s]);
    } else {
      sound_here = add({graph.indptr, graph.indices, nonzeros, 0, true, true});
    }
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
