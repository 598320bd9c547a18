// The optimal basis: the Lanczos process on all channels at once, kept orthonormal, ended at each channel's rank.
#include <cmath>
#include <limits>

#include "algorithms.hpp"
#include "engine.hpp"
#include "panels.hpp"
#include "tolerance.hpp"

namespace polybasis {
namespace {

// How far rounding has carried v_{k+1} from each earlier vector, channel by channel, followed by the recurrence that
// <v_{k+1}, v_j> obeys (Simon, "The Lanczos algorithm with partial reorthogonalization", 1984). An estimate costs K^2
// numbers where the inner products themselves would cost another pass over the whole basis at every step.
class Drift {
 public:
  Drift(int K, int width, double unit) : width_(width), unit_(unit) {
    for (auto* rows : {&before_, &now_, &next_}) rows->assign(static_cast<size_t>(K + 2) * width, 0.0);
  }

  struct Estimate {
    double worst;  // largest |<v_{k+1}, v_j>| over j <= k
    int reach;     // those from j = reach on are far below the limit, and so are <v_k, v_j>
  };

  // What to expect of v_{k+1} in a channel; gamma and beta hold steps 0 .. k (beta to k + 1).
  Estimate advance(int channel, int k, double limit, const double* gamma, const double* beta) {
    const auto at = [&](int j) { return static_cast<size_t>(j) * width_ + channel; };
    const auto g = [&](int j) { return gamma[j * width_ + channel]; };
    const auto b = [&](int j) { return beta[j * width_ + channel]; };
    const double norm = b(k + 1);
    Estimate estimate{0, 0};
    const auto note = [&](int j) {
      const double drift = std::abs(next_[at(j)]);
      estimate.worst = std::max(estimate.worst, drift);
      if (drift > limit / 16 || (j < k && std::abs(now_[at(j)]) > limit / 16)) estimate.reach = j + 1;
    };
    now_[at(k)] = 1;
    for (int j = 0; j < k; ++j) {
      double drift = b(j + 1) * now_[at(j + 1)] + (g(j) - g(k)) * now_[at(j)];
      if (j > 0) drift += b(j) * now_[at(j - 1)];
      if (k > 0) drift -= b(k) * before_[at(j)];
      drift += std::copysign(unit_, drift);
      next_[at(j)] = drift / norm;
      note(j);
    }
    next_[at(k)] = unit_ / norm;
    note(k);
    return estimate;
  }

  // v_k and v_{k+1} have just been orthogonalised against the first `count` vectors, themselves left out.
  void reset(int k, int count, double left) {
    std::fill_n(next_.begin(), static_cast<size_t>(count) * width_, left);
    std::fill_n(now_.begin(), static_cast<size_t>(std::min(count, k)) * width_, left);
  }

  void shift() {
    std::swap(before_, now_);
    std::swap(now_, next_);
  }

 private:
  int width_;
  double unit_;
  std::vector<double> before_, now_, next_;
};

template <class T, class I>
class Lanczos {
 public:
  Lanczos(Engine<T, I>& engine, int width, int K, T* V, double* gamma, double* beta, int64_t* rank)
      : engine_(engine), width_(width), plane_(engine.graph.rows * width), V_(V), gamma_(gamma),
        beta_(beta), rank_(rank), K_(K), noise_(width), scale_(width), weights_(static_cast<size_t>(2 * K + 2) * width),
        drift_(K, width, Tolerance<T>::drift_per_step(engine.graph.rows)) {}

  // v_0 = x / |x|, up to the factor left in scale_. The power of two keeps the squares of any finite x in range.
  void start(const T* x, const double* peaks) {
    std::vector<double> factor(width_, 0.0);
    for (int c = 0; c < width_; ++c)
      if (peaks[c] >= std::numeric_limits<T>::min()) factor[c] = std::ldexp(1.0, -std::ilogb(peaks[c]));
    const auto squares = engine_.sum(width_, [&](Rows rows, double* sums) {
      engine_.on_rows.rescale(width_, rows, x, factor.data(), V_, sums);
    });
    for (int c = 0; c < width_; ++c) {
      const double norm = std::sqrt(squares[c]);
      rank_[c] = 0;
      end_or_go_on(c, 0, norm);
      if (norm > 0) beta_[c] = std::min<double>(norm / factor[c], std::numeric_limits<T>::max());
    }
  }

  // v_{k+1}, up to scale_, from v_k and v_{k-1}; v_k becomes final.
  void step(int k) {
    T* w = vector(k + 1);
    set_noise(k);
    project(k, w);
    const auto scale = split(scale_.data()), gamma = split(row(gamma_, k));
    auto norms = lengths([&](Rows rows, double* sums) {
      engine_.on_rows.subtract(width_, rows, vector(k), scale, gamma, w, sums);
    });
    const int reach = drift_reach(k, norms);
    if (reach > 0) orthogonalise(k, reach, norms);
    for (int c = 0; c < width_; ++c) end_or_go_on(c, k + 1, norms[c]);
    drift_.shift();
  }

