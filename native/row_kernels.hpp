// Row kernels: the loops over N x d arrays that the algorithms are composed of, as tables of functions, one table for
// each instruction set.
//
// A kernel works on rows [begin, end) of row-major arrays with `width` channels, at most `max_width<T>` (`product`,
// `peak`, `apply_deltas` and `edge_dots` take any width). Channels are independent, so a wider signal is split into
// panels (panels.hpp). Per-channel arrays (`scale`, `gamma`, ..) have `width` entries. Inner products are accumulated
// in double and added to the caller's `sums`, `width` numbers for each product; `basis_dots` is the exception: it
// accumulates each tile in T.
//
// Arrays may alias only where a comment says so.
#pragma once

#include <cassert>
#include <cstdint>

namespace polybasis {

// Channels that fit into the registers of the narrowest fast instruction set.
template <class T>
constexpr int max_width = 256 / sizeof(T);

template <class T, class I>
struct RowCompression;

// A sparse matrix in compressed rows: the symmetric propagation matrix P, with its row compression if there is one, or
// a factor of that compression.
template <class T, class I>
struct Csr {
  const I* indptr;
  const I* indices;
  const T* values;  // null: all 1
  int64_t rows;
  const RowCompression<T, I>* compression = nullptr;
};

// The product of a matrix and x, evaluated row by row inside the kernels. With row_map, row i of the product is row
// row_map[i] of x.
template <class T, class I>
struct Product {
  Csr<T, I> matrix;
  const T* x;
  const I* row_map = nullptr;
};

struct Rows {
  int64_t begin, end;
};

// Row `row` of a product is its row in the stored matrix plus `factor` times row `parent`, where parent < row.
template <class T>
struct RowDelta {
  int64_t row, parent;
  T factor;
};

// Rows of a tile: their product stays in the first-level cache, and each of their inner products is one partial sum.
constexpr int64_t tile_rows = 32;

// The rows of an unweighted graph: P = D^-1/2 A D^-1/2. indptr gives the degrees; there are no values.
struct UnweightedRows {
  const int64_t* indptr;
  int64_t rows;
};

// The nonzeros of consecutive rows: the first row has indices[0] to indices[indptr[1] - indptr[0] - 1], and so on. A
// kernel may prefetch within `count` indices. They may come from an unchecked file, so the kernels check every index.
template <class I>
struct UnweightedChunk {
  const int64_t* indptr;
  const I* indices;
  int64_t count;
};

// A nonzero of a chunk, for nonzeros that are not sorted by row.
template <class I>
struct Nonzero {
  I column;
  int32_t row;  // within the chunk
};

// Per-channel numbers in twice the precision of T, each as the unevaluated sum of two numbers of type T.
template <class T>
struct DoubleWord {
  T high[max_width<T>], low[max_width<T>];

