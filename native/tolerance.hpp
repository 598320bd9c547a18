// Thresholds below which numbers count as rounding noise.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace polybasis {

template <class T>
struct Tolerance {
  static constexpr double eps = std::numeric_limits<T>::epsilon();
  static constexpr bool single = sizeof(T) == 4;

  // Where a basis ends; src/polybasis/krylov/rank.py has the same constants. Let beta be the length of the residual after v_k.
  //
  // Continuing: dividing by a small residual magnifies earlier errors. The error in the residual is modelled as `noise` times the
  // product of max(1, small / beta_j) over all steps so far. If it exceeds beta, v_{k+1} is noise. The model overestimates the
  // error once most of the spectrum has converged, so it is capped at `most` times the largest residual (at least `noise`).
  //
  // Stopping: T_m(P) x changes by at most Lanczos::stopping_error() times |x| for every m <= K. This is a worst case; observed
  // errors are at least ten times smaller.
  //
  // The basis ends if v_{k+1} would be noise and the bound is at most `harmless`, or if beta is at the level of the rounding
  // errors of P v_k.
  static constexpr double rounding = (single ? 8 : 48) * eps;
  static constexpr double noise = 48 * eps;
  static constexpr double small = 0.8;
  static inline const double most = 2 * std::cbrt(eps);
  static constexpr double harmless = single ? 1e-3 : 1e-9;

  // What one step adds to <v_{k+1}, v_j>. Rounding errors are independent and average out over the nodes; the constant
  // leaves room for signals so regular (steps, stripes) that they do not.
  static double drift_per_step(int64_t nodes) {
    const double n = static_cast<double>(nodes);
    return (0.04 + 0.5 / std::sqrt(n) + 6 / n) * eps;
  }
  // What a projection leaves of <v_{k+1}, v_j>: its inner products are sums of type T over a few rows each.
  static constexpr double after_projection = 0.5 * eps;
  // Reorthogonalise when the estimated drift exceeds this: about 4e-6 and 7e-15.
  static constexpr double drift = 16 * eps;
  // The same for the gradient, relative to its length.
  static constexpr double adjoint_drift = 128 * eps;
  // Reorthogonalise in any case when the residual is this share of P v_k: it has lost digits to cancellation.
  static constexpr double cancelled = 0.1;
};

}  // namespace polybasis
