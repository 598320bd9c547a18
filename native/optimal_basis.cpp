// The optimal basis: the Lanczos process on all channels at once, with partial reorthogonalisation and rank detection.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "algorithms.hpp"
#include "channel_loops.hpp"
#include "engine.hpp"
#include "panels.hpp"
#include "tolerance.hpp"

namespace polybasis {
namespace {

// Estimates the loss of orthogonality omega_j = <v_{k+1}, v_j> of each channel by its three-term recurrence (Simon,
// "The Lanczos algorithm with partial reorthogonalization", Mathematics of Computation 42, 1984). The estimates take
// O(K^2) operations; the inner products themselves would take another sweep over the basis in every step.
class OmegaRecurrence {
 public:
  OmegaRecurrence(Workspace& workspace, int K, int width, double per_step)
      : width_(width), per_step_(per_step), largest_(workspace.array<double>(width)),
        vectors_(workspace.array<double>(width)) {
    for (auto* rows : {&previous_, &current_, &next_}) *rows = workspace.array(int64_t(K + 2) * width, 0.0);
  }

  // Estimates the omega_j of v_{k+1} in all channels. gamma holds steps 0 .. k, beta steps 0 .. k + 1; the estimates of
  // channels with beta_{k+1} = 0 are undefined. Channels are the inner loop, so that it is vectorised.
  void advance(int k, double limit, const double* gamma, const double* beta) {
    const auto row = [&](double* numbers, int j) { return numbers + j * width_; };
    const auto g = [&](int j) { return gamma + j * width_; };
    const auto b = [&](int j) { return beta + j * width_; };
    std::fill_n(row(current_, k), width_, 1.0);
    std::fill_n(largest_, width_, 0.0);
    std::fill_n(vectors_, width_, 0.0);
    for (int j = 0; j <= k; ++j) {
      double* __restrict const next = row(next_, j);
      double* __restrict const largest = largest_, * __restrict const vectors = vectors_;
      const double *const here = row(current_, j), *const norm = b(k + 1);
      if (j == k) {
        for (int c = 0; c < width_; ++c) next[c] = per_step_ / norm[c];
      } else {
        const double *const up = row(current_, j + 1), *const b_up = b(j + 1), *const g_j = g(j), *const g_k = g(k);
        for (int c = 0; c < width_; ++c) next[c] = b_up[c] * up[c] + (g_j[c] - g_k[c]) * here[c];
        if (j > 0) {
          const double *const down = row(current_, j - 1), *const b_down = b(j);
          for (int c = 0; c < width_; ++c) next[c] += b_down[c] * down[c];
        }
        const double *const before = row(previous_, j), *const b_k = b(k);
        for (int c = 0; c < width_; ++c) {
          const double omega = next[c] - b_k[c] * before[c];
          next[c] = (omega + std::copysign(per_step_, omega)) / norm[c];
        }
      }
      for (int c = 0; c < width_; ++c) {
        const double omega = std::abs(next[c]), omega_k = j < k ? std::abs(here[c]) : 0;
        largest[c] = largest[c] < omega ? omega : largest[c];
        vectors[c] = (omega < omega_k ? omega_k : omega) > limit / 16 ? j + 1 : vectors[c];
      }
    }
  }

  // The largest |omega_j| over j <= k.
  double largest(int channel) const { return largest_[channel]; }
  // From j = vectors on, |<v_{k+1}, v_j>| and |<v_k, v_j>| are far below the limit.
  int vectors(int channel) const { return static_cast<int>(vectors_[channel]); }

  // Call after v_k and v_{k+1} have been orthogonalised against the first `count` vectors (v_k not against itself).
  void reset(int k, int count, double omega) {
    assert(0 <= count && count <= k + 1);
    std::fill_n(next_, count * width_, omega);
    std::fill_n(current_, std::min(count, k) * width_, omega);
  }

  void shift() {
    std::swap(previous_, current_);
    std::swap(current_, next_);
  }

 private:
  int width_;
  double per_step_;
  double *previous_, *current_, *next_;
  double *const largest_, *const vectors_;  // vectors_: integers, in double so that loops are vectorised
};

template <class T, class I>
class Lanczos {
 public:
  Lanczos(Workspace& workspace, Engine<T, I>& engine, int width, int K, T* V, double* gamma, double* beta,
          int64_t* rank)
      : engine_(engine), width_(width), plane_(engine.graph.rows * width), V_(V), gamma_(gamma), beta_(beta),
        rank_(rank), K_(K), noise_(workspace.array<double>(width)), largest_beta_(workspace.array(width, 0.0)),
        amplified_(workspace.array(width, Tolerance<T>::noise_level)), scale_(workspace.array<double>(width)),
        norms_(workspace.array<double>(width)), weights_(workspace.array<T>(int64_t(2 * K + 2) * width)),
        omega_(workspace, K, width, Tolerance<T>::omega_per_step(engine.graph.rows)) {}

