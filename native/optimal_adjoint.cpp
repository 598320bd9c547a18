// Gradient of the optimal filter z = sum_k alpha_k v_k with respect to x and alpha, where alpha is constant or a
// multiple of |x|.
//
// Let lambda_k be the gradient with respect to v_k. A Lanczos step orthogonalises P v_k against v_0 .. v_k and divides
// by beta_{k+1}. Terms of its adjoint that are symmetric in V cancel because V is orthonormal. What remains is
//
//   u = (lambda_{k+1} - sum_{j <= k+1} <lambda_{k+1}, v_j> v_j) / beta_{k+1},
//   lambda_k += (P - gamma_k) u,    lambda_{k-1} -= beta_k u,    lambda_j -= <lambda_{k+1}, v_j> v_{k+1}  for j <= k.
//
// Orthogonalising u against v_k and v_{k+1} only gives the same result in exact arithmetic. In floating point, errors
// along converged eigenvectors then grow by a factor 1 / beta per step (compare Kraemer et al., "Gradients of functions
// of large matrices", 2024).
//
// Orthogonalising u against all vectors needs no sweep over them, because P v_i lies in span(V) for i < K. Write
//
//   lambda_k = r_k + sum_{k < i < K} a_ki v_i + (components along v_0 .. v_k, which the next step removes)
//
// with r_k orthogonal to v_0 .. v_{K-1}; the component along v_K stays in r_k. The a_ki are K numbers per channel, in
// double. With zeta_i = <z_bar, v_i> and r_z the part of z_bar that is orthogonal to V, both obey the same recurrence:
//
//   r_k = alpha_k r_z + (P - gamma_k) r_{k+1} / beta_{k+1} - beta_{k+1} / beta_{k+2} r_{k+2} + m_k v_K - rho_k v_{K-1},
//   a_ki = alpha_k zeta_i - alpha_i zeta_k + rho_k [i = K-1]
//          + (the same with T for P, a for r, and a_{k+1,k+1} = a_{k+2,k+2} = 0).
//
// m_k is the right-hand side of the second line at i = K. P r_{k+1} has one component in span(v_0 .. v_{K-1}), along
// v_{K-1}: rho_k = beta_K <r_{k+1}, v_K> / beta_{k+1}. The r_k are reorthogonalised when their estimated loss of
// orthogonality exceeds a tolerance.
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

template <class T, class I>
class OptimalAdjoint {
 public:
  OptimalAdjoint(Workspace& workspace, Engine<T, I>& engine, int width, int K, const T* V, const double* gamma,
                 const double* beta, const T* alpha)
      : engine_(engine), width_(width), K_(K), plane_(engine.graph.rows * width), V_(V), gamma_(gamma), beta_(beta),
        alpha_(alpha), per_step_(Tolerance<T>::omega_per_step(engine.graph.rows)), none_(workspace.array(width, 0.0)),
        has_r_z_(workspace.array<char>(width)), weights_(workspace.array<T>(std::max(numbers(6), 2 * numbers(K + 1)))) {
    for (auto* row : {&up_, &prev_weight_, &m_, &rho_, &dot_last_, &inside_, &norm_, &norm_prev_, &norm_z_, &noise_,
                      &limit_, &largest_, &vectors_})
      *row = workspace.array(width, 0.0);
    zeta_ = workspace.array<double>(numbers(K + 1));
    for (auto* rows : {&a_, &a_prev_, &a_next_, &omega_, &omega_prev_, &omega_next_})
      *rows = workspace.array(numbers(K), 0.0);
  }

  // signal: alpha is a multiple of |x|. work: two arrays of the size of the signal.
  void run(const T* z_bar, bool signal, T* x_bar, T* alpha_bar, T* work) {
    T* const r_z = work;
    start(z_bar, alpha_bar, r_z);
    const T *r = r_z, *r_prev = nullptr;
    for (int k = K_ - 1; k >= 0; --k) {
      T* const r_next = r == x_bar ? work + plane_ : x_bar;
      advance_coefficients(k);
      advance(k, r_z, r, r_prev, r_next);
      reorthogonalise_if_needed(k, r_next, r == r_z ? nullptr : const_cast<T*>(r));
      r_prev = std::exchange(r, r_next);
    }
    finish(r, signal, x_bar);
  }

