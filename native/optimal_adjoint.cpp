// The gradient of the optimal filter z = sum_k alpha_k v_k to x and alpha.
//
// Let lambda_k be the gradient to v_k. A Lanczos step frees P v_k of v_0 .. v_k and divides by beta_{k+1}; backwards it is
//
//   u = (lambda_{k+1} - <lambda_{k+1}, v_{k+1}> v_{k+1}) / beta_{k+1},    c_j = <u, v_j>  for j <= k,
//   lambda_k += P (u - sum_j c_j v_j),    lambda_j -= c_j P v_k + <P v_k, v_j> u.
//
// Leaving out the c_j that vanish in exact arithmetic gives a three-term recurrence in which rounding errors along converged
// eigenvectors grow by 1 / beta a step. Keeping them costs no vectors: P v_i lies in the span of V for i < K, so that
//
//   lambda_k = r_k + sum_{i < K} A_ki v_i,    r_k orthogonal to v_0 .. v_{K-1},
//
// with small matrices A in double and one recurrence for the r_k,
//
//   r_k = alpha_k r_z + (P - gamma_k) r_{k+1} / beta_{k+1} - beta_{k+1} / beta_{k+2} r_{k+2} + m_k v_K - rho_k v_{K-1},
//
// where r_z is z_bar freed of V, m_k v_K is what A_k would have beyond its last column, and rho_k v_{K-1}, which goes over to
// A_k, is the only part of P r_{k+1} in the span: <P r, v_{K-1}> = beta_K <r, v_K>. Rounding errors along V are removed from
// the r_k when their estimated size asks for it.
#include <cmath>
#include <limits>
#include <utility>

#include "algorithms.hpp"
#include "engine.hpp"
#include "panels.hpp"
#include "tolerance.hpp"

namespace polybasis {
namespace {

template <class T, class I>
class OptimalAdjoint {
 public:
  OptimalAdjoint(Engine<T, I>& engine, int width, int K, const T* V, const double* gamma, const double* beta, const T* alpha)
      : engine_(engine), width_(width), K_(K), plane_(engine.graph.rows * width), V_(V), gamma_(gamma), beta_(beta),
        alpha_(alpha), unit_(Tolerance<T>::drift_per_step(engine.graph.rows)), A_(numbers(K + 1) * K), last_(numbers(K + 1)),
        rho_(width), tau_(width, 0.0), drift_(numbers(K)), drift_before_(numbers(K)), drift_next_(numbers(K)),
        size_(width), size_before_(width, 0.0), size_z_(width), weights_(std::max(numbers(6), 2 * numbers(K + 1))) {}

  // work: two arrays of the signal's size.
  void run(const T* z_bar, T* x_bar, T* alpha_bar, T* work) {
    T* const r_z = work;
    start(z_bar, alpha_bar, r_z);
    const T *r = r_z, *r_before = nullptr;
    for (int k = K_ - 1; k >= 0; --k) {
      T* const r_next = r == x_bar ? work + plane_ : x_bar;
      move_coefficients(k);
      advance(k, r_z, r, r_before, r_next);
      clean_if_needed(k, r_next, r == r_z ? nullptr : const_cast<T*>(r));
      r_before = std::exchange(r, r_next);
    }
    finish(r, x_bar);
  }

 private:
  size_t numbers(int rows) const { return static_cast<size_t>(rows) * width_; }
  const T* vector(int k) const { return V_ + k * plane_; }
  double gamma(int k, int c) const { return gamma_[k * width_ + c]; }
  double beta(int k, int c) const { return beta_[k * width_ + c]; }
  double inverse(int k, int c) const { return beta(k, c) > 0 ? 1 / beta(k, c) : 0; }
  double* A(int k, int i) { return A_.data() + (static_cast<size_t>(k) * K_ + i) * width_; }

  // Calls f(c) for all channels.
  template <class F>
  void each(F&& f) const {
    for (int c = 0; c < width_; ++c) f(c);
  }

  // r_z, the gradient to alpha, and what the lambda_k are before any step: alpha_k z_bar.
  void start(const T* z_bar, T* alpha_bar, T* r_z) {
    auto zeta = inner_products(z_bar, nullptr, K_ + 1);
    std::copy(zeta.begin(), zeta.end(), alpha_bar);
    auto squares = remove(zeta, z_bar, r_z, nullptr, K_ + 1);
    bool shorter = false;  // by so much that rounding errors along V count
    each([&](int c) {
      double inside = 0;
      for (int i = 0; i <= K_; ++i) inside += zeta[i * width_ + c] * zeta[i * width_ + c];
      shorter |= squares[c] < inside;
    });
    if (shorter) squares = remove(inner_products(r_z, nullptr, K_ + 1), r_z, r_z, nullptr, K_ + 1);
    for (int k = 0; k <= K_; ++k) {
      for (int i = 0; i < K_; ++i) each([&](int c) { A(k, i)[c] = alpha(k, c) * zeta[i * width_ + c]; });
      each([&](int c) { last_[k * width_ + c] = alpha(k, c) * zeta[K_ * width_ + c]; });
    }
    each([&](int c) {
      size_z_[c] = std::sqrt(squares[c]);
      size_[c] = std::abs(alpha(K_, c)) * size_z_[c];
      for (int i = 0; i < K_; ++i) drift_[i * width_ + c] = unit_ * size_[c];
    });
  }