  // v_0 = x / |x|, up to the factor in scale_. Scaling by a power of two keeps the squares of any finite x in range.
  void start(const T* x, const double* peaks) {
    double* const factor = scale_;
    for (int c = 0; c < width_; ++c)
      factor[c] = peaks[c] >= std::numeric_limits<T>::min() ? std::ldexp(1.0, -std::ilogb(peaks[c])) : 0;
    const double* const squares = engine_.sum(
        width_, [&](Rows rows, double* sums) { engine_.vector_kernels.rescale(width_, rows, x, factor, V_, sums); });
    for (int c = 0; c < width_; ++c) {
      const double norm = std::sqrt(squares[c]), size = norm / factor[c];
      rank_[c] = 0;
      accept_or_end(c, 0, norm);  // overwrites the factor
      if (norm > 0) beta_[c] = std::min<double>(size, std::numeric_limits<T>::max());
    }
  }

  // Computes v_{k+1}, up to the factor in scale_, from v_k and v_{k-1}, and normalises v_k.
  void step(int k) {
    T* w = vector(k + 1);
    set_noise(k);
    project(k, w);
    const auto scale = split(scale_), gamma = split(row(gamma_, k));
    set_norms([&](Rows rows, double* sums) {
      engine_.vector_kernels.scale_and_subtract(width_, rows, vector(k), scale, gamma, w, sums);
    });
    const int count = vectors_to_reorthogonalise(k);
    if (count > 0) reorthogonalise(k, count);
    for (int c = 0; c < width_; ++c) accept_or_end(c, k + 1, norms_[c]);
    omega_.shift();
  }

  // Normalises v_K.
  void finish(int K) {
    engine_.sum(width_, [&](Rows rows, double* sums) {
      engine_.vector_kernels.rescale(width_, rows, vector(K), scale_, vector(K), sums);
    });
    std::fill_n(scale_, width_, 1.0);
  }

  // w = P v_k - beta_k v_{k-1} and gamma_k = <w, v_k>; w null: gamma_k alone.
  void project(int k, T* w) {
    const T* v_prev = k > 0 ? vector(k - 1) : nullptr;
    const auto scale = split(scale_), beta = split(row(beta_, k));
    const auto Pv = engine_.product_with(vector(k));
    const double* const sums = engine_.sum(width_, [&](Rows rows, double* partial) {
      engine_.product_kernels.lanczos_product(Pv, width_, rows, vector(k), scale, v_prev, beta, w, partial);
    });
    for (int c = 0; c < width_; ++c) row(gamma_, k)[c] = sums[c] * scale_[c];
  }

 private:
  T* vector(int k) { return V_ + k * plane_; }
  double* row(double* numbers, int k) { return numbers + k * width_; }

  DoubleWord<T> split(const double* numbers) const { return DoubleWord<T>::of(numbers, width_); }

  // norms_: the norms of the vectors whose squared norms the kernel sums.
  template <class Kernel>
  void set_norms(Kernel&& kernel) {
    const double* const squares = engine_.sum(width_, kernel);
    for (int c = 0; c < width_; ++c) norms_[c] = std::sqrt(squares[c]);
  }

  // The error expected in the residual after v_k, for each channel. Called for k = 0, 1, ..
  void set_noise(int k) {
    // Only the part of the error orthogonal to v_0 .. v_{k+1} matters; it is zero once they span the whole space.
    const double nodes = static_cast<double>(engine_.graph.rows);
    const double outside = std::sqrt(std::max(nodes - k - 2, 0.0) / nodes);
    for (int c = 0; c < width_; ++c) {
      if (const double beta = row(beta_, k)[c]; k > 0 && beta > 0) {
        largest_beta_[c] = std::max(largest_beta_[c], beta);
        amplified_[c] *= std::max(1.0, Tolerance<T>::amplification_threshold / beta);
      }
      const double cap = std::max(Tolerance<T>::noise_cap * largest_beta_[c], Tolerance<T>::noise_level);
      noise_[c] = std::min(amplified_[c], cap) * outside;
    }
  }

  // Whether the basis of a channel ends at v_k, given the norm of its residual; see Tolerance.
  bool ends(int c, int k, double norm) const {
    if (norm <= Tolerance<T>::rounding_level || k + 1 >= engine_.graph.rows) return true;
    return norm <= noise_[c] && stopping_error(c, k, norm) <= Tolerance<T>::max_stopping_error;
  }

