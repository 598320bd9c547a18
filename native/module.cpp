// Python bindings: operators that check their arrays once, and functions on plain buffers.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "adjacency.hpp"
#include "algorithms.hpp"
#include "batch.hpp"
#include "ordering.hpp"
#include "pages.hpp"
#include "panels.hpp"
#include "row_compression.hpp"
#include "streamed.hpp"
#include "tolerance.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace polybasis {
namespace {

template <class T>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <class T>
void advise_huge_pages(const Out<T>& array) {
  polybasis::advise_huge_pages(array.data(), array.nbytes());
}

void require(bool holds, const char* message) {
  if (!holds) throw nb::value_error(message);
}

template <class Array>
void require_shape(const Array& array, const std::vector<int64_t>& shape, const char* what) {
  bool fits = array.ndim() == shape.size();
  size_t axis = 0;
  for (const int64_t extent : shape) {
    fits = fits && static_cast<int64_t>(array.shape(axis)) == extent;
    ++axis;
  }
  if (!fits) throw nb::value_error((std::string(what) + " has the wrong shape").c_str());
}

// Checks every index once, so that no later call reads out of bounds.
template <class I>
void require_compressed_rows(const In<I>& indptr, const In<I>& indices, int64_t columns) {
  require(indptr.ndim() == 1 && indptr.shape(0) >= 1,
          "indptr must be a vector with one entry more than there are rows");
  const int64_t rows = static_cast<int64_t>(indptr.shape(0)) - 1, nonzeros = indptr.data()[rows];
  require_shape(indices, {nonzeros}, "indices");
  require(indptr.data()[0] == 0, "indptr must start at 0");
  for (int64_t i = 0; i < rows; ++i) require(indptr.data()[i] <= indptr.data()[i + 1], "indptr must not decrease");
  for (int64_t e = 0; e < nonzeros; ++e)
    require(indices.data()[e] >= 0 && indices.data()[e] < columns, "indices has a node out of range");
}

Isa isa_named(const std::string& wanted) {
  const Isa best = best_isa();
  for (const Isa isa : {Isa::plain, Isa::avx2, Isa::avx512})
    if (wanted == name(isa)) {
      require(isa <= best, "this processor does not support that instruction set");
      return isa;
    }
  throw nb::value_error("isa must be one of plain, avx2, avx512");
}

// Checks that a matrix in compressed rows is block diagonal with the rows ptr[g] to ptr[g + 1] - 1 as block g.
template <class I>
void require_blocks(const In<int64_t>& ptr, const In<I>& indptr, const In<I>& indices) {
  const int64_t rows = static_cast<int64_t>(indptr.shape(0)) - 1;
  require(ptr.ndim() == 1 && ptr.shape(0) >= 1, "ptr must be a vector with one entry more than there are graphs");
  const int64_t graphs = static_cast<int64_t>(ptr.shape(0)) - 1;
  require(ptr.data()[0] == 0, "ptr must start at 0");
  for (int64_t g = 0; g < graphs; ++g) require(ptr.data()[g] <= ptr.data()[g + 1], "ptr must not decrease");
  if (ptr.data()[graphs] != rows)
    throw nb::value_error(("ptr must end at the number of nodes, " + std::to_string(rows) + ", not at " +
                           std::to_string(ptr.data()[graphs]))
                              .c_str());
  for (int64_t g = 0; g < graphs; ++g) {
    const int64_t begin = ptr.data()[g], end = ptr.data()[g + 1];
    for (int64_t i = begin; i < end; ++i)
      for (int64_t e = indptr.data()[i]; e < indptr.data()[i + 1]; ++e)
        if (const int64_t other = indices.data()[e]; other < begin || other >= end)
          throw nb::value_error(("indices joins node " + std::to_string(i) + " of graph " + std::to_string(g) +
                                 ", which has the nodes from " + std::to_string(begin) + " to " +
                                 std::to_string(end - 1) + ", with node " + std::to_string(other))
                                    .c_str());
  }
}

// P in compressed rows with values of type T and indices of type I. Keeps its arrays alive. With ptr, P is a batch of G
// graphs: arrays of one number a channel have a leading axis of length G, and bases are stored graph after graph.
template <class T, class I>
class Operator {
 public:
  Operator(In<I> indptr, In<I> indices, In<T> values, const std::string& isa, std::optional<In<int64_t>> ptr)
      : indptr_(indptr), indices_(indices), values_(values), isa_(isa_named(isa)), is_batch_(ptr.has_value()) {
    require_compressed_rows(indptr, indices, static_cast<int64_t>(indptr.shape(0)) - 1);
    require_shape(values, {static_cast<int64_t>(indices.shape(0))}, "values");
    if (ptr) require_blocks(*ptr, indptr, indices);
    nb::gil_scoped_release release;
    if (ptr)
      batch_.emplace(csr(), ptr->data(), static_cast<int64_t>(ptr->shape(0)) - 1);
    else
      batch_.emplace(csr());
  }

