// The row kernels. Included once for each instruction set, with POLYBASIS_ISA (its namespace) and POLYBASIS_BYTES (its
// register size) defined. Instantiate no templates of the standard library here: the linker could keep the copy
// compiled for AVX-512 for all callers.

#include <cassert>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "row_kernels.hpp"

namespace polybasis::POLYBASIS_ISA {
namespace {

template <class T, int L>
struct LanesOf {
  typedef T type __attribute__((vector_size(sizeof(T) * L)));
};
template <class T>
struct LanesOf<T, 1> {
  using type = T;
};
template <class T, int L>
using Lanes = typename LanesOf<T, L>::type;

template <int L, class T>
inline Lanes<T, L> load(const T* p) {
  Lanes<T, L> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T, class V>
inline void store(T* p, V v) {
  std::memcpy(p, &v, sizeof v);
}

// Forces rounding to T. In a sum of two products either one can be fused into the addition, and compilers choose
// differently for each register size.
template <class V>
inline V rounded(V v) {
#if POLYBASIS_BYTES == 64
  asm("" : "+v"(v));
#elif defined(POLYBASIS_X86)
  asm("" : "+x"(v));
#endif
  return v;
}

template <int L, class T>
inline Lanes<double, L> widened(const Lanes<T, L>& v) {
  if constexpr (L == 1)
    return static_cast<double>(v);
  else
    return __builtin_convertvector(v, Lanes<double, L>);
}

template <class T, int L>
inline Lanes<T, L> narrowed(const Lanes<double, L>& v) {
  if constexpr (L == 1)
    return static_cast<T>(v);
  else
    return __builtin_convertvector(v, Lanes<T, L>);
}

// Half of a vector's lanes, from lane `first` on.
template <int first, int L, class T, int... i>
inline Lanes<T, L / 2> half(const Lanes<T, L>& v, std::integer_sequence<int, i...>) {
  if constexpr (L == 2)
    return v[first];
  else
    return __builtin_shufflevector(v, v, (first + i)...);
}

template <int L>
struct Int {};  // an integer as a type

// Calls f(Int<L>, c) for vectors of L channels from channel c on: full registers first, then narrower vectors.
template <class T, class F>
inline void for_each_vector(int width, F&& f) {
  constexpr int lanes = POLYBASIS_BYTES / sizeof(T);
  int c = 0;
  for (; c + lanes <= width; c += lanes) f(Int<lanes>{}, c);
  if constexpr (lanes > 8)
    if (c + 8 <= width) f(Int<8>{}, c), c += 8;
  if constexpr (lanes > 4)
    if (c + 4 <= width) f(Int<4>{}, c), c += 4;
  if constexpr (lanes > 2)
    if (c + 2 <= width) f(Int<2>{}, c), c += 2;
  if (c < width) f(Int<1>{}, c);
}

// The sum of a b over rows for L channels, in double. Vectors too wide for one register of doubles are split in halves.
template <int L, class T>
class InnerProduct {
 public:
  void add(const Lanes<T, L>& a, const Lanes<T, L>& b) {
    if constexpr (halves == 2) {
      constexpr auto lanes = std::make_integer_sequence<int, part>{};
      sum_[0] += widened<part, T>(half<0, L, T>(a, lanes)) * widened<part, T>(half<0, L, T>(b, lanes));
      sum_[1] += widened<part, T>(half<part, L, T>(a, lanes)) * widened<part, T>(half<part, L, T>(b, lanes));
    } else {
      sum_[0] += widened<L, T>(a) * widened<L, T>(b);
    }
  }
  void add_to(double* sums) const {
    for (int h = 0; h < halves; ++h) store(sums + h * part, load<part>(sums + h * part) + sum_[h]);
  }

 private:
  static constexpr int halves = L > 1 && L * sizeof(double) > POLYBASIS_BYTES ? 2 : 1;
  static constexpr int part = L / halves;
  Lanes<double, part> sum_[halves] = {};
};

// Calls f(Int<L>, Int<V>, c) for groups of channels [c, c + L * V): V vectors of L lanes, V <= max_vectors.
template <class T, int max_vectors, class F>
inline void for_each_group(int width, F&& f) {
  constexpr int lanes = POLYBASIS_BYTES / sizeof(T);
  int c = 0;
  auto take = [&]<int L, int V>(Int<L> l, Int<V> v) {
    for (; c + L * V <= width; c += L * V) f(l, v, c);
  };
  if constexpr (max_vectors >= 8) take(Int<lanes>{}, Int<8>{});
  if constexpr (max_vectors >= 4) take(Int<lanes>{}, Int<4>{});
  if constexpr (max_vectors >= 2) take(Int<lanes>{}, Int<2>{});
  take(Int<lanes>{}, Int<1>{});
  if constexpr (lanes > 8) take(Int<8>{}, Int<1>{});
  if constexpr (lanes > 4) take(Int<4>{}, Int<1>{});
  if constexpr (lanes > 2) take(Int<2>{}, Int<1>{});
  take(Int<1>{}, Int<1>{});
}

// For every vector of L channels from channel c on, f(Int<L>, c) returns a function that is called with (i, inner) for
// every row i of the tile. Per-channel constants and the `count` inner products stay in registers. Sums restart at zero
// in every tile, which limits rounding errors.
template <class T, int count, class F>
inline void reduce_tile(int width, Rows tile, double* sums, F&& f) {
  constexpr int registers = POLYBASIS_BYTES == 64 ? 16 : 8;  // available to inner products
  constexpr int each = count * int(sizeof(double) / sizeof(T));
  for_each_group<T, (registers > each ? registers / each : 1)>(width, [&]<int L, int V>(Int<L> lanes, Int<V>, int c) {
    InnerProduct<L, T> inner[V][count];
    [&]<int... v>(std::integer_sequence<int, v...>) {
      const decltype(f(lanes, c)) in_row[] = {f(lanes, c + v * L)...};
      for (int64_t i = tile.begin; i < tile.end; ++i) (in_row[v](i, inner[v]), ...);
    }(std::make_integer_sequence<int, V>{});
    for (int v = 0; v < V; ++v)
      for (int which = 0; which < count; ++which) inner[v][which].add_to(sums + which * width + c + v * L);
  });
}

// L channels of a double-word factor. A factor rounded to T has the same error in every row, and that error accumulates
// instead of averaging out.
template <int L, class T>
struct Factor {
  Lanes<T, L> high, low;

  Factor(const DoubleWord<T>& factor, int c) : high(load<L>(factor.high + c)), low(load<L>(factor.low + c)) {}
  Lanes<T, L> operator*(const Lanes<T, L>& x) const { return high * x + rounded(low * x); }
};

// ---- the sparse product ---------------------------------------------------------------------------------------------

constexpr int64_t prefetch_ahead = 32;             // nonzeros; hides the latency of main memory
constexpr int64_t unweighted_prefetch_ahead = 64;  // vectors of unweighted graphs may exceed every cache
constexpr int64_t cached_signal_bytes = 4 << 20;   // signals up to this size need no prefetching
constexpr int64_t nonzeros_per_sum = 512;          // bounds the rounding error of hubs

template <class F>
inline void for_each_tile(Rows rows, F&& f) {
  for (int64_t begin = rows.begin; begin < rows.end; begin += tile_rows)
    f(Rows{begin, begin + tile_rows < rows.end ? begin + tile_rows : rows.end});
}

// Vectors of a row in registers; at most 8, because baseline x86 has few registers.
template <class T>
constexpr int max_row_registers =
    max_width<T> * int(sizeof(T)) / POLYBASIS_BYTES < 8 ? max_width<T> * int(sizeof(T)) / POLYBASIS_BYTES : 8;

// L * V channels of rows of P x, accumulated in registers. U independent sums hide the latency of additions where there
// are few channels.
template <int L, int V, int U, bool prefetch, bool weighted, class T, class I>
inline void gather(const Csr<T, I>& graph, Rows rows, const T* x, int64_t x_stride, T* y, int64_t y_stride) {
  const int64_t last = graph.indptr[graph.rows] - 1;
  for (int64_t i = rows.begin; i < rows.end; ++i, y += y_stride) {
    int64_t e = graph.indptr[i];
    const int64_t row_end = graph.indptr[i + 1];
    if (!weighted && row_end - e == 1) {  // the common case without values
      const T* const row = x + static_cast<int64_t>(graph.indices[e]) * x_stride;
      for (int v = 0; v < V; ++v) store(y + v * L, load<L>(row + v * L));
      continue;
    }
    bool first = true;
    do {
      const int64_t end = row_end - e > nonzeros_per_sum ? e + nonzeros_per_sum : row_end;
      Lanes<T, L> sum[U][V] = {};
      const auto take = [&](int64_t at, int u) {
        if constexpr (prefetch) {
          const int64_t ahead = at + prefetch_ahead < last ? at + prefetch_ahead : last;
          const T* coming = x + static_cast<int64_t>(graph.indices[ahead]) * x_stride;
          for (int byte = 0; byte < int(L * V * sizeof(T)); byte += 64)
            __builtin_prefetch(reinterpret_cast<const char*>(coming) + byte);
        }
        const T* row = x + static_cast<int64_t>(graph.indices[at]) * x_stride;
        const T weight = weighted ? graph.values[at] : T(1);
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) sum[u][v] += weight * load<L>(row + v * L);
      };
      for (; e + U <= end; e += U)
#pragma GCC unroll 8
        for (int u = 0; u < U; ++u) take(e + u, u);
      for (; e < end; ++e) take(e, 0);
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) {
        for (int u = 1; u < U; ++u) sum[0][v] += sum[u][v];
        store(y + v * L, first ? sum[0][v] : load<L>(y + v * L) + sum[0][v]);
      }
      first = false;
    } while (e < row_end);
  }
}

// Rows of P x; the first row of y belongs to rows.begin.
template <class T, class I>
inline void gather_rows(const Csr<T, I>& graph, int width, Rows rows, const T* x, T* y, int64_t y_stride) {
  assert(0 <= rows.begin && rows.begin <= rows.end && rows.end <= graph.rows && width <= y_stride);
  const bool cached = graph.rows * width * int64_t(sizeof(T)) <= cached_signal_bytes;
  for_each_group<T, max_row_registers<T>>(width, [&]<int L, int V>(Int<L>, Int<V>, int c) {
    // U depends on the width of the group, not of a register, so that AVX2 and AVX-512 add in the same order. Baseline
    // x86 has too few registers for that.
    constexpr int bytes = POLYBASIS_BYTES == 16 ? 32 * V : L * V * int(sizeof(T));
    constexpr int U = bytes >= 256 ? 1 : bytes > 32 ? 256 / bytes : 8;
    if (!graph.values)
      gather<L, V, U, false, false>(graph, rows, x + c, width, y + c, y_stride);
    else if (cached)
      gather<L, V, U, false, true>(graph, rows, x + c, width, y + c, y_stride);
    else
      gather<L, V, U, true, true>(graph, rows, x + c, width, y + c, y_stride);
  });
}

// Calls f(tile, row) for every tile of rows, where row(i) points to row i of the product.
template <class T, class I, class F>
inline void for_each_product_tile(const Product<T, I>& Px, int width, Rows rows, F&& f) {
  assert(width <= max_width<T> && 0 <= rows.begin && rows.begin <= rows.end && rows.end <= Px.matrix.rows);
  if (Px.row_map) {
    const auto row = [&](int64_t i) { return Px.x + static_cast<int64_t>(Px.row_map[i]) * width; };
    for_each_tile(rows, [&](Rows tile) { f(tile, row); });
    return;
  }
  alignas(64) T scratch[tile_rows * max_width<T>];
  for_each_tile(rows, [&](Rows tile) {
    gather_rows(Px.matrix, width, tile, Px.x, scratch, max_width<T>);
    f(tile, [&](int64_t i) { return scratch + (i - tile.begin) * max_width<T>; });
  });
}

// ---- kernels fused with a product -----------------------------------------------------------------------------------

template <class T, class I>
void product(const Product<T, I>& Px, int width, Rows rows, T* y) {
  if (!Px.row_map) return gather_rows(Px.matrix, width, rows, Px.x, y + rows.begin * width, width);
  for (int64_t i = rows.begin; i < rows.end; ++i)
    std::memcpy(y + i * width, Px.x + static_cast<int64_t>(Px.row_map[i]) * width, width * sizeof(T));
}

template <class T, class I>
void lanczos_product(const Product<T, I>& Pu, int width, Rows rows, const T* u, const DoubleWord<T>& scale,
                     const T* v_prev, const DoubleWord<T>& beta, T* w, double* sums) {
  for_each_product_tile(Pu, width, rows, [&](Rows tile, const auto& row) {
    reduce_tile<T, 1>(width, tile, sums, [&]<int L>(Int<L>, int c) {
      const Factor<L, T> s(scale, c), b(beta, c);
      return [=, &row](int64_t i, auto* inner) {
        const int64_t at = i * width + c;
        auto value = s * load<L>(row(i) + c);
        if (v_prev) value -= b * load<L>(v_prev + at);
        if (w) store(w + at, value);
        inner[0].add(value, load<L>(u + at));
      };
    });
  });
}

template <class T, class I>
void recurrence(const Product<T, I>& Ph, int width, Rows rows, const RecurrenceStep<T>& step) {
  for_each_product_tile(Ph, width, rows, [&](Rows tile, const auto& row) {
    for (int64_t i = tile.begin; i < tile.end; ++i)
      for_each_vector<T>(width, [&]<int L>(Int<L>, int c) {
        const int64_t at = i * width + c;
        auto value = load<L>(step.a + c) * load<L>(row(i) + c) + rounded(load<L>(step.b + c) * load<L>(step.h + at));
        if (step.h_prev) value += load<L>(step.c + c) * load<L>(step.h_prev + at);
        store(step.h_next + at, value);
        store(step.z + at, load<L>(step.z + at) + load<L>(step.alpha + c) * value);
      });
  });
}

template <class T, class I>
void recurrence_adjoint(const Product<T, I>& Plambda, int width, Rows rows, const RecurrenceAdjointStep<T>& step,
                        double* sums) {
  for_each_product_tile(Plambda, width, rows, [&](Rows tile, const auto& row) {
    reduce_tile<T, 4>(width, tile, sums, [&]<int L>(Int<L>, int c) {
      const auto alpha = load<L>(step.alpha + c), a = load<L>(step.a + c), b = load<L>(step.b + c),
                 d = load<L>(step.c + c);
      return [=, &row, &step](int64_t i, auto* inner) {
        const int64_t at = i * width + c;
        const auto p_lambda = load<L>(row(i) + c), h = load<L>(step.h + at);
        const auto lambda = load<L>(step.lambda + at), z_bar = load<L>(step.z_bar + at);
        inner[0].add(p_lambda, h);
        inner[1].add(lambda, h);
        if (step.h_prev) inner[2].add(lambda, load<L>(step.h_prev + at));
        inner[3].add(z_bar, h);
        auto value = alpha * z_bar + rounded(a * p_lambda);
        value += b * lambda;
        value += d * load<L>(step.lambda_next + at);
        store(step.lambda_next + at, value);
      };
    });
  });
}

template <class T, class I>
void optimal_adjoint(const Product<T, I>& Pr, int width, Rows rows, const OptimalAdjointStep<T>& step, double* sums) {
  for_each_product_tile(Pr, width, rows, [&](Rows tile, const auto& row) {
    reduce_tile<T, 2>(width, tile, sums, [&]<int L>(Int<L>, int c) {
      const auto& weight = step.weight;
      const auto z = load<L>(weight.z + c), product = load<L>(weight.product + c), own = load<L>(weight.r + c);
      const auto before = load<L>(weight.r_prev + c), last = load<L>(weight.v_last + c);
      const auto second_last = load<L>(weight.v_second_last + c);
      return [=, &row, &step](int64_t i, auto* inner) {
        const int64_t at = i * width + c;
        const auto v_last = load<L>(step.v_last + at);
        auto value = z * load<L>(step.r_z + at);
        value += product * load<L>(row(i) + c);
        value += own * load<L>(step.r + at);
        if (step.r_prev) value += before * load<L>(step.r_prev + at);
        value += last * v_last;
        value += second_last * load<L>(step.v_second_last + at);
        store(step.r_next + at, value);
        inner[0].add(value, v_last);
        inner[1].add(value, value);
      };
    });
  });
}

// <u, v> over the channels of a row. Eight sums in double for every register size, so that results do not depend on it.
template <class T>
inline double row_dot(int width, const T* u, const T* v) {
  constexpr int L = POLYBASIS_BYTES / sizeof(double), parts = 8 / L;
  Lanes<double, L> sum[parts] = {};
  int c = 0;
  for (; c + 8 <= width; c += 8)
#pragma GCC unroll 4
    for (int p = 0; p < parts; ++p)
      sum[p] += widened<L, T>(load<L>(u + c + p * L)) * widened<L, T>(load<L>(v + c + p * L));
  double lanes[8];
  std::memcpy(lanes, sum, sizeof lanes);
  double total = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
  for (; c < width; ++c) total += rounded(double(u[c]) * double(v[c]));
  return total;
}

template <class T, class I>
void edge_dots(const Csr<T, I>& matrix, int width, Rows rows, const T* u, const T* v, double* out) {
  const bool cached = matrix.rows * width * int64_t(sizeof(T)) <= cached_signal_bytes;
  const int64_t last = matrix.indptr[matrix.rows] - 1;
  const auto row = [&](int64_t e) { return v + static_cast<int64_t>(matrix.indices[e]) * width; };
  for (int64_t i = rows.begin; i < rows.end; ++i)
    for (int64_t e = matrix.indptr[i]; e < matrix.indptr[i + 1]; ++e) {
      if (!cached) {
        const char* const coming =
            reinterpret_cast<const char*>(row(e + prefetch_ahead < last ? e + prefetch_ahead : last));
        for (int64_t byte = 0; byte < width * int64_t(sizeof(T)); byte += 64) __builtin_prefetch(coming + byte);
      }
      out[e] += row_dot(width, u + i * width, row(e));
    }
}

// ---- kernels without a product --------------------------------------------------------------------------------------

template <class T>
void peak(int width, Rows rows, const T* x, double* peaks) {
  for (int64_t i = rows.begin; i < rows.end; ++i)
    for (int c = 0; c < width; ++c) {
      const T value = x[i * width + c];
      const T finite = value * 0 == 0 ? value : std::numeric_limits<T>::infinity();
      const double size = finite < 0 ? -finite : finite;
      peaks[c] = size > peaks[c] ? size : peaks[c];
    }
}

// Calls f(Int<L>, c, at) for every vector of L channels of every row, where `at` is its offset.
template <class T, class F>
inline void for_each_row_vector(int width, Rows rows, F&& f) {
  for (int64_t i = rows.begin; i < rows.end; ++i)
    for_each_vector<T>(width, [&]<int L>(Int<L> lanes, int c) { f(lanes, c, i * width + c); });
}

template <class T>
void rescale(int width, Rows rows, const T* x, const double* scale, T* y, double* sums) {
  assert(width <= max_width<T>);
  for_each_tile(rows, [&](Rows tile) {
    double squares[max_width<T>] = {};
    for (int64_t i = tile.begin; i < tile.end; ++i)
      for (int c = 0; c < width; ++c) {
        const T value = static_cast<T>(x[i * width + c] * scale[c]);
        y[i * width + c] = value;
        squares[c] += double(value) * double(value);
      }
    for (int c = 0; c < width; ++c) sums[c] += squares[c];
  });
}

template <class T>
void scale_and_subtract(int width, Rows rows, T* u, const DoubleWord<T>& scale, const DoubleWord<T>& gamma, T* w,
                        double* sums) {
  for_each_tile(rows, [&](Rows tile) {
    reduce_tile<T, 1>(width, tile, sums, [&]<int L>(Int<L>, int c) {
      const Factor<L, T> s(scale, c), g(gamma, c);
      return [=](int64_t i, auto* inner) {
        const int64_t at = i * width + c;
        const auto v = s * load<L>(u + at);
        const auto value = load<L>(w + at) - g * v;
        store(u + at, v);
        store(w + at, value);
        inner[0].add(value, value);
      };
    });
  });
}

// sums <w, v_j> of a tile for B vectors. Accumulates the rows of a tile in T, and tiles in double.
template <int B, class T>
inline void tile_basis_dots(int width, Rows tile, const T* w, const T* v, int64_t plane, double* sums) {
  for_each_group<T, 2>(width, [&]<int L, int V>(Int<L>, Int<V>, int c) {
    Lanes<T, L> inner[B][V] = {};
    for (int64_t i = tile.begin; i < tile.end; ++i)
#pragma GCC unroll 2
      for (int g = 0; g < V; ++g) {
        const int64_t at = i * width + c + g * L;
        const auto here = load<L>(w + at);
#pragma GCC unroll 4
        for (int j = 0; j < B; ++j) inner[j][g] += here * load<L>(v + j * plane + at);
      }
    for (int j = 0; j < B; ++j)
      for (int g = 0; g < V; ++g)
        for (int lane = 0; lane < L; ++lane) {
          if constexpr (L == 1)
            sums[j * width + c] += inner[j][g];
          else
            sums[j * width + c + g * L + lane] += inner[j][g][lane];
        }
  });
}

template <class T>
void basis_dots(int width, Rows rows, const T* w, const T* u, const T* v, int64_t plane, int count, double* sums) {
  assert(count >= 0 && (count == 0 || rows.end * width <= plane));
  constexpr int together = 4;
  for_each_tile(rows, [&](Rows tile) {
    for (int j = 0; j < count; j += together) {
      const auto take = [&](const T* one, double* here) {
        const T* const v_j = v + j * plane;
        switch (count - j) {
          case 1: return tile_basis_dots<1>(width, tile, one, v_j, plane, here);
          case 2: return tile_basis_dots<2>(width, tile, one, v_j, plane, here);
          case 3: return tile_basis_dots<3>(width, tile, one, v_j, plane, here);
          default: return tile_basis_dots<together>(width, tile, one, v_j, plane, here);
        }
      };
      take(w, sums + int64_t(j) * width);
      if (u) take(u, sums + int64_t(count + j) * width);
    }
  });
}

template <class T>
void inner_product(int width, Rows rows, const T* a, const T* b, double* sums) {
  for_each_tile(rows, [&](Rows tile) {
    reduce_tile<T, 1>(width, tile, sums, [&]<int L>(Int<L>, int c) {
      return [=](int64_t i, auto* inner) { inner[0].add(load<L>(a + i * width + c), load<L>(b + i * width + c)); };
    });
  });
}

// Calls f(Int<L>, c, at, sum_w, sum_u) for every vector of L channels, where sum_w = sum_j weights_j v_j and, if
// `both`, sum_u = sum_j weights_{count+j} v_j. Four rows at a time share the loads of the weights.
template <bool both, class T, class F>
inline void for_each_combination(int width, Rows rows, const T* v, int64_t plane, int count, const T* weights, F&& f) {
  for_each_group<T, 1>(width, [&]<int L>(Int<L> lanes, Int<1>, int c) {
    const auto take = [&]<int R>(Int<R>, int64_t i) {
      Lanes<T, L> of_w[R] = {}, of_u[R] = {};
      for (int j = 0; j < count; ++j) {
        const auto weight_w = load<L>(weights + j * width + c);
        Lanes<T, L> weight_u{};
        if constexpr (both) weight_u = load<L>(weights + (count + j) * width + c);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const auto v_j = load<L>(v + j * plane + (i + r) * width + c);
          of_w[r] += weight_w * v_j;
          if constexpr (both) of_u[r] += weight_u * v_j;
        }
      }
      for (int r = 0; r < R; ++r) f(lanes, c, (i + r) * width + c, of_w[r], of_u[r]);
    };
    int64_t i = rows.begin;
    for (; i + 4 <= rows.end; i += 4) take(Int<4>{}, i);
    for (; i < rows.end; ++i) take(Int<1>{}, i);
  });
}