 private:
  int64_t numbers(int rows) const { return int64_t(rows) * width_; }
  const T* vector(int k) const { return V_ + k * plane_; }
  double alpha(int k, int c) const { return alpha_[k * width_ + c]; }
  double gamma(int k, int c) const { return gamma_[k * width_ + c]; }
  double beta(int k, int c) const { return beta_[k * width_ + c]; }
  double inverse(int k, int c) const { return beta(k, c) > 0 ? 1 / beta(k, c) : 0; }

  // Calls f(c) for all channels.
  template <class F>
  void for_each_channel(F&& f) const {
    for (int c = 0; c < width_; ++c) f(c);
  }

  // Computes zeta, the gradient with respect to alpha, and r_z.
  void start(const T* z_bar, T* alpha_bar, T* r_z) {
    std::copy_n(inner_products(z_bar, nullptr, K_ + 1), numbers(K_ + 1), zeta_);
    std::copy_n(zeta_, numbers(K_ + 1), alpha_bar);
    const double* squares = project_out(zeta_, z_bar, r_z, nullptr, K_ + 1);
    double* const inside = inside_;
    for (int i = 0; i <= K_; ++i)
      for_each_channel([&](int c) { inside[c] += zeta_[i * width_ + c] * zeta_[i * width_ + c]; });
    bool shorter = false;  // so much that rounding errors along V matter
    for_each_channel([&](int c) { shorter |= squares[c] < inside[c]; });
    if (shorter) squares = project_out(inner_products(r_z, nullptr, K_ + 1), r_z, r_z, nullptr, K_ + 1);
    for_each_channel([&](int c) {
      // If z_bar lies in the span of V, r_z is rounding errors, which the recurrence would amplify.
      has_r_z_[c] = squares[c] > Tolerance<T>::eps * Tolerance<T>::eps * inside[c];
      norm_z_[c] = has_r_z_[c] ? std::sqrt(squares[c]) : 0;
      norm_[c] = std::abs(alpha(K_, c)) * norm_z_[c];
      for (int i = 0; i < K_; ++i) omega_[i * width_ + c] = Tolerance<T>::omega_after_projection * norm_[c];
    });
  }

  // a_k, m_k and rho_k from a_{k+1} and a_{k+2}.
  void advance_coefficients(int k) {
    const auto row = [&](const auto& numbers, int i) { return &numbers[i * width_]; };
    for_each_channel([&](int c) {
      up_[c] = inverse(k + 1, c);
      prev_weight_[c] = k + 2 <= K_ ? beta(k + 1, c) * inverse(k + 2, c) : 0;
      rho_[c] = beta(K_, c) * dot_last_[c] * up_[c];
    });
    const double *const up = up_, *const prev_weight = prev_weight_;
    for (int i = k + 1; i <= K_; ++i) {
      double* const next = i < K_ ? &a_next_[i * width_] : m_;
      const double *const zeta_i = row(zeta_, i), *const zeta_k = row(zeta_, k), *const beta_i = beta_ + i * width_;
      // Past the rank v_i is zero, and its coefficient would grow by 1 / beta per step.
      for_each_channel([&](int c) {
        const double difference = alpha(k, c) * zeta_i[c] - alpha(i, c) * zeta_k[c];
        next[c] = beta_i[c] > 0 ? difference : 0;
      });
      const auto add = [&](const double* weight, const double* a) {
        for_each_channel([&](int c) { next[c] += up[c] * weight[c] * a[c]; });
      };
      if (i - 1 >= k + 2) add(beta_i, row(a_, i - 1));
      if (i == K_) break;
      if (i >= k + 2) {
        const double *const gamma_i = gamma_ + i * width_, *const gamma_k = gamma_ + k * width_, *const a = row(a_, i);
        for_each_channel([&](int c) { next[c] += up[c] * (gamma_i[c] - gamma_k[c]) * a[c]; });
      }
      if (i + 1 < K_) add(beta_i + width_, row(a_, i + 1));
      if (i >= k + 3) {
        const double* const a_prev = row(a_prev_, i);
        for_each_channel([&](int c) { next[c] -= prev_weight[c] * a_prev[c]; });
      }
      if (i == K_ - 1) for_each_channel([&](int c) { next[c] += rho_[c]; });
    }
    std::swap(a_prev_, a_);
    std::swap(a_, a_next_);
  }