  int64_t rows() const { return static_cast<int64_t>(indptr_.shape(0)) - 1; }

  std::optional<int64_t> num_graphs() const {
    return is_batch_ ? std::optional(static_cast<int64_t>(batch_->graphs().size())) : std::nullopt;
  }

  bool is_compressed() const {
    return std::any_of(batch_->graphs().begin(), batch_->graphs().end(),
                       [](const Graph& graph) { return graph.compression != nullptr; });
  }

  int64_t num_row_deltas() const {
    int64_t count = 0;
    for (const Graph& graph : batch_->graphs())
      if (graph.compression) count += static_cast<int64_t>(graph.compression->deltas.size());
    return count;
  }

  int panel_width() const {
    int64_t largest = 0;
    for (const Graph& graph : batch_->graphs()) largest = std::max(largest, graph.matrix.rows);
    return polybasis::panel_width<T>(largest);
  }

  double locality_order(Out<I> order) const {
    require_shape(order, {rows()}, "order");
    if (is_batch_ || is_compressed()) return 0;  // products read small graphs, or classes instead of nodes
    nb::gil_scoped_release release;
    const auto found = polybasis::locality_order(Neighbours<I>{indptr_.data(), indices_.data(), rows()});
    std::copy(found.order.begin(), found.order.end(), order.data());
    return found.saved;
  }

  void permute(In<I> order, Out<I> indptr, Out<I> indices, Out<T> values) const {
    const auto nonzeros = static_cast<int64_t>(indices_.shape(0));
    require_shape(order, {rows()}, "order");
    require_shape(indptr, {rows() + 1}, "indptr");
    require_shape(indices, {nonzeros}, "indices");
    require_shape(values, {nonzeros}, "values");
    bool in_range = true;
    {
      nb::gil_scoped_release release;
      in_range = polybasis::permute(csr(), order.data(), indptr.data(), indices.data(), values.data());
    }
    require(in_range, "order is not a permutation of the nodes");
  }

  void take(In<T> x, In<I> order, Out<T> y, int threads) const {
    const int d = channels(x);
    require_shape(order, {rows()}, "order");
    require_shape(y, {rows(), d}, "y");
    bool in_range = true;
    {
      nb::gil_scoped_release release;
      advise_huge_pages(y);
      in_range = take_rows(threads, rows(), d, x.data(), order.data(), y.data());
    }
    require(in_range, "order has a node out of range");
  }

  void product(In<T> x, Out<T> y, int threads) const {
    const int d = channels(x);
    require_shape(y, {rows(), d}, "y");
    nb::gil_scoped_release release;
    advise_huge_pages(y);
    batch_->for_each_graph(threads, d, [&](const Graph& graph, int each) {
      const int64_t at = graph.first * d;
      polybasis::product(graph.matrix, isa_, each, d, x.data() + at, y.data() + at);
    });
  }