template <class T>
void project_out(int width, Rows rows, const T* from, T* w, T* u, const T* v, int64_t plane, int count,
                 const T* weights, double* sums) {
  assert(count >= 0 && (count == 0 || rows.end * width <= plane));
  for_each_tile(rows, [&](Rows tile) {
    const auto w_only = [&]<int L>(Int<L>, int, int64_t at, const Lanes<T, L>& of_w, const Lanes<T, L>&) {
      store(w + at, load<L>(from + at) - of_w);
    };
    const auto w_and_u = [&]<int L>(Int<L> lanes, int c, int64_t at, const Lanes<T, L>& of_w, const Lanes<T, L>& of_u) {
      w_only(lanes, c, at, of_w, of_u);
      store(u + at, load<L>(u + at) - of_u);
    };
    if (u)
      for_each_combination<true>(width, tile, v, plane, count, weights, w_and_u);
    else
      for_each_combination<false>(width, tile, v, plane, count, weights, w_only);
    inner_product(width, tile, w, w, sums);
  });
}

template <class T>
void combine(int width, Rows rows, const T* scale, const T* x, const T* v, int64_t plane, int count, const T* weights,
             T* z) {
  for_each_tile(rows, [&](Rows tile) {
    for_each_combination<false>(width, tile, v, plane, count, weights,
                                [&]<int L>(Int<L>, int c, int64_t at, Lanes<T, L> sum, const Lanes<T, L>&) {
                                  if (x) sum += load<L>(x + at);
                                  if (scale) sum *= load<L>(scale + c);
                                  store(z + at, sum);
                                });
  });
}