  // r_next = r_k from r = r_{k+1} and r_prev = r_{k+2}, where r_z stands for r_K = alpha_K r_z.
  void advance(int k, const T* r_z, const T* r, const T* r_prev, T* r_next) {
    T* const weights = weights_;
    for_each_channel([&](int c) {
      const double last = has_r_z_[c] ? alpha(K_, c) : 0;
      const double scale = r == r_z ? last : 1, scale_prev = r_prev == r_z ? last : 1;
      const double up = up_[c];
      const double row[] = {
          has_r_z_[c] ? alpha(k, c) : 0,               // r_z
          scale * up,                                  // P r
          -scale * gamma(k, c) * up,                   // r
          r_prev ? -scale_prev * prev_weight_[c] : 0,  // r_prev
          m_[c],                                       // v_last
          -rho_[c],                                    // v_second_last
      };
      for (int i = 0; i < 6; ++i) weights[i * width_ + c] = narrow(row[i]);
    });
    const auto weight = [&](int i) { return weights + i * width_; };
    const OptimalAdjointStep<T> step{
        .weight = {weight(0), weight(1), weight(2), weight(3), weight(4), weight(5)},
        .r_z = r_z,
        .r = r,
        .r_prev = r_prev,
        .v_last = vector(K_),
        .v_second_last = vector(K_ - 1),
        .r_next = r_next,
    };
    const auto Pr = engine_.product_with(r);
    const double* const sums = engine_.sum(2 * width_, [&](Rows rows, double* partial) {
      engine_.product_kernels.optimal_adjoint(Pr, width_, rows, step, partial);
    });
    for_each_channel([&](int c) {
      dot_last_[c] = sums[c];
      norm_prev_[c] = std::exchange(norm_[c], std::sqrt(sums[width_ + c]));
    });
  }