  static DoubleWord of(const double* numbers, int width) {
    assert(width <= max_width<T>);
    DoubleWord words{};
    for (int c = 0; c < width; ++c) {
      words.high[c] = static_cast<T>(numbers[c]);
      words.low[c] = static_cast<T>(numbers[c] - words.high[c]);
    }
    return words;
  }
};

// h' = a P h + b h + c h_prev and z += alpha h'. h_prev may be null, or h_next itself.
template <class T>
struct RecurrenceStep {
  const T *a, *b, *c, *alpha;
  const T *h, *h_prev;
  T *h_next, *z;
};

// lambda' = alpha z_bar + a P lambda + b lambda + c lambda_next, which overwrites lambda_next. Sums for the gradients
// of the coefficients, in this order: <P lambda, h>, <lambda, h>, <lambda, h_prev>, <z_bar, h>. h_prev may be null.
template <class T>
struct RecurrenceAdjointStep {
  const T *a, *b, *c, *alpha;
  const T *z_bar, *lambda;
  T* lambda_next;
  const T *h, *h_prev;
};

// r' = weight.z r_z + weight.product P r + weight.r r + weight.r_prev r_prev + weight.v_last v_last
// + weight.v_second_last v_second_last, with the sums <r', v_last> and |r'|^2. r_prev may be null, or r_next itself.
template <class T>
struct OptimalAdjointStep {
  struct {
    const T *z, *product, *r, *r_prev, *v_last, *v_second_last;
  } weight;
  const T *r_z, *r, *r_prev, *v_last, *v_second_last;
  T* r_next;
};

// Kernels fused with a sparse product, and the product sampled at the nonzeros.
template <class T, class I>
struct ProductKernels {
  // y = P x
  void (*product)(const Product<T, I>& Px, int width, Rows, T* y);
  // w = scale (P u) - beta v_prev and sums <w, u>. v_prev null: without that term; w null: only the sums.
  void (*lanczos_product)(const Product<T, I>& Pu, int width, Rows, const T* u, const DoubleWord<T>& scale,
                          const T* v_prev, const DoubleWord<T>& beta, T* w, double* sums);
  void (*recurrence)(const Product<T, I>& Ph, int width, Rows, const RecurrenceStep<T>&);
  void (*recurrence_adjoint)(const Product<T, I>& Plambda, int width, Rows, const RecurrenceAdjointStep<T>&,
                             double* sums);
  void (*optimal_adjoint)(const Product<T, I>& Pr, int width, Rows, const OptimalAdjointStep<T>&, double* sums);
  // out_e += <u_i, v_j> for the nonzeros e = (i, j) of the rows, accumulated in double.
  void (*edge_dots)(const Csr<T, I>& matrix, int width, Rows, const T* u, const T* v, double* out);
};

// Kernels without a sparse product.
template <class T>
struct VectorKernels {
  // peaks = max(peaks, |x|) in each channel; NaN counts as infinity.
  void (*peak)(int width, Rows, const T* x, double* peaks);
  // y = scale x, multiplied in double and rounded once; sums |y|^2. y may be x.
  void (*rescale)(int width, Rows, const T* x, const double* scale, T* y, double* sums);
  // u = scale u; w = w - gamma u; sums |w|^2.
  void (*scale_and_subtract)(int width, Rows, T* u, const DoubleWord<T>& scale, const DoubleWord<T>& gamma, T* w,
                             double* sums);
  // sums <a, b>.
  void (*inner_product)(int width, Rows, const T* a, const T* b, double* sums);
  // sums <w, v_j> for j < count, then <u, v_j>; v_j starts `plane` elements after v_{j-1}. u may be null.
  void (*basis_dots)(int width, Rows, const T* w, const T* u, const T* v, int64_t plane, int count, double* sums);
  // w = from - sum_j weights_j v_j and sums |w|^2, then u = u - sum_j weights_{count+j} v_j. weights: rows of `width`.
  // w may be from; u may be null, or one of the v_j.
  void (*project_out)(int width, Rows, const T* from, T* w, T* u, const T* v, int64_t plane, int count,
                      const T* weights, double* sums);
  // z = scale (x + sum_j weights_j v_j). scale and x may be null; z may be x.
  void (*combine)(int width, Rows, const T* scale, const T* x, const T* v, int64_t plane, int count, const T* weights,
                  T* z);
  // y_row += factor y_parent for all deltas in order, on `width` of `stride` channels.
  void (*apply_deltas)(int width, int64_t stride, const RowDelta<T>* deltas, int64_t count, T* y);
  // y = p x + q u + r v. u and v may be null; y may be x.
  void (*linear_combination)(int width, Rows, const T* p, const T* x, const T* q, const T* u, const T* r, const T* v,
                             T* y);
};

// Kernels on an unweighted graph. A vector v is stored as u = D^-1/2 v (u = v at isolated nodes), so that a product
// reads nothing but u at the neighbours. Inner products are those of the v.
template <class I>
struct UnweightedKernels {
  // y = A u on `rows` rows of a chunk; u has `nodes` rows. Returns whether all indices are in range.
  bool (*gather)(const UnweightedChunk<I>&, int64_t rows, int64_t nodes, int width, const float* u, float* y);
  // y += A u with `count` nonzeros of a chunk; fast where the nonzeros of a row are adjacent. Rows are not checked.
  // Returns whether all columns are in range.
  bool (*add)(const Nonzero<I>*, int64_t count, int64_t nodes, int width, const float* u, float* y);
  // w = scale D^-1 y - beta w and sums <w, u>; the first row of y belongs to rows.begin.
  void (*finish)(const UnweightedRows&, int width, Rows, const float* y, const float* u, const DoubleWord<float>& scale,
                 const DoubleWord<float>& beta, float* w, double* sums);
  // u = scale u; w = w - gamma u; sums |w|^2.
  void (*scale_and_subtract)(const UnweightedRows&, int width, Rows, float* u, const DoubleWord<float>& scale,
                             const DoubleWord<float>& gamma, float* w, double* sums);
};

enum class Isa { plain, avx2, avx512 };

// The best instruction set of this processor.
Isa best_isa();
const char* name(Isa);

// The tables for an instruction set.
template <class T, class I>
const ProductKernels<T, I>& product_kernels(Isa);
template <class T>
const VectorKernels<T>& vector_kernels(Isa);
template <class I>
const UnweightedKernels<I>& unweighted_kernels(Isa);

}  // namespace polybasis
