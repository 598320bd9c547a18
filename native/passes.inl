// The passes themselves. Included once for each instruction set with POLYBASIS_ISA (a namespace) and POLYBASIS_BYTES (its
// register's size) set. Only our own code may be instantiated here: a standard library template compiled for AVX-512 could
// be the copy that the linker keeps for everyone.

#include <cstdint>
#include <cstring>

#include "passes.hpp"

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

template <class V>
inline void add(double* p, V v) {
  V sum;
  std::memcpy(&sum, p, sizeof sum);
  store(p, sum + v);
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

template <int L>
struct Width {};

// Calls f(Width<L>, c) for vectors of L channels from channel c on, L as wide as a register of doubles, then narrower.
template <class F>
inline void over_channels(int width, F&& f) {
  constexpr int most = POLYBASIS_BYTES / sizeof(double);
  int c = 0;
  for (; c + most <= width; c += most) f(Width<most>{}, c);
  if constexpr (most > 4)
    if (c + 4 <= width) f(Width<4>{}, c), c += 4;
  if constexpr (most > 2)
    if (c + 2 <= width) f(Width<2>{}, c), c += 2;
  if (c < width) f(Width<1>{}, c);
}

// ---- the sparse product -------------------------------------------------------------------------------------------

constexpr int64_t prefetch_ahead = 16;    // nonzeros; enough to hide main memory behind the current rows
constexpr int64_t longest_sum = 512;      // nonzeros added in one go: bounds the rounding error of hubs
constexpr int64_t tile_rows = 32;         // rows whose product stays in the first-level cache for what follows

// Channels [c, c + L * V) of rows of P x, all of them in registers while a row's nonzeros go by.
template <int L, int V, class T, class I>
inline void gather(const Csr<T, I>& graph, Rows rows, const T* x, int64_t x_stride, T* y, int64_t y_stride) {
  const int64_t last = graph.indptr[graph.rows] - 1;
  for (int64_t i = rows.begin; i < rows.end; ++i, y += y_stride) {
    int64_t e = graph.indptr[i];
    const int64_t row_end = graph.indptr[i + 1];
    bool first = true;
    do {
      const int64_t end = row_end - e > longest_sum ? e + longest_sum : row_end;
      Lanes<T, L> sum[V] = {};
      for (; e < end; ++e) {
        const int64_t ahead = e + prefetch_ahead < last ? e + prefetch_ahead : last;
        const T* coming = x + static_cast<int64_t>(graph.indices[ahead]) * x_stride;
        for (int byte = 0; byte < int(L * V * sizeof(T)); byte += 64)
          __builtin_prefetch(reinterpret_cast<const char*>(coming) + byte);
        const T* row = x + static_cast<int64_t>(graph.indices[e]) * x_stride;
        const T weight = graph.values[e];
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) sum[v] += weight * load<L>(row + v * L);
      }
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) store(y + v * L, first ? sum[v] : load<L>(y + v * L) + sum[v]);
      first = false;
    } while (e < row_end);
  }
}

// Rows of P x into y, whose first row stands for rows.begin.
template <class T, class I>
inline void gather_rows(const Csr<T, I>& graph, int width, Rows rows, const T* x, T* y, int64_t y_stride) {
  constexpr int lanes = POLYBASIS_BYTES / sizeof(T);
  constexpr int most = widest<T> / lanes;
  int c = 0;
  auto take = [&]<int L, int V>(Width<L>, Width<V>) {
    for (; c + L * V <= width; c += L * V) gather<L, V>(graph, rows, x + c, width, y + c, y_stride);
  };
  // Plain x86 has too few registers for a whole row.
  constexpr int fitting = most < 8 ? most : 8;
  if constexpr (fitting >= 8) take(Width<lanes>{}, Width<8>{});
  if constexpr (fitting >= 4) take(Width<lanes>{}, Width<4>{});
  take(Width<lanes>{}, Width<2>{});
  take(Width<lanes>{}, Width<1>{});
  if constexpr (lanes > 8) take(Width<8>{}, Width<1>{});
  if constexpr (lanes > 4) take(Width<4>{}, Width<1>{});
  if constexpr (lanes > 2) take(Width<2>{}, Width<1>{});
  take(Width<1>{}, Width<1>{});
}