template <class T>
void apply_deltas(int width, int64_t stride, const RowDelta<T>* deltas, int64_t count, T* y) {
  assert(width <= stride);
  for (const RowDelta<T>* delta = deltas; delta < deltas + count; ++delta) {
    T* const to = y + delta->row * stride;
    const T* const from = y + delta->parent * stride;
    for_each_vector<T>(
        width, [&]<int L>(Int<L>, int c) { store(to + c, load<L>(to + c) + delta->factor * load<L>(from + c)); });
  }
}

template <class T>
void linear_combination(int width, Rows rows, const T* p, const T* x, const T* q, const T* u, const T* r, const T* v,
                        T* y) {
  for_each_row_vector<T>(width, rows, [&]<int L>(Int<L>, int c, int64_t at) {
    Lanes<T, L> value{};  // add one product at a time, see rounded()
    if (u) value += load<L>(q + c) * load<L>(u + at);
    value += load<L>(p + c) * load<L>(x + at);
    if (v) value += load<L>(r + c) * load<L>(v + at);
    store(y + at, value);
  });
}

// ---- kernels on unweighted graphs -----------------------------------------------------------------------------------

// L * V channels of the rows of u at the neighbours of a node. Indices out of range are skipped.
template <int L, int V>
struct Neighbours {
  const float* u;
  int64_t nodes, stride;