  void peak(In<T> x, Out<double> peaks, int threads) const {
    const int d = channels(x);
    require_shape_per_graph(peaks, {d}, "peaks");
    nb::gil_scoped_release release;
    batch_->for_each_graph(threads, d, [&](const Graph& graph, int each) {
      polybasis::peak(graph.matrix, isa_, each, d, x.data() + graph.first * d, peaks.data() + graph.index * d);
    });
  }

  void optimal_basis(In<T> x, In<double> peaks, Out<T> V, Out<double> gamma, Out<double> sqrt_beta, Out<int64_t> rank,
                     bool last_gamma, int threads) const {
    const int d = channels(x);
    const int64_t planes = leading(V);
    require_shape(V, {planes, rows(), d}, "V");
    require_shape_per_graph(peaks, {d}, "peaks");
    require_shape_per_graph(gamma, {planes, d}, "gamma");
    require_shape_per_graph(sqrt_beta, {planes, d}, "sqrt_beta");
    require_shape_per_graph(rank, {d}, "rank");
    nb::gil_scoped_release release;
    advise_huge_pages(V);
    batch_->for_each_graph(threads, d, [&](const Graph& graph, int each) {
      const int64_t at = graph.first * d, numbers = graph.index * d;
      polybasis::optimal_basis(graph.matrix, isa_, each, d, static_cast<int>(planes - 1), x.data() + at,
                               peaks.data() + numbers, V.data() + planes * at, gamma.data() + planes * numbers,
                               sqrt_beta.data() + planes * numbers, rank.data() + numbers, last_gamma);
    });
  }

  void standard_layout(In<T> V, Out<T> out, int threads) const {
    const int64_t planes = leading(V);
    require(V.ndim() == 3, "V has the wrong shape");
    const auto d = static_cast<int64_t>(V.shape(2));
    require_shape(V, {planes, rows(), d}, "V");
    require_shape(out, {planes, rows(), d}, "out");
    nb::gil_scoped_release release;
    advise_huge_pages(out);
    batch_->for_each_graph(threads, static_cast<int>(d), [&](const Graph& graph, int each) {
      const int64_t at = graph.first * d;
      polybasis::standard_layout(each, graph.matrix.rows, static_cast<int>(d), static_cast<int>(planes - 1),
                                 V.data() + planes * at, out.data() + at, rows() * d);
    });
  }

  void combine(In<T> V, In<T> alpha, Out<T> z, int threads) const {
    const int d = channels(z);
    const int64_t planes = leading(V);
    require_shape(V, {planes, rows(), d}, "V");
    const int64_t stride = alpha_stride(alpha, planes, d);
    nb::gil_scoped_release release;
    advise_huge_pages(z);
    batch_->for_each_graph(threads, d, [&](const Graph& graph, int each) {
      const int64_t at = graph.first * d;
      polybasis::combine(graph.matrix, isa_, each, d, static_cast<int>(planes - 1), V.data() + planes * at,
                         alpha.data() + graph.index * stride, z.data() + at);
    });
  }

  void optimal_adjoint(In<T> V, In<double> gamma, In<double> sqrt_beta, In<T> alpha, In<T> z_bar, bool signal,
                       Out<T> x_bar, Out<T> alpha_bar, Out<T> work, int threads) const {
    const int d = channels(z_bar);
    const int64_t planes = leading(V);
    require_shape(V, {planes, rows(), d}, "V");
    for (const auto& array : {gamma, sqrt_beta}) require_shape_per_graph(array, {planes, d}, "gamma or sqrt_beta");
    const int64_t stride = alpha_stride(alpha, planes, d);
    require_shape_per_graph(alpha_bar, {planes, d}, "alpha_bar");
    require_shape(x_bar, {rows(), d}, "x_bar");
    require_shape(work, {2, rows(), d}, "work");
    nb::gil_scoped_release release;
    advise_huge_pages(x_bar);
    advise_huge_pages(work);
    batch_->for_each_graph(threads, d, [&](const Graph& graph, int each) {
      const int64_t at = graph.first * d, numbers = planes * graph.index * d;
      polybasis::optimal_adjoint(graph.matrix, isa_, each, d, static_cast<int>(planes - 1), V.data() + planes * at,
                                 gamma.data() + numbers, sqrt_beta.data() + numbers,
                                 alpha.data() + graph.index * stride, z_bar.data() + at, signal, x_bar.data() + at,
                                 alpha_bar.data() + numbers, work.data() + 2 * at);
    });
  }