// Calls f(rows, y, y_stride) for every tile of rows with its product P x in y: a place in `out`, or a scratch if null.
template <class T, class I, class F>
inline void over_products(const Csr<T, I>& graph, int width, Rows rows, const T* x, T* out, F&& f) {
  alignas(64) T scratch[tile_rows * widest<T>];
  for (int64_t begin = rows.begin; begin < rows.end; begin += tile_rows) {
    const Rows tile{begin, begin + tile_rows < rows.end ? begin + tile_rows : rows.end};
    T* y = out ? out + begin * width : scratch;
    const int64_t y_stride = out ? width : widest<T>;
    gather_rows(graph, width, tile, x, y, y_stride);
    f(tile, y, y_stride);
  }
}

// ---- passes with a product ----------------------------------------------------------------------------------------

template <class T, class I>
void product(const Csr<T, I>& graph, int width, Rows rows, const T* x, T* y) {
  gather_rows(graph, width, rows, x, y + rows.begin * width, width);
}

template <class T, class I>
void lanczos_product(const Csr<T, I>& graph, int width, Rows rows, const T* u, const double* scale, const T* v_prev,
                     const double* beta, T* w, double* sums) {
  over_products(graph, width, rows, u, w, [&](Rows tile, T* y, int64_t y_stride) {
    over_channels(width, [&]<int L>(Width<L>, int c) {
      const auto s = load<L>(scale + c);
      const auto b = load<L>(beta + c);
      Lanes<double, L> sum{};
      T* out = y + c;
      int64_t at = tile.begin * width + c;
      for (int64_t i = tile.begin; i < tile.end; ++i, at += width, out += y_stride) {
        auto exact = s * widened<L, T>(load<L>(out));
        if (v_prev) exact -= b * widened<L, T>(load<L>(v_prev + at));
        const auto value = narrowed<T, L>(exact);
        store(out, value);
        sum += widened<L, T>(value) * (s * widened<L, T>(load<L>(u + at)));
      }
      add(sums + c, sum);
    });
  });
}

template <class T, class I>
void recurrence(const Csr<T, I>& graph, int width, Rows rows, const RecurrenceStep<T>& step) {
  over_products(graph, width, rows, step.h, static_cast<T*>(nullptr), [&](Rows tile, T* y, int64_t y_stride) {
    over_channels(width, [&]<int L>(Width<L>, int channel) {
      const auto a = load<L>(step.a + channel), b = load<L>(step.b + channel), c = load<L>(step.c + channel);
      const auto alpha = load<L>(step.alpha + channel);
      const T* out = y + channel;
      int64_t at = tile.begin * width + channel;
      for (int64_t i = tile.begin; i < tile.end; ++i, at += width, out += y_stride) {
        auto value = a * load<L>(out) + b * load<L>(step.h + at);
        if (step.h_prev) value += c * load<L>(step.h_prev + at);
        store(step.h_next + at, value);
        if (step.z) store(step.z + at, load<L>(step.z + at) + alpha * value);
      }
    });
  });
}

template <class T, class I>
void recurrence_adjoint(const Csr<T, I>& graph, int width, Rows rows, const RecurrenceAdjointStep<T>& step,
                        double* sums) {
    over_products(graph, width, rows, step.lambda, static_cast<T*>(nullptr), [&](Rows tile, T* y, int64_t y_stride) {
    over_channels(width, [&]<int L>(Width<L>, int channel) {
      const auto a = load<L>(step.a + channel), b = load<L>(step.b + channel), c = load<L>(step.c + channel);
      const auto alpha = load<L>(step.alpha + channel);
      Lanes<double, L> of_a{}, of_b{}, of_c{}, of_alpha{};
      const T* out = y + channel;
      int64_t at = tile.begin * width + channel;
      for (int64_t i = tile.begin; i < tile.end; ++i, at += width, out += y_stride) {
        const auto p_lambda = load<L>(out), lambda = load<L>(step.lambda + at), z_bar = load<L>(step.z_bar + at);
        const auto h = widened<L, T>(load<L>(step.h + at));
        of_a += widened<L, T>(p_lambda) * h;
        of_b += widened<L, T>(lambda) * h;
        if (step.h_prev) of_c += widened<L, T>(lambda) * widened<L, T>(load<L>(step.h_prev + at));
        of_alpha += widened<L, T>(z_bar) * h;
        store(step.lambda_next + at,
              alpha * z_bar + a * p_lambda + b * lambda + c * load<L>(step.lambda_next + at));
      }
      add(sums + channel, of_a), add(sums + width + channel, of_b);
      add(sums + 2 * width + channel, of_c), add(sums + 3 * width + channel, of_alpha);
    });
  });
}