  // Estimates omega_j = <r_k, v_j> by the recurrence of the r_k (after Simon, 1984). If an estimate exceeds the limit,
  // reorthogonalises r_k and r_prev = r_{k+1} (null: skip it).
  void reorthogonalise_if_needed(int k, T* r_k, T* r_prev) {
    const double *const up = up_, *const before = prev_weight_, *const gamma_k = gamma_ + k * width_;
    double* __restrict const noise = noise_, * __restrict const limit = limit_;
    double* __restrict const largest = largest_, * __restrict const vectors = vectors_;
    for_each_channel([&](int c) {
      noise[c] = per_step_ * (up[c] * (1 + std::abs(gamma_k[c])) * norm_prev_[c] + std::abs(alpha(k, c)) * norm_z_[c]);
      limit[c] = Tolerance<T>::max_adjoint_omega * norm_[c];
      largest[c] = vectors[c] = 0;
    });
    for (int j = 0; j < K_; ++j) {
      const double *const beta_j = beta_ + j * width_, *const beta_up = beta_j + width_,
                          *const gamma_j = gamma_ + j * width_;
      const double *const omega = &omega_[j * width_], *const omega_prev = &omega_prev_[j * width_];
      const double* const above = j + 1 < K_ ? omega + width_ : none_;
      const double* const below = j > 0 ? omega - width_ : none_;
      double* __restrict const next = &omega_next_[j * width_];
      const double reached = j + 1;
      // Short loops without conditional loads: compilers vectorise them, which matters on small graphs.
      for (int c = 0; c < width_; ++c) next[c] = beta_up[c] * above[c] + gamma_j[c] * omega[c];
      for (int c = 0; c < width_; ++c) next[c] = up[c] * (next[c] + beta_j[c] * below[c] - gamma_k[c] * omega[c]);
      for (int c = 0; c < width_; ++c) next[c] -= before[c] * omega_prev[c];
      for (int c = 0; c < width_; ++c) {
        const double noisy = next[c] + std::copysign(noise[c], next[c]), unchanged = omega[c];
        next[c] = beta_j[c] == 0 ? unchanged : noisy;  // 0: past the rank
      }
      for (int c = 0; c < width_; ++c) {
        const double estimate = std::abs(next[c]), size = beta_j[c] == 0 ? 0.0 : estimate;
        const double size_so_far = largest[c], vectors_so_far = vectors[c];
        largest[c] = size_so_far < size ? size : size_so_far;
        vectors[c] = size > limit[c] / 16 ? reached : vectors_so_far;
      }
    }
    bool exceeded = false;
    double count = 0;  // from j = count on, omega_j is far below the limit
    for_each_channel([&](int c) {
      exceeded |= largest[c] > limit[c];
      count = std::max(count, vectors[c]);
    });
    std::swap(omega_prev_, omega_);
    std::swap(omega_, omega_next_);
    if (exceeded) reorthogonalise(r_k, r_prev, static_cast<int>(count));
  }

  void reorthogonalise(T* r_k, T* r_prev, int count) {
    assert(0 < count && count <= K_);
    bool shorter = true;
    for (int sweep = 0; sweep < 2 && shorter; ++sweep) {
      const double* const squares = project_out(inner_products(r_k, r_prev, count), r_k, r_k, r_prev, count);
      shorter = false;
      for_each_channel([&](int c) {
        const double size = std::sqrt(squares[c]);
        shorter |= size < 0.7 * norm_[c];
        norm_[c] = size;
        for (int j = 0; j < count; ++j) {
          omega_[j * width_ + c] = Tolerance<T>::omega_after_projection * size;
          if (r_prev) omega_prev_[j * width_ + c] = Tolerance<T>::omega_after_projection * norm_prev_[c];
        }
      });
      r_prev = nullptr;
    }
  }

  // x_bar = (lambda_0 - <lambda_0, v_0> v_0) / beta_0, with lambda_0 = r_0 + sum_{0 < i < K} a_0i v_i for K > 0 and
  // alpha_0 r_z for K = 0. The division comes last, because the separate terms would overflow for a tiny signal.
  // If alpha is a multiple of |x| = beta_0, whose gradient is v_0, there is one more vector: <z_bar, z> / beta_0 v_0.
  void finish(const T* r, bool signal, T* x_bar) {
    const int first = signal ? 0 : 1, last = signal ? std::max(K_, 1) : K_;
    T *const scale = weights_, *const weights = scale + width_;
    for_each_channel([&](int c) {
      const double factor = K_ > 0 ? 1 : has_r_z_[c] || signal ? alpha(0, c) : 0;
      scale[c] = narrow(factor * inverse(0, c));
      if (signal)
        weights[c] = narrow(K_ > 0 ? inner_product_with_z(c) : zeta_[c]);  // the factor is common to all terms
      for (int i = 1; i < K_; ++i) weights[(i - first) * width_ + c] = narrow(a_[i * width_ + c]);
    });
    engine_.run([&](Rows rows) {
      engine_.vector_kernels.combine(width_, rows, scale, r, vector(first), plane_, std::max(last - first, 0), weights,
                                     x_bar);
    });
  }

  // <z_bar, z> in a channel.
  double inner_product_with_z(int c) const {
    double sum = 0;
    for (int k = 0; k <= K_; ++k) sum += alpha(k, c) * zeta_[k * width_ + c];
    return sum;
  }