  void recurrence(In<T> x, In<T> alpha, In<T> s, In<T> a, In<T> b, In<T> c, Out<T> h, Out<T> z, int threads) const {
    const int d = channels(x);
    const int64_t planes = leading(h), K = leading(alpha) - 1;
    require_coefficients(K, d, alpha, s, a, b, c);
    require(planes >= 2 || K == 0, "h must have at least two planes");
    require_shape(h, {planes, rows(), d}, "h");
    require_shape(z, {rows(), d}, "z");
    nb::gil_scoped_release release;
    advise_huge_pages(h);
    advise_huge_pages(z);
    batch_->for_each_graph(threads, d, [&](const Graph& graph, int each) {
      const int64_t at = graph.first * d;
      polybasis::recurrence(graph.matrix, isa_, each, d, static_cast<int>(K), {s.data(), a.data(), b.data(), c.data()},
                            alpha.data(), x.data() + at, h.data() + planes * at, static_cast<int>(planes),
                            z.data() + at);
    });
  }

  void recurrence_adjoint(In<T> h, In<T> alpha, In<T> s, In<T> a, In<T> b, In<T> c, In<T> z_bar, Out<T> x_bar,
                          Out<T> alpha_bar, Out<T> s_bar, Out<T> a_bar, Out<T> b_bar, Out<T> c_bar, Out<T> work,
                          int threads) const {
    const int d = channels(z_bar);
    const int64_t K = leading(alpha) - 1;
    require_coefficients(K, d, alpha, s, a, b, c);
    require_coefficients(K, d, alpha_bar, s_bar, a_bar, b_bar, c_bar);
    require_shape(h, {K + 1, rows(), d}, "h");
    require_shape(x_bar, {rows(), d}, "x_bar");
    require_shape(work, {rows(), d}, "work");
    nb::gil_scoped_release release;
    advise_huge_pages(x_bar);
    advise_huge_pages(work);
    const int64_t count = (4 * K + 2) * d;  // of all coefficients: alpha, s, a, b, c
    const auto sums = batch_->sum(threads, d, count, [&](const Graph& graph, int each, double* partial) {
      const int64_t at = graph.first * d;
      double *const s_sum = partial + (K + 1) * d, *const a_sum = s_sum + d;
      polybasis::recurrence_adjoint(
          graph.matrix, isa_, each, d, static_cast<int>(K), {s.data(), a.data(), b.data(), c.data()}, alpha.data(),
          h.data() + (K + 1) * at, z_bar.data() + at,
          {x_bar.data() + at, partial, s_sum, a_sum, a_sum + K * d, a_sum + 2 * K * d}, work.data() + at);
    });
    const double* from = sums.data();
    for (const auto& bar : {alpha_bar, s_bar, a_bar, b_bar, c_bar}) {
      std::transform(from, from + bar.size(), bar.data(), [](double sum) { return static_cast<T>(sum); });
      from += bar.size();
    }
  }

  void edge_dots(In<T> u, In<T> v, Out<double> out, int threads) const {
    const int d = channels(u);
    require_shape(v, {rows(), d}, "v");
    require_shape(out, {static_cast<int64_t>(indices_.shape(0))}, "out");
    nb::gil_scoped_release release;
    polybasis::edge_dots(csr(), isa_, threads, d, u.data(), v.data(), out.data());
  }

 private:
  using Graph = typename Batch<T, I>::Graph;

  // The whole matrix.
  Csr<T, I> csr() const { return {indptr_.data(), indices_.data(), values_.data(), rows()}; }