  // The step from lambda_{k+1} to lambda_k and all before it, as far as it is one of coefficients.
  void move_coefficients(int k) {
    double* const u = A(k + 1, 0);
    const auto at = [&](int i, int c) { return u[i * width_ + c]; };
    for (int i = 0; i < K_; ++i) each([&](int c) { u[i * width_ + c] *= i == k + 1 ? 0 : inverse(k + 1, c); });
    const auto beyond = [&](int j, int i) { return i < K_ ? A(j, i) : last_.data() + j * width_; };
    for (int j = 0; j <= k; ++j) {  // lambda_j -= c_j P v_k
      double *const next = beyond(j, k + 1), *const here = A(j, k), *const before = k > 0 ? A(j, k - 1) : nullptr;
      each([&](int c) { next[c] -= at(j, c) * beta(k + 1, c); });
      each([&](int c) { here[c] -= at(j, c) * gamma(k, c); });
      if (before) each([&](int c) { before[c] -= at(j, c) * beta(k, c); });
    }
    for (int i = 0; i < K_; ++i) {  // lambda_j -= <P v_k, v_j> u
      each([&](int c) { A(k, i)[c] -= gamma(k, c) * at(i, c); });
      if (k > 0) each([&](int c) { A(k - 1, i)[c] -= beta(k, c) * at(i, c); });
    }
    for (int i = k + 2; i < K_; ++i) {  // lambda_k += P u, of which v_0 .. v_{k+1} have been taken
      double *const before = A(k, i - 1), *const here = A(k, i), *const next = beyond(k, i + 1);
      each([&](int c) { before[c] += beta(i, c) * at(i, c); });
      each([&](int c) { here[c] += gamma(i, c) * at(i, c); });
      each([&](int c) { next[c] += beta(i + 1, c) * at(i, c); });
    }
    each([&](int c) { A(k, K_ - 1)[c] += rho_[c] = beta(K_, c) * tau_[c] * inverse(k + 1, c); });
  }

  // r_next = r_k from r = r_{k+1} and r_before = r_{k+2}, where r_z stands for r_K = alpha_K r_z.
  void advance(int k, const T* r_z, const T* r, const T* r_before, T* r_next) {
    T* const weights = weights_.data();
    each([&](int c) {
      const double scale = r == r_z ? alpha(K_, c) : 1, scale_before = r_before == r_z ? alpha(K_, c) : 1;
      const double numbers[] = {alpha(k, c), scale * inverse(k + 1, c), -scale * gamma(k, c) * inverse(k + 1, c),
                                r_before ? -scale_before * share_before(k, c) : 0, last_[k * width_ + c], -rho_[c]};
      for (int i = 0; i < 6; ++i) weights[i * width_ + c] = narrow(numbers[i]);
    });
    const auto weight = [&](int i) { return weights + i * width_; };
    const OptimalAdjointStep<T> step{{weight(0), weight(1), weight(2), weight(3), weight(4), weight(5)},
                                     r_z, r, r_before, vector(K_), vector(K_ - 1), r_next};
    const auto Pr = engine_.product_with(r);
    const auto sums = engine_.sum(2 * width_, [&](Rows rows, double* partial) {
      engine_.on_graph.optimal_adjoint(Pr, width_, rows, step, partial);
    });
    each([&](int c) {
      tau_[c] = sums[c];
      size_before_[c] = std::exchange(size_[c], std::sqrt(sums[width_ + c]));
    });
  }

  // What r_{k+2} counts in r_k.
  double share_before(int k, int c) const { return k + 2 <= K_ ? beta(k + 1, c) * inverse(k + 2, c) : 0; }

  // Follows the size of <r_k, v_j> from rounding by the recurrence of the r_k (after Simon, 1984) and frees r_k and r_{k+1}
  // (null: clean) of the v_j where it is too large.
  void clean_if_needed(int k, T* r_k, T* r_before) {
    bool dirty = false;
    int reach = 0;  // products with v_j from j = reach on are far below the limit
    each([&](int c) {
      const auto drift = [&](int j) { return j < 0 || j >= K_ ? 0 : drift_[j * width_ + c]; };
      const double up = inverse(k + 1, c), before = share_before(k, c), limit = Tolerance<T>::adjoint_drift * size_[c];
      const double noise = unit_ * (up * (1 + std::abs(gamma(k, c))) * size_before_[c] + std::abs(alpha(k, c)) * size_z_[c]);
      for (int j = 0; j < K_; ++j) {
        const double pushed = beta(j + 1, c) * drift(j + 1) + gamma(j, c) * drift(j) + (j > 0 ? beta(j, c) * drift(j - 1) : 0);
        const double next = up * (pushed - gamma(k, c) * drift(j)) - before * drift_before_[j * width_ + c];
        drift_next_[j * width_ + c] = next + std::copysign(noise, next);
        dirty |= std::abs(drift_next_[j * width_ + c]) > limit;
        if (std::abs(drift_next_[j * width_ + c]) > limit / 16) reach = std::max(reach, j + 1);
      }
    });
    drift_before_.swap(drift_);
    drift_.swap(drift_next_);
    if (dirty) clean(r_k, r_before, reach);
  }