  const float* find(int64_t node) const {
    return static_cast<uint64_t>(node) < static_cast<uint64_t>(nodes) ? u + node * stride : nullptr;
  }
  void prefetch(int64_t node) const {
    if (const float* const row = find(node))
      for (int byte = 0; byte < int(L * V * sizeof(float)); byte += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(row) + byte);
  }
  // Adds the row of a node to the sum; returns whether the node is in range.
  bool add(int64_t node, Lanes<float, L>* sum) const {
    const float* const row = find(node);
    if (!row) return false;
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) sum[v] += load<L>(row + v * L);
    return true;
  }
  static void write(const Lanes<float, L>* sum, bool accumulate, float* y) {
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) store(y + v * L, accumulate ? load<L>(y + v * L) + sum[v] : sum[v]);
  }
};

// The sum over the nonzeros [e, end) of a chunk.
template <int L, int V, class I>
inline bool unweighted_gather(const Neighbours<L, V>& neighbours, const UnweightedChunk<I>& chunk, int64_t e,
                              int64_t end, float* y) {
  const int64_t last = chunk.count - 1;
  bool in_range = true, accumulate = false;
  do {
    const int64_t stop = end - e > nonzeros_per_sum ? e + nonzeros_per_sum : end;
    Lanes<float, L> sum[V] = {};
    for (; e < stop; ++e) {
      neighbours.prefetch(chunk.indices[e + unweighted_prefetch_ahead < last ? e + unweighted_prefetch_ahead : last]);
      in_range &= neighbours.add(chunk.indices[e], sum);
    }
    neighbours.write(sum, accumulate, y);
    accumulate = true;
  } while (e < end);
  return in_range;
}

