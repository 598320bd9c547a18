// The algorithms on top of the passes. Arrays are row-major and contiguous: signals N x d, per-channel numbers (K+1) x d;
// a basis of (K+1) x N x d numbers is kept panel after panel (see panels.hpp).
#pragma once

#include <cstdint>

#include "passes.hpp"

namespace polybasis {

// y = x / (1 - p) at some of n places and 0 at the others, each with probability p, p rounded to 1 / 65536. Which ones is
// a function of the seed, the place and p alone.
template <class T>
void dropout(int threads, int64_t n, const T* x, double p, uint64_t seed, int64_t offset, T* y);

// y = P x; the matrix need not be square or symmetric here
template <class T, class I>
void product(const Csr<T, I>&, Isa, int threads, int d, const T* x, T* y);

// The largest |x| of each channel, infinity where there is a NaN or an infinity.
template <class T, class I>
void peak(const Csr<T, I>&, Isa, int threads, int d, const T* x, double* peaks);

// The optimal basis V of (P, x) with gamma, sqrt_beta and the rank of each channel; gamma[K] costs a product of its own
// and is computed where `last_gamma` asks for it. peaks: see peak.
template <class T, class I>
void optimal_basis(const Csr<T, I>&, Isa, int threads, int d, int K, const T* x, const double* peaks, T* V,
                      double* gamma, double* sqrt_beta, int64_t* rank, bool last_gamma);

// z = sum_k alpha_k v_k
template <class T, class I>
void combine(const Csr<T, I>&, Isa, int threads, int d, int K, const T* V, const T* alpha, T* z);

// The gradient of z = sum_k alpha_k v_k to x (written to x_bar) and alpha; work: 2 x N x d, overwritten.
template <class T, class I>
void optimal_adjoint(const Csr<T, I>&, Isa, int threads, int d, int K, const T* V, const double* gamma,
                     const double* sqrt_beta, const T* alpha, const T* z_bar, T* x_bar, T* alpha_bar, T* work);

// Coefficients of h_0 = s x, h_{k+1} = (a_k P + b_k) h_k + c_k h_{k-1}: a, b, c are K x d, s has d entries.
template <class T>
struct Recurrence {
  const T *s, *a, *b, *c;
};

// z = sum_k alpha_k h_k. `planes` N x d arrays from h on keep the h_k in turn: K + 1 of them keep all, two are enough.
template <class T, class I>
void recurrence(const Csr<T, I>&, Isa, int threads, int d, int K, const Recurrence<T>&, const T* alpha, const T* x,
                T* h, int planes, T* z);

// Gradients to x, alpha, s, a, b, c, all of the shapes above (alpha_bar: (K+1) x d); work: N x d, overwritten.
template <class T>
struct RecurrenceGradient {
  T *x, *alpha, *s, *a, *b, *c;
};

template <class T, class I>
void recurrence_adjoint(const Csr<T, I>&, Isa, int threads, int d, int K, const Recurrence<T>&, const T* alpha,
                        const T* h, const T* z_bar, const RecurrenceGradient<T>&, T* work);

}  // namespace polybasis