  // A bound for |T_m(P) x - |x| V T_m(T) e_0| / |x| over all m <= K if v_k is the last vector. Each step of the
  // Chebyshev recurrence on y_m = T_m(T) e_0 drops 2 beta v_{k+1} times the last entry of y_m (half of that in the
  // first step). The term dropped in step m reaches step K multiplied by U_{K-1-m}(P), whose norm is at most K - m.
  double stopping_error(int c, int k, double norm) const {
    std::vector<double> y(k + 1, 0.0), before(k + 1, 0.0), next(k + 1);
    y[0] = 1;
    double bound = 0;
    for (int m = 0; m < K_; ++m) {
      const double factor = m > 0 ? 2 : 1;
      bound += factor * norm * std::abs(y[k]) * (K_ - m);
      for (int i = 0; i <= k; ++i) {
        double product = gamma_[i * width_ + c] * y[i];
        if (i > 0) product += beta_[i * width_ + c] * y[i - 1];
        if (i < k) product += beta_[(i + 1) * width_ + c] * y[i + 1];
        next[i] = factor * product - before[i];
      }
      before.swap(y);
      y.swap(next);
    }
    return bound;
  }

  void accept_or_end(int c, int k, double norm) {
    const bool alive = norm > 0 && !(k > 0 && ends(c, k - 1, norm));
    row(beta_, k)[c] = alive ? norm : 0;
    scale_[c] = alive ? 1 / norm : 0;
    rank_[c] += alive;
  }

  // The number of vectors among v_0 .. v_k to reorthogonalise v_{k+1} against; 0 if that is not necessary.
  int vectors_to_reorthogonalise(int k) {
    std::copy_n(norms_, width_, row(beta_, k + 1));
    omega_.advance(k, Tolerance<T>::max_omega, gamma_, beta_);
    constexpr double cancellation = Tolerance<T>::cancellation * Tolerance<T>::cancellation;
    bool any = false;
    int count = 0;
    for (int c = 0; c < width_; ++c) {
      if (ends(c, k, norms_[c])) continue;
      const double norm = norms_[c], gamma = row(gamma_, k)[c], beta = k > 0 ? row(beta_, k)[c] : 0;
      const bool cancelled = norm * norm < cancellation * (norm * norm + gamma * gamma + beta * beta);  // |P v_k|^2
      any |= cancelled || omega_.largest(c) > Tolerance<T>::max_omega;
      count = std::max(count, cancelled ? k + 1 : omega_.vectors(c));
    }
    return any ? count : 0;
  }

  // Orthogonalises w against the first `count` vectors, and repeats while its norm drops substantially ("twice is
  // enough", Kahan and Parlett). The same sweep reorthogonalises v_k, whose error would otherwise re-enter v_{k+2}
  // through the recurrence.
  void reorthogonalise(int k, int count) {
    const int64_t numbers = int64_t(count) * width_;
    T* v = k > 0 ? vector(k) : nullptr;
    for (bool shorter = true; shorter; v = nullptr) {
      const int64_t all = (v ? 2 : 1) * numbers;
      const double* const inner = engine_.sum(all, [&](Rows rows, double* sums) {
        engine_.vector_kernels.basis_dots(width_, rows, vector(k + 1), v, V_, plane_, count, sums);
      });
      std::copy_n(inner, all, weights_);
      if (v && count > k) std::fill_n(weights_ + numbers + k * width_, width_, T(0));  // <v_k, v_k>
      const double* const squares = engine_.sum(width_, [&](Rows rows, double* sums) {
        engine_.vector_kernels.project_out(width_, rows, vector(k + 1), vector(k + 1), v, V_, plane_, count, weights_,
                                           sums);
      });
      shorter = false;
      for (int c = 0; c < width_; ++c) {
        const double left = std::sqrt(squares[c]);
        shorter |= left < 0.7 * norms_[c] && !ends(c, k, left);
        norms_[c] = left;
      }
    }
    omega_.reset(k, count, Tolerance<T>::omega_after_projection);
  }