  // <w, v_j> for j < count, then <u, v_j>; u may be null. Valid until the next sum.
  const double* inner_products(const T* w, const T* u, int count) {
    return engine_.sum((u ? 2 : 1) * numbers(count), [&](Rows rows, double* sums) {
      engine_.vector_kernels.basis_dots(width_, rows, w, u, V_, plane_, count, sums);
    });
  }

  // w = from - sum_j inner_j v_j, and u in place by the inner products that follow; returns |w|^2, valid until the
  // next sum.
  const double* project_out(const double* inner, const T* from, T* w, T* u, int count) {
    std::copy_n(inner, (u ? 2 : 1) * numbers(count), weights_);
    return engine_.sum(width_, [&](Rows rows, double* sums) {
      engine_.vector_kernels.project_out(width_, rows, from, w, u, V_, plane_, count, weights_, sums);
    });
  }

  static T narrow(double number) {
    constexpr double most = std::numeric_limits<T>::max();
    return static_cast<T>(std::clamp(number, -most, most));
  }

  Engine<T, I>& engine_;
  const int width_, K_;
  const int64_t plane_;
  const T* const V_;
  const double *const gamma_, *const beta_;
  const T* const alpha_;
  const double per_step_;
  const double* const none_;   // zeros
  double *up_, *prev_weight_;  // 1 / beta_{k+1}, and minus the weight of r_{k+2} in r_k
  double *zeta_, *a_, *a_prev_, *a_next_, *m_, *rho_, *dot_last_;  // dot_last_: <r, v_K>
  double* inside_;  // the squared norm of the part of z_bar inside span(V)
  double *omega_, *omega_prev_, *omega_next_, *norm_, *norm_prev_, *norm_z_;
  double *noise_, *limit_, *largest_, *vectors_;  // of reorthogonalise_if_needed
  char* const has_r_z_;
  T* const weights_;
};

}  // namespace

template <class T, class I>
void optimal_adjoint(const Csr<T, I>& graph, Isa isa, int threads, int d, int K, const T* V, const double* gamma,
                     const double* sqrt_beta, const T* alpha, const T* z_bar, bool signal, T* x_bar, T* alpha_bar,
                     T* work) {
  for_each_panel<T>(graph.rows, d, threads, [&](const Panel& panel) {
    Workspace workspace;
    const InputColumns<double> gamma_(workspace, gamma, K + 1, d, panel);
    const InputColumns<double> sqrt_beta_(workspace, sqrt_beta, K + 1, d, panel);
    const InputColumns<T> alpha_(workspace, alpha, K + 1, d, panel), z_bar_(workspace, z_bar, graph.rows, d, panel);
    const OutputColumns<T> x_bar_(workspace, x_bar, graph.rows, d, panel);
    const OutputColumns<T> alpha_bar_(workspace, alpha_bar, K + 1, d, panel);
    Engine<T, I> engine(graph, isa, panel.threads, panel.width);
    OptimalAdjoint<T, I> adjoint(workspace, engine, panel.width, K, panel_data(V, K + 1, graph.rows, panel), gamma_,
                                 sqrt_beta_, alpha_);
    call_compiled_for(isa,
                      [&] { adjoint.run(z_bar_, signal, x_bar_, alpha_bar_, panel_data(work, 2, graph.rows, panel)); });
  });
}

#define POLYBASIS_INSTANTIATE(T, I)                                                                           \
  template void optimal_adjoint(const Csr<T, I>&, Isa, int, int, int, const T*, const double*, const double*, \
                                const T*, const T*, bool, T*, T*, T*);
POLYBASIS_INSTANTIATE(float, int32_t)
POLYBASIS_INSTANTIATE(float, int64_t)
POLYBASIS_INSTANTIATE(double, int32_t)
POLYBASIS_INSTANTIATE(double, int64_t)

}  // namespace polybasis