// Adds the nonzeros [e, end) of `count`, with one sum for each run of nonzeros in the same row.
template <int L, int V, class I>
inline bool unweighted_add(const Neighbours<L, V>& neighbours, const Nonzero<I>* nonzeros, int64_t e, int64_t end,
                           int64_t count, float* y) {
  bool in_range = true;
  while (e < end) {
    const int64_t stop = end - e > nonzeros_per_sum ? e + nonzeros_per_sum : end;
    const int32_t row = nonzeros[e].row;
    Lanes<float, L> sum[V] = {};
    do {
      neighbours.prefetch(
          nonzeros[e + unweighted_prefetch_ahead < count ? e + unweighted_prefetch_ahead : count - 1].column);
      in_range &= neighbours.add(nonzeros[e].column, sum);
    } while (++e < stop && nonzeros[e].row == row);
    neighbours.write(sum, true, y + row * neighbours.stride);
  }
  return in_range;
}

template <class I>
bool unweighted_gather_rows(const UnweightedChunk<I>& chunk, int64_t rows, int64_t nodes, int width, const float* u,
                            float* y) {
  assert(chunk.indptr[rows] - chunk.indptr[0] <= chunk.count);
  bool in_range = true;
  for (int64_t i = 0; i < rows; ++i, y += width) {
    const int64_t begin = chunk.indptr[i] - chunk.indptr[0], end = chunk.indptr[i + 1] - chunk.indptr[0];
    for_each_group<float, max_row_registers<float>>(width, [&]<int L, int V>(Int<L>, Int<V>, int c) {
      in_range &= unweighted_gather(Neighbours<L, V>{u + c, nodes, width}, chunk, begin, end, y + c);
    });
  }
  return in_range;
}