  void clean(T* r_k, T* r_before, int count) {
    bool shorter = true;
    for (int sweep = 0; sweep < 2 && shorter; ++sweep, r_before = nullptr) {
      const auto squares = remove(inner_products(r_k, r_before, count), r_k, r_k, r_before, count);
      shorter = false;
      each([&](int c) {
        const double size = std::sqrt(squares[c]);
        shorter |= size < 0.7 * size_[c];
        size_[c] = size;
        for (int j = 0; j < count; ++j) {
          drift_[j * width_ + c] = unit_ * size;
          if (r_before) drift_before_[j * width_ + c] = unit_ * size_before_[c];
        }
      });
    }
  }

  // x_bar = (lambda_0 - <lambda_0, v_0> v_0) / beta_0. The division comes last: for a tiny signal its terms would overflow.
  void finish(const T* r, T* x_bar) {
    T *const scale = weights_.data(), *const weights = scale + width_;
    each([&](int c) {
      const double factor = K_ > 0 ? 1 : alpha(0, c);
      scale[c] = narrow(factor * inverse(0, c));
      for (int i = 1; i < K_; ++i) weights[(i - 1) * width_ + c] = narrow(A(0, i)[c]);
    });
    engine_.run([&](Rows rows) {
      engine_.on_rows.combine(width_, rows, scale, r, V_ + plane_, plane_, std::max(K_ - 1, 0), weights, x_bar);
    });
  }

  // <w, v_j> for j < count, then <u, v_j>; u may be null.
  std::vector<double> inner_products(const T* w, const T* u, int count) {
    return engine_.sum((u ? 2 : 1) * numbers(count), [&](Rows rows, double* sums) {
      engine_.on_rows.dots(width_, rows, w, u, V_, plane_, count, sums);
    });
  }

  // w = from - sum_j inner_j v_j, and u in place by the inner products that follow; returns |w|^2.
  std::vector<double> remove(const std::vector<double>& inner, const T* from, T* w, T* u, int count) {
    std::copy(inner.begin(), inner.end(), weights_.begin());
    return engine_.sum(width_, [&](Rows rows, double* sums) {
      engine_.on_rows.remove(width_, rows, from, w, u, V_, plane_, count, weights_.data(), sums);
    });
  }

  double alpha(int k, int c) const { return alpha_[k * width_ + c]; }

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
  const double unit_;
  std::vector<double> A_, last_, rho_, tau_;  // last_: m_k; tau_: <r, v_K>
  std::vector<double> drift_, drift_before_, drift_next_, size_, size_before_, size_z_;
  std::vector<T> weights_;
};

}  // namespace

template <class T, class I>
void optimal_adjoint(const Csr<T, I>& graph, Isa isa, int threads, int d, int K, const T* V, const double* gamma,
                     const double* sqrt_beta, const T* alpha, const T* z_bar, T* x_bar, T* alpha_bar, T* work) {
  over_panels<T>(graph.rows, d, threads, [&](const Panel& panel) {
    const ColumnsIn<double> gamma_(gamma, K + 1, d, panel), sqrt_beta_(sqrt_beta, K + 1, d, panel);
    const ColumnsIn<T> alpha_(alpha, K + 1, d, panel), z_bar_(z_bar, graph.rows, d, panel);
    const ColumnsOut<T> x_bar_(x_bar, graph.rows, d, panel), alpha_bar_(alpha_bar, K + 1, d, panel);
    Engine<T, I> engine(graph, isa, panel.threads, panel.width);
    OptimalAdjoint<T, I> adjoint(engine, panel.width, K, packed(V, K + 1, graph.rows, panel), gamma_, sqrt_beta_, alpha_);
    adjoint.run(z_bar_, x_bar_, alpha_bar_, packed(work, 2, graph.rows, panel));
  });
}

#define POLYBASIS_INSTANTIATE(T, I)                                                                                \
  template void optimal_adjoint(const Csr<T, I>&, Isa, int, int, int, const T*, const double*, const double*,      \
                                const T*, const T*, T*, T*, T*);
POLYBASIS_INSTANTIATE(float, int32_t)
POLYBASIS_INSTANTIATE(float, int64_t)
POLYBASIS_INSTANTIATE(double, int32_t)
POLYBASIS_INSTANTIATE(double, int64_t)

}  // namespace polybasis
