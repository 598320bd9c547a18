// The passes over N x d arrays that all algorithms here are made of, as function tables, one for each instruction set.
//
// A pass works on rows [begin, end) of row-major arrays with `width` channels, at most `widest<T>`: channels never mix, so
// a wider signal is several problems, and narrow rows keep each of them in the cache. Arrays of per-channel numbers
// (`scale`, `gamma`, ..) have `width` entries. Inner products are accumulated in double, except in `dots`, which sums each tile
// in T, and added to the caller's `sums`, `width` numbers for each product.
#pragma once

#include <cstdint>

namespace polybasis {

template <class T>
constexpr int widest = 256 / sizeof(T);  // what the registers of the narrowest fast instruction set hold

template <class T, class I>
struct Repeats;

// A sparse matrix in compressed rows: the propagation matrix P, symmetric, with what repeats among its rows, or a factor of
// it.
template <class T, class I>
struct Csr {
  const I* indptr;
  const I* indices;
  const T* values;  // null: all 1
  int64_t rows;
  const Repeats<T, I>* repeats = nullptr;
};

// A matrix times x, multiplied out row by row where the rows are needed. With row_of, row i of the product is row row_of[i] of x.
template <class T, class I>
struct Product {
  Csr<T, I> matrix;
  const T* x;
  const I* row_of = nullptr;
};

struct Rows {
  int64_t begin, end;
};

// Row `row` of a product has `share` times the earlier row `parent` of it beside what the matrix has for it.
template <class T>
struct Link {
  int64_t row, parent;
  T share;
};

constexpr int64_t tile_rows = 32;  // rows whose product stays in the first-level cache for what follows, and whose inner
                                   // products are one sum

// The rows of an unweighted graph: P = D^-1/2 A D^-1/2 with the degrees of A in indptr, and no values.
struct BareRows {
  const int64_t* indptr;
  int64_t rows;
};

// The nonzeros of some of these rows: those of the first are indices[0] to indices[indptr[1] - indptr[0] - 1], and so on;
// `count` may be looked at ahead. They may come from a file that nobody has looked at, so each is checked when it is used.
template <class I>
struct BarePart {
  const int64_t* indptr;
  const I* indices;
  int64_t count;
};

// One nonzero of such a part, which need not be in the order of the rows any more.
template <class I>
struct Nonzero {
  I column;
  int32_t row;  // of the part
};

// Numbers for each channel in twice the digits of T, as the sum of two.
template <class T>
struct Split {
  T high[widest<T>], low[widest<T>];