  // v_K becomes final.
  void finish(int K) {
    engine_.sum(width_, [&](Rows rows, double* sums) {
      engine_.on_rows.rescale(width_, rows, vector(K), scale_.data(), vector(K), sums);
    });
    std::fill(scale_.begin(), scale_.end(), 1.0);
  }

  // w = P v_k - beta_k v_{k-1} and gamma_k = <w, v_k>; w null: gamma_k alone.
  void project(int k, T* w) {
    const T* v_prev = k > 0 ? vector(k - 1) : nullptr;
    const auto scale = split(scale_.data()), beta = split(row(beta_, k));
    const auto Pv = engine_.product_with(vector(k));
    const auto sums = engine_.sum(width_, [&](Rows rows, double* partial) {
      engine_.on_graph.lanczos_product(Pv, width_, rows, vector(k), scale, v_prev, beta, w, partial);
    });
    for (int c = 0; c < width_; ++c) row(gamma_, k)[c] = sums[c] * scale_[c];
  }

 private:
  T* vector(int k) { return V_ + k * plane_; }
  double* row(double* numbers, int k) { return numbers + k * width_; }

  Split<T> split(const double* numbers) const { return Split<T>::of(numbers, width_); }

  template <class Pass>
  std::vector<double> lengths(Pass&& pass) {
    auto squares = engine_.sum(width_, pass);
    for (double& square : squares) square = std::sqrt(square);
    return squares;
  }

  // The error to expect in each residual after v_k.
  void set_noise(int k) {
    // Errors matter as far as they are orthogonal to v_0 .. v_{k+1}. The last vector that a space has room for has none.
    const double nodes = static_cast<double>(engine_.graph.rows);
    const double outside = std::sqrt(std::max(nodes - k - 2, 0.0) / nodes);
    for (int c = 0; c < width_; ++c) {
      double largest = 0, noise = Tolerance<T>::noise;
      for (int j = 1; j <= k; ++j) largest = std::max(largest, row(beta_, j)[c]);
      for (int j = 1; j <= k; ++j)
        if (const double beta = row(beta_, j)[c]; beta > 0) noise *= std::max(1.0, Tolerance<T>::small / beta);
      noise_[c] = std::min(noise, std::max(Tolerance<T>::most * largest, Tolerance<T>::noise)) * outside;
    }
  }

  // Whether the basis of a channel ends at v_k, whose residual has this length.
  bool ends(int c, int k, double norm) const {
    if (norm <= Tolerance<T>::rounding || k + 1 >= engine_.graph.rows) return true;
    return norm <= noise_[c] && stopping_error(c, k, norm) <= Tolerance<T>::harmless;
  }

  // A bound for |T_m(P) x - |x| V T_m(T) e_0| / |x| over all m <= K where v_k is the last vector. Each step of the Chebyshev
  // recurrence on y_m = T_m(T) e_0 drops 2 beta v_{k+1} times the last entry of y_m (half of that at the first); what is dropped at
  // step m arrives at step K multiplied by U_{K-1-m}(P), of norm K - m at most.
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

  void end_or_go_on(int c, int k, double norm) {
    const bool alive = norm > 0 && !(k > 0 && ends(c, k - 1, norm));
    row(beta_, k)[c] = alive ? norm : 0;
    scale_[c] = alive ? 1 / norm : 0;
    rank_[c] += alive;
  }

  // Against how many of v_0 .. v_k the next vector has to be orthogonalised again.
  int drift_reach(int k, const std::vector<double>& norms) {
    bool any = false;
    int reach = 0;
    for (int c = 0; c < width_; ++c) {
      if (ends(c, k, norms[c])) continue;
      row(beta_, k + 1)[c] = norms[c];
      const auto estimate = drift_.advance(c, k, Tolerance<T>::drift, gamma_, beta_);
      const double product = std::hypot(norms[c], row(gamma_, k)[c], k > 0 ? row(beta_, k)[c] : 0.0);  // |P v_k|
      const bool cancelled = norms[c] < Tolerance<T>::cancelled * product;
      any |= cancelled || estimate.worst > Tolerance<T>::drift;
      reach = std::max(reach, cancelled ? k + 1 : estimate.reach);
    }
    return any ? reach : 0;
  }