template <class I>
bool unweighted_add_nonzeros(const Nonzero<I>* nonzeros, int64_t count, int64_t nodes, int width, const float* u,
                             float* y) {
  constexpr int64_t batch = 1024;  // nonzeros whose rows stay in the cache from one group of channels to the next
  bool in_range = true;
  for (int64_t begin = 0; begin < count; begin += batch) {
    const int64_t end = count - begin > batch ? begin + batch : count;
    for_each_group<float, max_row_registers<float>>(width, [&]<int L, int V>(Int<L>, Int<V>, int c) {
      in_range &= unweighted_add(Neighbours<L, V>{u + c, nodes, width}, nonzeros, begin, end, count, y + c);
    });
  }
  return in_range;
}

// The degree of a node; 1 for isolated nodes.
inline float unweighted_degree(const UnweightedRows& graph, int64_t node) {
  const int64_t count = graph.indptr[node + 1] - graph.indptr[node];
  return count > 0 ? static_cast<float>(count) : 1.0f;
}

inline void unweighted_finish(const UnweightedRows& graph, int width, Rows rows, const float* y, const float* u,
                              const DoubleWord<float>& scale, const DoubleWord<float>& beta, float* w, double* sums) {
  assert(width <= max_width<float> && 0 <= rows.begin && rows.end <= graph.rows);
  for_each_tile(rows, [&](Rows tile) {
    const float* const y_tile = y + (tile.begin - rows.begin) * width;
    reduce_tile<float, 1>(width, tile, sums, [&]<int L>(Int<L>, int c) {
      const Factor<L, float> s(scale, c), b(beta, c);
      return [=, &graph](int64_t i, auto* inner) {
        const float degree = unweighted_degree(graph, i), inverse = 1.0f / degree;
        const int64_t at = i * width + c;
        const auto value = s * (load<L>(y_tile + (i - tile.begin) * width + c) * inverse) - b * load<L>(w + at);
        store(w + at, value);
        inner[0].add(value * degree, load<L>(u + at));
      };
    });
  });
}