  static Split of(const double* numbers, int width) {
    Split parts{};
    for (int c = 0; c < width; ++c) {
      parts.high[c] = static_cast<T>(numbers[c]);
      parts.low[c] = static_cast<T>(numbers[c] - parts.high[c]);
    }
    return parts;
  }
};

// h' = a P h + b h + c h_prev and z += alpha h' (h_prev may be h' itself, or null).
template <class T>
struct RecurrenceStep {
  const T *a, *b, *c, *alpha;
  const T *h, *h_prev;
  T *h_next, *z;
};

// lambda' = alpha z_bar + a P lambda + b lambda + c lambda_next, written over lambda_next. For the coefficients' gradients:
// sums of <P lambda, h>, <lambda, h>, <lambda, h_prev>, <z_bar, h>, in this order.
template <class T>
struct RecurrenceAdjointStep {
  const T *a, *b, *c, *alpha;
  const T *z_bar, *lambda;
  T* lambda_next;
  const T *h, *h_prev;
};

// r' = z r_z + product P r + own r + before r_before + last v_last + last_but_one v_last_but_one, with the sums <r', v_last>
// and |r'|^2. r_before may be null, or r_next itself.
template <class T>
struct OptimalAdjointStep {
  struct {
    const T *z, *product, *own, *before, *last, *last_but_one;
  } weight;
  const T *r_z, *r, *r_before, *v_last, *v_last_but_one;
  T* r_next;
};

template <class T, class I>
struct Passes {
  // y = P x
  void (*product)(const Product<T, I>& Px, int width, Rows, T* y);
  // w = scale (P u) - beta v_prev (null: no such term) and sums <w, u>; w null: only the sums.
  void (*lanczos_product)(const Product<T, I>& Pu, int width, Rows, const T* u, const Split<T>& scale, const T* v_prev,
                          const Split<T>& beta, T* w, double* sums);
  void (*recurrence)(const Product<T, I>& Ph, int width, Rows, const RecurrenceStep<T>&);
  void (*recurrence_adjoint)(const Product<T, I>& Plambda, int width, Rows, const RecurrenceAdjointStep<T>&,
                             double* sums);
  void (*optimal_adjoint)(const Product<T, I>& Pr, int width, Rows, const OptimalAdjointStep<T>&, double* sums);
};

// Passes on vectors u that stand for v = D^1/2 u (isolated nodes: v = u): then P v needs no value of a neighbour but its u.
// Inner products are those of the v.
template <class I>
struct BarePasses {
  // y = A u on the `rows` rows of a part; u has `nodes` rows. Returns whether all indices were in range.
  bool (*gather)(const BarePart<I>&, int64_t rows, int64_t nodes, int width, const float* u, float* y);
  // y += A u with `count` nonzeros of a part, whose rows are trusted; fast where those of a row come one after the other.
  // Returns whether all columns were in range.
  bool (*add)(const Nonzero<I>*, int64_t count, int64_t nodes, int width, const float* u, float* y);
  // w = scale D^-1 y - beta w and sums <w, u>, where the first row of y stands for rows.begin.
  void (*finish)(const BareRows&, int width, Rows, const float* y, const float* u, const Split<float>& scale,
                 const Split<float>& beta, float* w, double* sums);
  // u = scale u; w = w - gamma u; sums |w|^2.
  void (*subtract)(const BareRows&, int width, Rows, float* u, const Split<float>& scale, const Split<float>& gamma,
                   float* w, double* sums);
};

template <class T>
struct RowPasses {
  // The largest |x| of each channel into peaks (kept if larger); NaN and infinity become infinity.
  void (*peak)(int width, Rows, const T* x, double* peaks);
  // y = scale x in double, then rounded, and sums |y|^2.
  void (*rescale)(int width, Rows, const T* x, const double* scale, T* y, double* sums);
  // u = scale u; w = w - gamma u; sums |w|^2.
  void (*subtract)(int width, Rows, T* u, const Split<T>& scale, const Split<T>& gamma, T* w, double* sums);
  // sums <a, b>.
  void (*inner_product)(int width, Rows, const T* a, const T* b, double* sums);
  // sums <w, v_j>, j < count, where v_j starts `plane` elements after v_{j-1}, then <u, v_j>; u may be null.
  void (*dots)(int width, Rows, const T* w, const T* u, const T* v, int64_t plane, int count, double* sums);
  // w = from - sum_j weights_j v_j; sums |w|^2. weights: count rows of `width`. u = u - sum_j .. with the `count` rows of weights
  // that follow; u may be null, or one of the v_j.
  void (*remove)(int width, Rows, const T* from, T* w, T* u, const T* v, int64_t plane, int count, const T* weights,
                 double* sums);
  // z = scale (x + sum_j weights_j v_j); scale and x may be null. z may be x.
  void (*combine)(int width, Rows, const T* scale, const T* x, const T* v, int64_t plane, int count, const T* weights, T* z);
  // y_row += share y_parent for all links in their order, on `width` channels of `stride`.
  void (*follow)(int width, int64_t stride, const Link<T>* links, int64_t count, T* y);
  // y = p x + q u + r v (null vectors: term absent); y may be x.
  void (*mix)(int width, Rows, const T* p, const T* x, const T* q, const T* u, const T* r, const T* v, T* y);
};

enum class Isa { plain, avx2, avx512 };

// The best instruction set of this processor, or the one asked for.
Isa best_isa();
const char* name(Isa);

template <class T, class I>
const Passes<T, I>& passes(Isa);
template <class T>
const RowPasses<T>& row_passes(Isa);
template <class I>
const BarePasses<I>& bare_passes(Isa);

}  // namespace polybasis