  Engine<T, I>& engine_;
  const int width_;
  const int64_t plane_;
  T* const V_;
  double *const gamma_, *const beta_;
  int64_t* const rank_;
  const int K_;
  double *const noise_, *const largest_beta_, *const amplified_;  // amplified_: the error without its cap
  double *const scale_, *const norms_;                            // norms_: of the residuals
  T* const weights_;
  OmegaRecurrence omega_;
};

template <class T, class I>
void basis_of_panel(Workspace& workspace, const Csr<T, I>& graph, Isa isa, int threads, int d, int K, const T* x,
                    const double* peaks, T* V, double* gamma, double* sqrt_beta, int64_t* rank, bool last_gamma) {
  Engine<T, I> engine(graph, isa, threads, d);
  assert(K >= 0 && d <= max_width<T>);
  Lanczos<T, I> lanczos(workspace, engine, d, K, V, gamma, sqrt_beta, rank);
  lanczos.start(x, peaks);
  for (int k = 0; k < K; ++k) lanczos.step(k);
  lanczos.finish(K);
  if (last_gamma)
    lanczos.project(K, nullptr);
  else
    std::fill_n(gamma + K * d, d, 0.0);
}

}  // namespace

template <class T, class I>
void optimal_basis(const Csr<T, I>& graph, Isa isa, int threads, int d, int K, const T* x, const double* peaks, T* V,
                   double* gamma, double* sqrt_beta, int64_t* rank, bool last_gamma) {
  for_each_panel<T>(graph.rows, d, threads, [&](const Panel& panel) {
    Workspace workspace;
    const InputColumns<T> x_(workspace, x, graph.rows, d, panel);
    const OutputColumns<double> gamma_(workspace, gamma, K + 1, d, panel);
    const OutputColumns<double> sqrt_beta_(workspace, sqrt_beta, K + 1, d, panel);
    call_compiled_for(isa, [&] {
      basis_of_panel<T, I>(workspace, graph, isa, panel.threads, panel.width, K, x_, peaks + panel.first,
                           panel_data(V, K + 1, graph.rows, panel), gamma_, sqrt_beta_, rank + panel.first, last_gamma);
    });
  });
}

template <class T, class I>
void combine(const Csr<T, I>& graph, Isa isa, int threads, int d, int K, const T* V, const T* alpha, T* z) {
  for_each_panel<T>(graph.rows, d, threads, [&](const Panel& panel) {
    Workspace workspace;
    const InputColumns<T> alpha_(workspace, alpha, K + 1, d, panel);
    const OutputColumns<T> z_(workspace, z, graph.rows, d, panel);
    Engine<T, I> engine(graph, isa, panel.threads, panel.width);
    engine.run([&](Rows rows) {
      engine.vector_kernels.combine(panel.width, rows, nullptr, nullptr, panel_data(V, K + 1, graph.rows, panel),
                                    graph.rows * panel.width, K + 1, alpha_, z_);
    });
  });
}

template <class T>
void standard_layout(int threads, int64_t rows, int d, int K, const T* V, T* out, int64_t plane) {
  const int width = panel_width<T>(rows);
  Blocks(rows, threads, d * (K + 1)).run([&](int64_t, Rows block) {
    for (int k = 0; k <= K; ++k)
      for (int first = 0; first < d; first += width) {
        const Panel panel{first, std::min(width, d - first), 1};
        const T* const from = panel_data(V, K + 1, rows, panel) + k * rows * panel.width;
        for (int64_t i = block.begin; i < block.end; ++i)
          std::copy_n(from + i * panel.width, panel.width, out + k * plane + i * d + first);
      }
  });
}

template <class T, class I>
void edge_dots(const Csr<T, I>& graph, Isa isa, int threads, int d, const T* u, const T* v, double* out) {
  const auto& kernels = product_kernels<T, I>(isa);
  Blocks(graph, threads, d).run([&](int64_t, Rows rows) { kernels.edge_dots(graph, d, rows, u, v, out); });
}

template <class T, class I>
void product(const Csr<T, I>& graph, Isa isa, int threads, int d, const T* x, T* y) {
  Engine<T, I> engine(graph, isa, threads, d);
  const auto Px = engine.product_with(x);
  engine.run([&](Rows rows) { engine.product_kernels.product(Px, d, rows, y); });
}

template <class T, class I>
void peak(const Csr<T, I>& graph, Isa isa, int threads, int d, const T* x, double* peaks) {
  Engine<T, I> engine(graph, isa, threads, d);
  const double* const largest =
      engine.largest(d, [&](Rows rows, double* partial) { engine.vector_kernels.peak(d, rows, x, partial); });
  std::copy_n(largest, d, peaks);
}

#define POLYBASIS_INSTANTIATE(T, I)                                                                                \
  template void product(const Csr<T, I>&, Isa, int, int, const T*, T*);                                            \
  template void peak(const Csr<T, I>&, Isa, int, int, const T*, double*);                                          \
  template void optimal_basis(const Csr<T, I>&, Isa, int, int, int, const T*, const double*, T*, double*, double*, \
                              int64_t*, bool);                                                                     \
  template void combine(const Csr<T, I>&, Isa, int, int, int, const T*, const T*, T*);                             \
  template void edge_dots(const Csr<T, I>&, Isa, int, int, const T*, const T*, double*);
POLYBASIS_INSTANTIATE(float, int32_t)
POLYBASIS_INSTANTIATE(float, int64_t)
POLYBASIS_INSTANTIATE(double, int32_t)
POLYBASIS_INSTANTIATE(double, int64_t)
template void standard_layout(int, int64_t, int, int, const float*, float*, int64_t);
template void standard_layout(int, int64_t, int, int, const double*, double*, int64_t);

}  // namespace polybasis
