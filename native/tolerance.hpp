// Thresholds below which numbers count as rounding noise.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "rank_constants.hpp"  // generated from src/polybasis/krylov/rank_tolerance.toml

namespace polybasis {

template <class T>
struct Tolerance {
  static constexpr double eps = std::numeric_limits<T>::epsilon();
  static constexpr bool single = sizeof(T) == 4;

  // The rank rule: where a basis ends. Let beta be the norm of the residual after v_k.
  //
  // Continuing: dividing by a small residual amplifies earlier errors. The error in the residual is modelled as
  // `noise_level` times the product of max(1, amplification_threshold / beta_j) over all steps so far. If it exceeds
  // beta, v_{k+1} is noise. The model overestimates the error once most of the spectrum has converged, so it is capped
  // at `noise_cap` times the largest residual (at least `noise_level`).
  //
  // Stopping: T_m(P) x changes by at most Lanczos::stopping_error() times |x| for every m <= K. This is a worst case;
  // observed errors are at least ten times smaller.
  //
  // The basis ends if v_{k+1} would be noise and the bound is at most `max_stopping_error`, or if beta is at
  // `rounding_level`, that of the rounding errors of P v_k.
  static constexpr double rounding_level =
      (single ? rank_constants::float32_rounding_level : rank_constants::float64_rounding_level) * eps;
  static constexpr double noise_level =
      (single ? rank_constants::float32_noise_level : rank_constants::float64_noise_level) * eps;
  static constexpr double amplification_threshold =
      single ? rank_constants::float32_amplification_threshold : rank_constants::float64_amplification_threshold;
  static inline const double noise_cap =
      (single ? rank_constants::float32_noise_cap : rank_constants::float64_noise_cap) * std::cbrt(eps);
  static constexpr double max_stopping_error =
      single ? rank_constants::float32_max_stopping_error : rank_constants::float64_max_stopping_error;

  // Omega is the estimated loss of orthogonality |<v_{k+1}, v_j>|, see OmegaRecurrence.
  //
  // What the rounding errors of one step add to omega. They are independent and average out over the nodes; the
  // constant covers signals so regular (steps, stripes) that they do not.
  static double omega_per_step(int64_t nodes) {
    const double n = static_cast<double>(nodes);
    return (0.04 + 0.5 / std::sqrt(n) + 6 / n) * eps;
  }
  // Omega after a reorthogonalisation, whose inner products are accumulated in T over the rows of a tile.
  static constexpr double omega_after_projection = 0.5 * eps;
  // Reorthogonalise when omega exceeds this, about 2e-6 in float32 and 4e-15 in float64.
  static constexpr double max_omega = 16 * eps;
  // The same for the adjoint vectors, relative to their norm.
  static constexpr double max_adjoint_omega = 128 * eps;
  // Reorthogonalise whenever the residual is shorter than this fraction of |P v_k|: it has lost digits to cancellation.
  static constexpr double cancellation = 0.1;
};

}  // namespace polybasis