  template <class Array>
  int channels(const Array& x) const {
    require(x.ndim() == 2 && static_cast<int64_t>(x.shape(0)) == rows(), "a signal must have one row for each node");
    require(x.shape(1) <= size_t(1) << 24, "a signal must have at most 2^24 channels");
    return static_cast<int>(x.shape(1));
  }

  // The shape of numbers that every graph of a batch has of its own.
  template <class Array>
  void require_shape_per_graph(const Array& array, std::initializer_list<int64_t> shape, const char* what) const {
    std::vector<int64_t> extents(shape);
    if (is_batch_) extents.insert(extents.begin(), *num_graphs());
    require_shape(array, extents, what);
  }

  // The distance between the coefficients of one graph and those of the next; 0 if the graphs of a batch share them.
  int64_t alpha_stride(const In<T>& alpha, int64_t planes, int64_t d) const {
    if (is_batch_ && alpha.ndim() == 3) {
      require_shape(alpha, {*num_graphs(), planes, d}, "alpha");
      return planes * d;
    }
    require_shape(alpha, {planes, d}, "alpha");
    return 0;
  }

  template <class Array>
  static int64_t leading(const Array& array) {
    require(array.ndim() >= 1 && array.shape(0) >= 1, "a basis must have at least one vector");
    return static_cast<int64_t>(array.shape(0));
  }

  template <class Array>
  static void require_coefficients(int64_t K, int64_t d, const Array& alpha, const Array& s, const Array& a,
                                   const Array& b, const Array& c) {
    require_shape(alpha, {K + 1, d}, "alpha");
    require_shape(s, {d}, "s");
    for (const auto& array : {a, b, c}) require_shape(array, {K, d}, "a, b or c");
  }

  In<I> indptr_, indices_;
  In<T> values_;
  Isa isa_;
  bool is_batch_;
  std::optional<const Batch<T, I>> batch_;  // of one graph without ptr
};

// The pattern of a sparse, possibly rectangular matrix in compressed rows; values are passed to each product.
class Pattern {
 public:
  Pattern(In<int32_t> indptr, In<int32_t> indices, int64_t columns, const std::string& isa)
      : indptr_(indptr), indices_(indices), columns_(columns), isa_(isa_named(isa)) {
    require_compressed_rows(indptr, indices, columns);
  }

  void product(In<float> values, In<float> x, Out<float> y, int threads) const {
    const auto rows = static_cast<int64_t>(indptr_.shape(0)) - 1;
    require(x.ndim() == 2 && static_cast<int64_t>(x.shape(0)) == columns_,
            "x must have one row for each column of the matrix");
    require_shape(values, {static_cast<int64_t>(indices_.shape(0))}, "values");
    require_shape(y, {rows, static_cast<int64_t>(x.shape(1))}, "y");
    nb::gil_scoped_release release;
    const Csr<float, int32_t> matrix{indptr_.data(), indices_.data(), values.data(), rows};
    polybasis::product(matrix, isa_, threads, static_cast<int>(x.shape(1)), x.data(), y.data());
  }

 private:
  In<int32_t> indptr_, indices_;
  int64_t columns_;
  Isa isa_;
};

// An unweighted graph that may be larger than memory. path: the file that holds the indices from byte `offset` on, or
// empty; with a path, indptr lies in a mapped file too.
template <class I>
class StreamedGraph {
 public:
  StreamedGraph(In<int64_t> indptr, In<I> indices, const std::string& path, int64_t offset, bool direct,
                int64_t stripe_bytes, const std::string& isa)
      : indptr_(indptr), indices_(indices), offset_(offset), stripe_bytes_(stripe_bytes), isa_(isa_named(isa)) {
    if (!path.empty()) file_ = std::make_unique<File>(path, direct);
    require(stripe_bytes > 0, "stripe_bytes must be positive");
    require(offset >= 0 && offset % sizeof(I) == 0, "offset must be a non-negative multiple of the index size");
    require(indptr.ndim() == 1 && indptr.shape(0) >= 1,
            "indptr must be a vector with one entry more than there are rows");
    require(indptr.data()[0] == 0, "indptr must start at 0");
    for (int64_t i = 0; i < rows(); ++i) require(indptr.data()[i] <= indptr.data()[i + 1], "indptr must not decrease");
    require_shape(indices, {indptr.data()[rows()]}, "indices");
  }