inline void unweighted_scale_and_subtract(const UnweightedRows& graph, int width, Rows rows, float* u,
                                          const DoubleWord<float>& scale, const DoubleWord<float>& gamma, float* w,
                                          double* sums) {
  for_each_tile(rows, [&](Rows tile) {
    reduce_tile<float, 1>(width, tile, sums, [&]<int L>(Int<L>, int c) {
      const Factor<L, float> s(scale, c), g(gamma, c);
      return [=, &graph](int64_t i, auto* inner) {
        const float degree = unweighted_degree(graph, i);
        const int64_t at = i * width + c;
        const auto v = s * load<L>(u + at);
        const auto value = load<L>(w + at) - g * v;
        store(u + at, v);
        store(w + at, value);
        inner[0].add(value * degree, value);
      };
    });
  });
}

}  // namespace

template <class I>
const UnweightedKernels<I>& unweighted_table() {
  static constexpr UnweightedKernels<I> entries{unweighted_gather_rows<I>, unweighted_add_nonzeros<I>,
                                                unweighted_finish, unweighted_scale_and_subtract};
  return entries;
}

template <class T, class I>
const ProductKernels<T, I>& product_table() {
  static constexpr ProductKernels<T, I> entries{product<T, I>,         lanczos_product<T, I>,
                                                recurrence<T, I>,      recurrence_adjoint<T, I>,
                                                optimal_adjoint<T, I>, edge_dots<T, I>};
  return entries;
}

template <class T>
const VectorKernels<T>& vector_table() {
  static constexpr VectorKernels<T> entries{peak<T>,          rescale<T>,      scale_and_subtract<T>,
                                            inner_product<T>, basis_dots<T>,   project_out<T>,
                                            combine<T>,       apply_deltas<T>, linear_combination<T>};
  return entries;
}

template const ProductKernels<float, int32_t>& product_table();
template const ProductKernels<float, int64_t>& product_table();
template const ProductKernels<double, int32_t>& product_table();
template const ProductKernels<double, int64_t>& product_table();
template const VectorKernels<float>& vector_table();
template const VectorKernels<double>& vector_table();
template const UnweightedKernels<int32_t>& unweighted_table();
template const UnweightedKernels<int64_t>& unweighted_table();

}  // namespace polybasis::POLYBASIS_ISA