template <class T, class I>
void optimal_adjoint(const Csr<T, I>& graph, int width, Rows rows, const OptimalAdjointStep<T>& step, double* sums) {
    const auto& weight = step.weight;
  auto finish = [&](Rows tile, const T* y, int64_t y_stride) {
    over_channels(width, [&]<int L>(Width<L>, int c) {
      const auto z = load<L>(weight.z + c), t_prev = load<L>(weight.t_prev + c), next = load<L>(weight.next + c);
      const auto here = load<L>(weight.here + c), prev = load<L>(weight.prev + c), own = load<L>(weight.own + c);
      Lanes<double, L> with_v{}, with_prev{}, t_with_prev{}, of_alpha{};
      const T* out = y + c;
      int64_t at = tile.begin * width + c;
      for (int64_t i = tile.begin; i < tile.end; ++i, at += width, out += y_stride) {
        const auto z_bar = load<L>(step.z_bar + at), v = load<L>(step.v + at);
        Lanes<T, L> v_prev{};
        auto lambda = z * z_bar;
        if (step.v_prev) v_prev = load<L>(step.v_prev + at);
        if (step.t) {
          const auto t = load<L>(step.t + at);
          lambda += load<L>(out) + own * t + t_prev * load<L>(step.t_prev + at);
          lambda += next * load<L>(step.v_next + at) + here * v + prev * v_prev;
          t_with_prev += widened<L, T>(t) * widened<L, T>(v_prev);
        }
        store(step.t_prev + at, lambda);
        const auto wide = widened<L, T>(lambda), wide_v = widened<L, T>(v);
        with_v += wide * wide_v;
        with_prev += wide * widened<L, T>(v_prev);
        of_alpha += widened<L, T>(z_bar) * wide_v;
      }
      add(sums + c, with_v), add(sums + width + c, with_prev);
      add(sums + 2 * width + c, t_with_prev), add(sums + 3 * width + c, of_alpha);
    });
  };
  if (step.t)
    over_products(graph, width, rows, step.t, static_cast<T*>(nullptr), finish);
  else
    finish(rows, nullptr, 0);
}

// ---- passes without a product -------------------------------------------------------------------------------------

// Calls f(Width<L>, c, at) for every vector of L channels and every row, at being the vector's place; rows go by in tiles
// so that what f gathers per channel (first, last) is touched once a tile.
template <class Enter, class F, class Leave>
inline void over_rows(int width, Rows rows, Enter&& enter, F&& f, Leave&& leave) {
  for (int64_t begin = rows.begin; begin < rows.end; begin += tile_rows) {
    const int64_t end = begin + tile_rows < rows.end ? begin + tile_rows : rows.end;
    over_channels(width, [&]<int L>(Width<L> lanes, int c) {
      auto state = enter(lanes, c);
      int64_t at = begin * width + c;
      for (int64_t i = begin; i < end; ++i, at += width) f(lanes, c, at, state);
      leave(lanes, c, state);
    });
  }
}

// Sums start from zero in every tile: long running sums would lose digits.
constexpr auto zeros = []<int L>(Width<L>, int) { return Lanes<double, L>{}; };

template <class T>
void peak(int width, Rows rows, const T* x, double* peaks) {
  over_rows(
      width, rows, [&]<int L>(Width<L>, int c) { return load<L>(peaks + c); },
      [&]<int L>(Width<L>, int, int64_t at, auto& most) {
        auto value = widened<L, T>(load<L>(x + at));
        const auto zero = value * 0;  // 0 for finite values, NaN for the others
        if constexpr (L == 1) {
          value = zero == zero ? (value < 0 ? -value : value) : __builtin_inf();
          most = value > most ? value : most;
        } else {
          value = value < 0 ? -value : value;
          value = zero == zero ? value : __builtin_inf() - Lanes<double, L>{};
          most = value > most ? value : most;
        }
      },
      [&]<int L>(Width<L>, int c, auto& most) { store(peaks + c, most); });
}

template <class T>
void rescale(int width, Rows rows, const T* x, const double* scale, T* y, double* sums) {
  over_rows(
      width, rows, zeros,
      [&]<int L>(Width<L>, int c, int64_t at, auto& sum) {
        const auto value = narrowed<T, L>(widened<L, T>(load<L>(x + at)) * load<L>(scale + c));
        store(y + at, value);
        sum += widened<L, T>(value) * widened<L, T>(value);
      },
      [&]<int L>(Width<L>, int c, auto& sum) { add(sums + c, sum); });
}