  int64_t rows() const { return static_cast<int64_t>(indptr_.shape(0)) - 1; }
  bool direct() const { return file_ && file_->direct(); }

  void product(In<float> u, In<double> scale, In<double> beta, Out<float> w, Out<double> sums, int threads) {
    const int d = channels(u, w, scale, beta, sums);
    backward_ = !backward_;
    bool in_range = true;
    {
      nb::gil_scoped_release release;
      in_range = streamed_product(csr(), isa_, threads, {backward_, stripe_bytes_}, d, u.data(), scale.data(),
                                  beta.data(), w.data(), sums.data());
    }
    require(in_range, "indices has a node out of range");
  }

  void subtract(Out<float> u, In<double> scale, In<double> gamma, Out<float> w, Out<double> sums, int threads) const {
    const int d = channels(u, w, scale, gamma, sums);
    nb::gil_scoped_release release;
    streamed_subtract(csr(), isa_, threads, {backward_, stripe_bytes_}, d, u.data(), scale.data(), gamma.data(),
                      w.data(), sums.data());
  }

 private:
  StreamedCsr<I> csr() const { return {{indptr_.data(), rows()}, {indices_.data(), file_.get(), offset_}}; }

  template <class U, class Numbers>
  int channels(const U& u, const Out<float>& w, const Numbers& a, const Numbers& b, const Out<double>& sums) const {
    require(u.ndim() == 2 && static_cast<int64_t>(u.shape(0)) == rows(), "a signal must have one row for each node");
    require(u.shape(1) <= static_cast<size_t>(max_width<float>), "a signal must have at most 64 channels");
    const auto d = static_cast<int64_t>(u.shape(1));
    require_shape(w, {rows(), d}, "w");
    for (const auto& numbers : {a, b}) require_shape(numbers, {d}, "scale, beta or gamma");
    require_shape(sums, {d}, "sums");
    return static_cast<int>(d);
  }

