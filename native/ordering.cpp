#include "ordering.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace polybasis {
namespace {

constexpr int64_t row_bytes = max_width<float> * sizeof(float);  // of a panel of max_width, for either type
constexpr int64_t cached_rows = (32 << 20) / row_bytes;          // rows of a signal that a last-level cache holds
constexpr double min_saved = 0.2;                                // fraction of all reads

// Estimates the fraction of reads that miss the cache: of the nonzeros in a window of as many nonzeros as the cache
// holds rows, those that are the first to read their row. Averages a few windows. order null: the given order.
template <class I>
double miss_rate(const Neighbours<I>& graph, const I* order) {
  constexpr int windows = 8;
  std::vector<int8_t> last_window(graph.rows, -1);
  int64_t reads = 0, misses = 0;
  for (int window = 0; window < windows; ++window) {
    int64_t left = cached_rows;
    for (int64_t i = graph.rows * window / windows; i < graph.rows && left > 0; ++i) {
      const int64_t row = order ? order[i] : i;
      const int64_t begin = graph.indptr[row], end = std::min<int64_t>(graph.indptr[row + 1], begin + left);
      for (int64_t e = begin; e < end; ++e) {
        int8_t& last = last_window[graph.indices[e]];
        misses += last != window;
        last = static_cast<int8_t>(window);
      }
      left -= end - begin;
    }
    reads += cached_rows - left;
  }
  return reads ? static_cast<double>(misses) / static_cast<double>(reads) : 0;
}

// Breadth-first order, component by component. Best for meshes, and for components or communities about the size of the
// cache.
template <class I>
std::vector<I> breadth_first(const Neighbours<I>& graph) {
  std::vector<I> order;
  order.reserve(graph.rows);
  std::vector<bool> seen(graph.rows, false);
  const auto visit = [&](I node) {
    if (seen[node]) return;
    seen[node] = true;
    order.push_back(node);
  };
  for (int64_t first = 0; first < graph.rows; ++first) {
    size_t next = order.size();
    for (visit(static_cast<I>(first)); next < order.size(); ++next)
      for (int64_t e = graph.indptr[order[next]]; e < graph.indptr[order[next] + 1]; ++e) visit(graph.indices[e]);
  }
  return order;
}

// A few rounds of label propagation (Raghavan et al. 2007): each node takes the most frequent label of its neighbours.
template <class I>
std::vector<I> communities(const Neighbours<I>& graph) {
  constexpr int rounds = 4;
  std::vector<I> label(graph.rows), count(graph.rows, 0), met;
  std::iota(label.begin(), label.end(), I(0));
  int64_t changed = graph.rows;
  for (int round = 0; round < rounds && 100 * changed > graph.rows; ++round) {
    changed = 0;
    for (int64_t i = 0; i < graph.rows; ++i) {
      for (int64_t e = graph.indptr[i]; e < graph.indptr[i + 1]; ++e) {
        const I seen = label[graph.indices[e]];
        if (count[seen]++ == 0) met.push_back(seen);
      }
      I best = label[i];
      for (const I other : met)
        if (count[other] > count[best]) best = other;
      for (const I other : met) count[other] = 0;
      met.clear();
      changed += best != label[i];
      label[i] = best;
    }
  }
  return label;
}

// `order` stably sorted by community; communities are in the order of their first nodes.
template <class I>
std::vector<I> grouped(const Neighbours<I>& graph, const std::vector<I>& order) {
  const int64_t nonzeros = graph.indptr[graph.rows];
  std::vector<I> indptr(graph.rows + 1), indices(nonzeros), place(graph.rows);
  for (int64_t i = 0; i < graph.rows; ++i) place[order[i]] = static_cast<I>(i);
  for (int64_t i = 0, to = 0; i < graph.rows; indptr[++i] = static_cast<I>(to))
    for (int64_t e = graph.indptr[order[i]]; e < graph.indptr[order[i] + 1]; ++e)
      indices[to++] = place[graph.indices[e]];
  const std::vector<I> label = communities(Neighbours<I>{indptr.data(), indices.data(), graph.rows});

  std::vector<I> number(graph.rows, -1), start{0};
  for (const I of : label) {
    if (number[of] < 0) {
      number[of] = static_cast<I>(start.size()) - 1;
      start.push_back(0);
    }
    ++start[number[of] + 1];
  }
  std::partial_sum(start.begin(), start.end(), start.begin());
  std::vector<I> result(graph.rows);
  for (int64_t i = 0; i < graph.rows; ++i) result[start[number[label[i]]]++] = order[i];
  return result;
}

}  // namespace

template <class I>
Ordering<I> locality_order(const Neighbours<I>& graph) {
  const double given = miss_rate<I>(graph, nullptr);
  if (given < min_saved) return {};
  std::vector<I> order = breadth_first(graph);
  double misses = miss_rate(graph, order.data());
  std::vector<I> by_community = grouped(graph, order);
  const double other = miss_rate(graph, by_community.data());
  if (other < 0.9 * misses) {  // at equal misses the breadth-first order is faster: its reads come in longer runs
    order = std::move(by_community);
    misses = other;
  }
  if (given - misses < min_saved) return {};
  const double degree = static_cast<double>(graph.indptr[graph.rows]) / static_cast<double>(graph.rows);
  return {std::move(order), degree * (given - misses)};
}

template <class T, class I>
bool permute(const Csr<T, I>& P, const I* order, I* indptr, I* indices, T* values) {
  std::vector<I> place(P.rows, -1);
  for (int64_t i = 0; i < P.rows; ++i) {
    if (order[i] < 0 || order[i] >= P.rows || place[order[i]] >= 0) return false;
    place[order[i]] = static_cast<I>(i);
  }
  int64_t to = 0;
  indptr[0] = 0;
  for (int64_t i = 0; i < P.rows; ++i) {
    for (int64_t e = P.indptr[order[i]]; e < P.indptr[order[i] + 1]; ++e, ++to) {
      indices[to] = place[P.indices[e]];
      values[to] = P.values[e];
    }
    indptr[i + 1] = static_cast<I>(to);
  }
  return true;
}

template <class T, class I>
bool take_rows(int threads, int64_t rows, int64_t width, const T* x, const I* order, T* y) {
  bool in_range = true;
#pragma omp parallel for num_threads(std::max(threads, 1)) schedule(static) reduction(&& : in_range)
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t from = order[i];
    if (from < 0 || from >= rows)
      in_range = false;
    else
      std::copy_n(x + from * width, width, y + i * width);
  }
  return in_range;
}

template Ordering<int32_t> locality_order(const Neighbours<int32_t>&);
template Ordering<int64_t> locality_order(const Neighbours<int64_t>&);

#define POLYBASIS_INSTANTIATE(T, I)                              \
  template bool permute(const Csr<T, I>&, const I*, I*, I*, T*); \
  template bool take_rows(int, int64_t, int64_t, const T*, const I*, T*);
POLYBASIS_INSTANTIATE(float, int32_t)
POLYBASIS_INSTANTIATE(float, int64_t)
POLYBASIS_INSTANTIATE(double, int32_t)
POLYBASIS_INSTANTIATE(double, int64_t)

}  // namespace polybasis