template <class T>
void subtract(int width, Rows rows, T* u, const double* scale, const double* gamma, T* w, double* sums) {
  over_rows(
      width, rows, zeros,
      [&]<int L>(Width<L>, int c, int64_t at, auto& sum) {
        const auto v = narrowed<T, L>(load<L>(scale + c) * widened<L, T>(load<L>(u + at)));
        const auto value = narrowed<T, L>(widened<L, T>(load<L>(w + at)) - load<L>(gamma + c) * widened<L, T>(v));
        store(u + at, v);
        store(w + at, value);
        sum += widened<L, T>(value) * widened<L, T>(value);
      },
      [&]<int L>(Width<L>, int c, auto& sum) { add(sums + c, sum); });
}

template <class T>
void dots(int width, Rows rows, const T* w, const T* v, int64_t plane, int count, double* sums) {
  for (int64_t begin = rows.begin; begin < rows.end; begin += tile_rows) {
    const Rows tile{begin, begin + tile_rows < rows.end ? begin + tile_rows : rows.end};
    for (int j = 0; j < count; ++j)
      over_rows(
          width, tile, zeros,
          [&]<int L>(Width<L>, int, int64_t at, auto& sum) {
            sum += widened<L, T>(load<L>(w + at)) * widened<L, T>(load<L>(v + j * plane + at));
          },
          [&]<int L>(Width<L>, int c, auto& sum) {
            add(sums + j * width + c, sum);
          });
  }
}

// sum_j weights_j v_j at one place.
template <int L, class T>
inline Lanes<T, L> combined(const T* v, int64_t plane, int count, const T* weights, int width) {
  Lanes<T, L> sum{};
  for (int j = 0; j < count; ++j) sum += load<L>(weights + j * width) * load<L>(v + j * plane);
  return sum;
}

template <class T>
void remove(int width, Rows rows, T* w, const T* v, int64_t plane, int count, const T* weights, double* sums) {
  over_rows(
      width, rows, zeros,
      [&]<int L>(Width<L>, int c, int64_t at, auto& sum) {
        const auto value = load<L>(w + at) - combined<L>(v + at, plane, count, weights + c, width);
        store(w + at, value);
        sum += widened<L, T>(value) * widened<L, T>(value);
      },
      [&]<int L>(Width<L>, int c, auto& sum) { add(sums + c, sum); });
}

constexpr auto nothing = []<int L>(Width<L>, int) { return 0; };
constexpr auto done = []<int L>(Width<L>, int, int) {};

template <class T>
void combine(int width, Rows rows, const T* v, int64_t plane, int count, const T* weights, T* z) {
  over_rows(
      width, rows, nothing,
      [&]<int L>(Width<L>, int c, int64_t at, int) {
        store(z + at, combined<L>(v + at, plane, count, weights + c, width));
      },
      done);
}

template <class T>
void mix(int width, Rows rows, const T* p, const T* x, const T* q, const T* u, const T* r, const T* v, T* y) {
  over_rows(
      width, rows, nothing,
      [&]<int L>(Width<L>, int c, int64_t at, int) {
        auto value = load<L>(p + c) * load<L>(x + at);
        if (u) value += load<L>(q + c) * load<L>(u + at);
        if (v) value += load<L>(r + c) * load<L>(v + at);
        store(y + at, value);
      },
      done);
}

}  // namespace

template <class T, class I>
const Passes<T, I>& table() {
  static constexpr Passes<T, I> entries{product<T, I>, lanczos_product<T, I>, recurrence<T, I>, recurrence_adjoint<T, I>,
                                        optimal_adjoint<T, I>};
  return entries;
}

template <class T>
const RowPasses<T>& row_table() {
  static constexpr RowPasses<T> entries{peak<T>, rescale<T>, subtract<T>, dots<T>, remove<T>, combine<T>, mix<T>};
  return entries;
}

template const Passes<float, int32_t>& table();
template const Passes<float, int64_t>& table();
template const Passes<double, int32_t>& table();
template const Passes<double, int64_t>& table();
template const RowPasses<float>& row_table();
template const RowPasses<double>& row_table();

}  // namespace polybasis::POLYBASIS_ISA