  In<int64_t> indptr_;
  In<I> indices_;
  std::unique_ptr<File> file_;
  bool backward_ = true;  // the first product goes forward
  int64_t offset_, stripe_bytes_;
  Isa isa_;
};

// Arrays are never converted: an output would be written to the converted copy and lost.
template <class Class, class Method, class... Names>
void define(nb::class_<Class>& type, const char* method_name, Method method, Names... argument_names) {
  type.def(method_name, method, nb::arg(argument_names).noconvert()...);
}

template <class I>
void bind_streamed(nb::module_& module, const char* class_name) {
  using Class = StreamedGraph<I>;
  nb::class_<Class> type(module, class_name);
  type.def(nb::init<In<int64_t>, In<I>, const std::string&, int64_t, bool, int64_t, const std::string&>(),
           "indptr"_a.noconvert(), "indices"_a.noconvert(), "path"_a, "offset"_a, "direct"_a, "stripe_bytes"_a,
           "isa"_a);
  type.def_prop_ro("direct", &Class::direct, "Whether reads bypass the file cache.");
  define(type, "product", &Class::product, "u", "scale", "beta", "w", "sums", "threads");
  define(type, "subtract", &Class::subtract, "u", "scale", "gamma", "w", "sums", "threads");
}

template <class T>
void drop(In<T> x, double p, uint64_t seed, int64_t offset, Out<T> y, int threads) {
  require(x.size() == y.size(), "y has the wrong shape");
  require(p >= 0 && p < 1, "p must be in [0, 1)");
  require(offset >= 0 && offset % 256 == 0, "offset must be a non-negative multiple of 256");
  nb::gil_scoped_release release;
  polybasis::dropout(threads, static_cast<int64_t>(x.size()), x.data(), p, seed, offset, y.data());
}

template <class T>
auto rank_tolerance() {
  using Of = Tolerance<T>;
  return std::make_tuple(Of::rounding_level, Of::noise_level, Of::amplification_threshold, Of::noise_cap,
                         Of::max_stopping_error);
}

SelfLoops self_loops_named(const std::string& name) {
  if (name == "drop") return SelfLoops::drop;
  if (name == "keep") return SelfLoops::keep;
  require(name == "add", "self_loops must be one of drop, keep, add");
  return SelfLoops::add;
}

template <class Entry>
void merge_pairs(UpperTriangle<Entry>* triangle, In<int64_t> first, In<int64_t> second,
                 std::optional<In<double>> weight, int64_t nodes, const std::string& self_loops, int threads) {
  const auto count = static_cast<int64_t>(first.size());
  for (const auto& ends : {first, second}) require_shape(ends, {count}, "first or second");
  require(weight.has_value() == Entry::weighted, "weight must be given for a weighted graph and only then");
  if (weight) require_shape(*weight, {count}, "weight");
  require(nodes >= 0 && nodes <= INT32_MAX, "nodes must be from 0 to 2^31 - 1");
  require(threads >= 1, "threads must be at least 1");
  const Pairs pairs{first.data(), second.data(), weight ? weight->data() : nullptr, count, nodes};
  const SelfLoops loops = self_loops_named(self_loops);
  bool in_range = true;
  {
    nb::gil_scoped_release release;
    in_range = nodes_in_range(pairs, threads);
    if (in_range) new (triangle) UpperTriangle<Entry>(pairs, loops, threads);
  }
  require(in_range, "a pair has a node out of range");
}

template <class Entry, class I>
void mirror(const UpperTriangle<Entry>& triangle, Out<I> indptr, Out<I> indices, std::optional<Out<double>> weight,
            int threads) {
  require(threads >= 1, "threads must be at least 1");
  require(!triangle.conflict(), "a pair has two different weights");
  require(triangle.nonzeros() <= std::numeric_limits<I>::max(), "the index type is too narrow");
  require_shape(indptr, {triangle.nodes() + 1}, "indptr");
  require_shape(indices, {triangle.nonzeros()}, "indices");
  require(weight.has_value() == Entry::weighted, "weight must be given for a weighted graph and only then");
  if (weight) require_shape(*weight, {triangle.nonzeros()}, "weight");
  nb::gil_scoped_release release;
  advise_huge_pages(indices);
  if (weight) advise_huge_pages(*weight);
  triangle.mirror(indptr.data(), indices.data(), weight ? weight->data() : nullptr, threads);
}

template <class Entry>
void bind_triangle(nb::module_& module, const char* class_name) {
  using Class = UpperTriangle<Entry>;
  nb::class_<Class> type(module, class_name);
  type.def("__init__", merge_pairs<Entry>, "first"_a.noconvert(), "second"_a.noconvert(), "weight"_a.noconvert().none(),
           "nodes"_a, "self_loops"_a, "threads"_a);
  type.def_prop_ro("edges", &Class::edges, "Number of undirected edges; a self-loop counts once.");
  type.def_prop_ro("nonzeros", &Class::nonzeros, "Number of nonzeros of the whole matrix.");
  type.def_prop_ro("conflict", &Class::conflict, "The first pair with two different weights, or None.");
  type.def("mirror", mirror<Entry, int32_t>, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "weight"_a.noconvert().none(), "threads"_a);
  type.def("mirror", mirror<Entry, int64_t>, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "weight"_a.noconvert().none(), "threads"_a);
}

template <class T, class I>
void bind(nb::module_& module, const char* class_name) {
  using Class = Operator<T, I>;
  nb::class_<Class> type(module, class_name);
  type.def(nb::init<In<I>, In<I>, In<T>, const std::string&, std::optional<In<int64_t>>>(), "indptr"_a.noconvert(),
           "indices"_a.noconvert(), "values"_a.noconvert(), "isa"_a, "ptr"_a.noconvert() = nb::none(),
           "ptr: the first node of each graph of a batch and the number of nodes, or None for a single graph.");
  type.def("num_graphs", &Class::num_graphs, "Number of graphs of a batch; None without ptr.");
  type.def("is_compressed", &Class::is_compressed, "Whether products use row compression (on any graph of a batch).");
  type.def("num_row_deltas", &Class::num_row_deltas, "Number of rows stored as differences to earlier rows.");
  type.def("panel_width", &Class::panel_width, "Channels of a panel of the largest graph, see native/panels.hpp.");
  define(type, "locality_order", &Class::locality_order, "order");
  define(type, "permute", &Class::permute, "order", "indptr", "indices", "values");
  define(type, "take", &Class::take, "x", "order", "y", "threads");
  define(type, "product", &Class::product, "x", "y", "threads");
  define(type, "peak", &Class::peak, "x", "peaks", "threads");
  define(type, "optimal_basis", &Class::optimal_basis, "x", "peaks", "V", "gamma", "sqrt_beta", "rank", "last_gamma",
         "threads");
  define(type, "standard_layout", &Class::standard_layout, "V", "out", "threads");
  define(type, "combine", &Class::combine, "V", "alpha", "z", "threads");
  define(type, "optimal_adjoint", &Class::optimal_adjoint, "V", "gamma", "sqrt_beta", "alpha", "z_bar", "signal",
         "x_bar", "alpha_bar", "work", "threads");
  define(type, "recurrence", &Class::recurrence, "x", "alpha", "s", "a", "b", "c", "h", "z", "threads");
  define(type, "recurrence_adjoint", &Class::recurrence_adjoint, "h", "alpha", "s", "a", "b", "c", "z_bar", "x_bar",
         "alpha_bar", "s_bar", "a_bar", "b_bar", "c_bar", "work", "threads");
  define(type, "edge_dots", &Class::edge_dots, "u", "v", "out", "threads");
}

}  // namespace
}  // namespace polybasis