  // Takes from w what it has of the first `count` vectors, again while that shortens it much ("twice is enough", Kahan and
  // Parlett). v_k is freed of them in the same sweep: by the recurrence its drift would come back in v_{k+2}.
  void orthogonalise(int k, int count, std::vector<double>& norms) {
    const size_t numbers = static_cast<size_t>(count) * width_;
    T* v = k > 0 ? vector(k) : nullptr;
    for (bool shorter = true; shorter; v = nullptr) {
      const auto inner = engine_.sum((v ? 2 : 1) * numbers, [&](Rows rows, double* sums) {
        engine_.on_rows.dots(width_, rows, vector(k + 1), v, V_, plane_, count, sums);
      });
      std::copy(inner.begin(), inner.end(), weights_.begin());
      if (v && count > k) std::fill_n(weights_.begin() + numbers + k * width_, width_, T(0));  // <v_k, v_k>
      const auto left = lengths([&](Rows rows, double* sums) {
        engine_.on_rows.remove(width_, rows, vector(k + 1), vector(k + 1), v, V_, plane_, count, weights_.data(), sums);
      });
      shorter = false;
      for (int c = 0; c < width_; ++c) shorter |= left[c] < 0.7 * norms[c] && !ends(c, k, left[c]);
      norms = left;
    }
    drift_.reset(k, count, Tolerance<T>::after_projection);
  }

  Engine<T, I>& engine_;
  const int width_;
  const int64_t plane_;
  T* const V_;
  double *const gamma_, *const beta_;
  int64_t* const rank_;
  const int K_;
  std::vector<double> noise_, scale_;
  std::vector<T> weights_;
  Drift drift_;
};

template <class T, class I>
void basis_of_panel(const Csr<T, I>& graph, Isa isa, int threads, int d, int K, const T* x, const double* peaks, T* V,
                    double* gamma, double* sqrt_beta, int64_t* rank, bool last_gamma) {
  Engine<T, I> engine(graph, isa, threads, d);
  Lanczos<T, I> lanczos(engine, d, K, V, gamma, sqrt_beta, rank);
  lanczos.start(x, peaks);
  for (int k = 0; k < K; ++k) lanczos.step(k);
  lanczos.finish(K);
  if (last_gamma) lanczos.project(K, nullptr);
}

}  // namespace

template <class T, class I>
void optimal_basis(const Csr<T, I>& graph, Isa isa, int threads, int d, int K, const T* x, const double* peaks, T* V,
                   double* gamma, double* sqrt_beta, int64_t* rank, bool last_gamma) {
  over_panels<T>(graph.rows, d, threads, [&](const Panel& panel) {
    const ColumnsIn<T> x_(x, graph.rows, d, panel);
    const ColumnsOut<double> gamma_(gamma, K + 1, d, panel), sqrt_beta_(sqrt_beta, K + 1, d, panel);
    basis_of_panel<T, I>(graph, isa, panel.threads, panel.width, K, x_, peaks + panel.first,
                         packed(V, K + 1, graph.rows, panel), gamma_, sqrt_beta_, rank + panel.first, last_gamma);
  });
}

template <class T, class I>
void combine(const Csr<T, I>& graph, Isa isa, int threads, int d, int K, const T* V, const T* alpha, T* z) {
  over_panels<T>(graph.rows, d, threads, [&](const Panel& panel) {
    const ColumnsIn<T> alpha_(alpha, K + 1, d, panel);
    const ColumnsOut<T> z_(z, graph.rows, d, panel);
    Engine<T, I> engine(graph, isa, panel.threads, panel.width);
    engine.run([&](Rows rows) {
      engine.on_rows.combine(panel.width, rows, nullptr, nullptr, packed(V, K + 1, graph.rows, panel),
                             graph.rows * panel.width, K + 1, alpha_, z_);
    });
  });
}

template <class T, class I>
void product(const Csr<T, I>& graph, Isa isa, int threads, int d, const T* x, T* y) {
  Engine<T, I> engine(graph, isa, threads, d);
  const auto Px = engine.product_with(x);
  engine.run([&](Rows rows) { engine.on_graph.product(Px, d, rows, y); });
}

template <class T, class I>
void peak(const Csr<T, I>& graph, Isa isa, int threads, int d, const T* x, double* peaks) {
  Engine<T, I> engine(graph, isa, threads, d);
  const auto most = engine.largest(d, [&](Rows rows, double* partial) {
    engine.on_rows.peak(d, rows, x, partial);
  });
  std::copy(most.begin(), most.end(), peaks);
}

#define POLYBASIS_INSTANTIATE(T, I)                                                                                       \
  template void product(const Csr<T, I>&, Isa, int, int, const T*, T*);                                               \
  template void peak(const Csr<T, I>&, Isa, int, int, const T*, double*);                                             \
  template void optimal_basis(const Csr<T, I>&, Isa, int, int, int, const T*, const double*, T*, double*, double*, \
                                 int64_t*, bool);                                                                         \
  template void combine(const Csr<T, I>&, Isa, int, int, int, const T*, const T*, T*);
POLYBASIS_INSTANTIATE(float, int32_t)
POLYBASIS_INSTANTIATE(float, int64_t)
POLYBASIS_INSTANTIATE(double, int32_t)
POLYBASIS_INSTANTIATE(double, int64_t)

}  // namespace polybasis
