// The algorithms built from the row kernels. Arrays are row-major and contiguous: signals N x d, per-channel numbers
// (K+1) x d. A basis of (K+1) x N x d numbers is in panel layout (panels.hpp). Outputs must not alias inputs.
#pragma once

#include <cstdint>

#include "row_kernels.hpp"

namespace polybasis {

// Dropout on n entries: y = 0 with probability p, else x / (1 - p), where p is rounded to a multiple of 1 / 65536.
// Entry i is dropped as a function of the seed, offset + i and p only.
template <class T>
void dropout(int threads, int64_t n, const T* x, double p, uint64_t seed, int64_t offset, T* y);

// y = P x; the matrix may be rectangular.
template <class T, class I>
void product(const Csr<T, I>&, Isa, int threads, int d, const T* x, T* y);

// The largest |x| of each channel; infinity if the channel has a NaN or an infinity.
template <class T, class I>
void peak(const Csr<T, I>&, Isa, int threads, int d, const T* x, double* peaks);

// The optimal basis V of (P, x) with gamma, sqrt_beta and the rank of each channel. gamma[K] costs another product; it
// is 0 unless `last_gamma`. peaks: see peak.
template <class T, class I>
void optimal_basis(const Csr<T, I>&, Isa, int threads, int d, int K, const T* x, const double* peaks, T* V,
                   double* gamma, double* sqrt_beta, int64_t* rank, bool last_gamma);

// z = sum_k alpha_k v_k
template <class T, class I>
void combine(const Csr<T, I>&, Isa, int threads, int d, int K, const T* V, const T* alpha, T* z);

// Converts a basis of K + 1 vectors from panel layout to row-major arrays, N x d each, that start `plane` elements
// apart.
template <class T>
void standard_layout(int threads, int64_t rows, int d, int K, const T* V, T* out, int64_t plane);

// The gradients of z = sum_k alpha_k v_k with respect to x and alpha. signal: alpha is a multiple of |x|, whose
// gradient is included. work: scratch, 2 x N x d.
template <class T, class I>
void optimal_adjoint(const Csr<T, I>&, Isa, int threads, int d, int K, const T* V, const double* gamma,
                     const double* sqrt_beta, const T* alpha, const T* z_bar, bool signal, T* x_bar, T* alpha_bar,
                     T* work);

// Coefficients of h_0 = s x, h_{k+1} = (a_k P + b_k) h_k + c_k h_{k-1}. a, b, c: K x d; s: d.
template <class T>
struct Recurrence {
  const T *s, *a, *b, *c;
};

// z = sum_k alpha_k h_k. h is a ring buffer of `planes` N x d arrays: K + 1 store all h_k, two are the minimum.
template <class T, class I>
void recurrence(const Csr<T, I>&, Isa, int threads, int d, int K, const Recurrence<T>&, const T* alpha, const T* x,
                T* h, int planes, T* z);

// Gradients with respect to x, alpha, s, a, b, c, in their shapes. All but the first are sums over the nodes, which are
// added to the arrays. work: scratch, N x d.
template <class T>
struct RecurrenceGradient {
  T* x;
  double *alpha, *s, *a, *b, *c;
};

template <class T, class I>
void recurrence_adjoint(const Csr<T, I>&, Isa, int threads, int d, int K, const Recurrence<T>&, const T* alpha,
                        const T* h, const T* z_bar, const RecurrenceGradient<T>&, T* work);

// out_e += <u_i, v_j> for every nonzero e = (i, j) of the matrix, in the order of its rows, where u_i and v_j are rows
// of d channels.
template <class T, class I>
void edge_dots(const Csr<T, I>&, Isa, int threads, int d, const T* u, const T* v, double* out);

}  // namespace polybasis