NB_MODULE(_native, module) {
  using namespace polybasis;
  nb::set_leak_warnings(false);  // objects alive at interpreter exit are not leaks
  module.doc() = "Kernels of polybasis on plain buffers.";
  module.def("best_isa", [] { return std::string(name(best_isa())); }, "The best instruction set of this processor.");
  module.def(
      "rank_tolerance", [](bool single) { return single ? rank_tolerance<float>() : rank_tolerance<double>(); },
      "single"_a,
      "The constants of the rank rule: rounding_level, noise_level, amplification_threshold, noise_cap, "
      "max_stopping_error.");
  module.def("dropout", drop<float>, "x"_a.noconvert(), "p"_a, "seed"_a, "offset"_a, "y"_a.noconvert(), "threads"_a);
  module.def("dropout", drop<double>, "x"_a.noconvert(), "p"_a, "seed"_a, "offset"_a, "y"_a.noconvert(), "threads"_a);
  bind_triangle<Neighbour>(module, "UpperTriangle");
  bind_triangle<WeightedNeighbour>(module, "WeightedUpperTriangle");
  nb::class_<Pattern> pattern(module, "Pattern");
  pattern.def(nb::init<In<int32_t>, In<int32_t>, int64_t, const std::string&>(), "indptr"_a.noconvert(),
              "indices"_a.noconvert(), "columns"_a, "isa"_a);
  define(pattern, "product", &Pattern::product, "values", "x", "y", "threads");
  bind_streamed<int32_t>(module, "StreamedGraphI32");
  bind_streamed<int64_t>(module, "StreamedGraphI64");
  bind<float, int32_t>(module, "OperatorF32I32");
  bind<float, int64_t>(module, "OperatorF32I64");
  bind<double, int32_t>(module, "OperatorF64I32");
  bind<double, int64_t>(module, "OperatorF64I64");
}
