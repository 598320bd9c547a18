// Filters by a three-term recurrence with separate coefficients for each channel, and their gradients.
#include <cassert>
#include <utility>
#include <vector>

#include "algorithms.hpp"
#include "engine.hpp"
#include "panels.hpp"

namespace polybasis {
namespace {

template <class T, class I>
void recurrence_of_panel(const Csr<T, I>& graph, Isa isa, int threads, int d, int K, const Recurrence<T>& coefficients,
                         const T* alpha, const T* x, T* h, int planes, T* z) {
  assert(K >= 0 && d <= max_width<T> && (planes >= 2 || K == 0));
  Engine<T, I> engine(graph, isa, threads, d);
  const int64_t plane = graph.rows * d;
  const auto vector = [&](int k) { return k < 0 ? nullptr : h + (k % planes) * plane; };
  engine.run([&](Rows rows) {
    engine.vector_kernels.linear_combination(d, rows, coefficients.s, x, nullptr, nullptr, nullptr, nullptr, vector(0));
    engine.vector_kernels.linear_combination(d, rows, alpha, vector(0), nullptr, nullptr, nullptr, nullptr, z);
  });
  for (int k = 0; k < K; ++k) {
    const int64_t at = k * d;
    const RecurrenceStep<T> step{
        .a = coefficients.a + at,
        .b = coefficients.b + at,
        .c = coefficients.c + at,
        .alpha = alpha + at + d,
        .h = vector(k),
        .h_prev = vector(k - 1),
        .h_next = vector(k + 1),
        .z = z,
    };
    const auto Ph = engine.product_with(vector(k));
    engine.run([&](Rows rows) { engine.product_kernels.recurrence(Ph, d, rows, step); });
  }
}

// The sums of the gradient have rows of `stride` numbers.
template <class T, class I>
void adjoint_of_panel(const Csr<T, I>& graph, Isa isa, int threads, int d, int K, const Recurrence<T>& coefficients,
                      const T* alpha, const T* h, const T* z_bar, const RecurrenceGradient<T>& gradient, int stride,
                      T* work) {
  Engine<T, I> engine(graph, isa, threads, d);
  const int64_t plane = graph.rows * d;
  const auto vector = [&](int k) { return k < 0 ? nullptr : h + k * plane; };
  const std::vector<T> none(d, T(0));
  // lambda_k overwrites lambda_{k+2}; choose the buffers so that lambda_0 ends in gradient.x.
  T* lambda = K % 2 ? work : gradient.x;
  T* other = K % 2 ? gradient.x : work;
  engine.run([&](Rows rows) {
    engine.vector_kernels.linear_combination(d, rows, alpha + K * d, z_bar, nullptr, nullptr, nullptr, nullptr, lambda);
    engine.vector_kernels.linear_combination(d, rows, none.data(), z_bar, nullptr, nullptr, nullptr, nullptr, other);
  });
  const auto add = [&](const double* sums, double* out) {
    for (int c = 0; c < d; ++c) out[c] += sums[c];
  };
  for (int k = K - 1; k >= 0; --k) {
    const int64_t at = k * d;
    const T* c = k + 1 < K ? coefficients.c + at + d : none.data();
    const RecurrenceAdjointStep<T> step{
        .a = coefficients.a + at,
        .b = coefficients.b + at,
        .c = c,
        .alpha = alpha + at,
        .z_bar = z_bar,
        .lambda = lambda,
        .lambda_next = other,
        .h = vector(k),
        .h_prev = vector(k - 1),
    };
    const auto Plambda = engine.product_with(lambda);
    const double* const sums = engine.sum(4 * d, [&](Rows rows, double* partial) {
      engine.product_kernels.recurrence_adjoint(Plambda, d, rows, step, partial);
    });
    add(&sums[0], gradient.a + k * stride);
    add(&sums[d], gradient.b + k * stride);
    add(&sums[2 * d], gradient.c + k * stride);
    add(&sums[3 * d], gradient.alpha + k * stride);
    std::swap(lambda, other);
  }
  const double* const dot_last = engine.sum(
      d, [&](Rows rows, double* partial) { engine.vector_kernels.inner_product(d, rows, z_bar, vector(K), partial); });
  add(dot_last, gradient.alpha + K * stride);
  const double* const dot_first = engine.sum(
      d, [&](Rows rows, double* partial) { engine.vector_kernels.inner_product(d, rows, lambda, vector(0), partial); });
  for (int c = 0; c < d; ++c) {
    const T s = coefficients.s[c];
    if (s != 0) gradient.s[c] += dot_first[c] / s;
  }
  engine.run([&](Rows rows) {
    engine.vector_kernels.linear_combination(d, rows, coefficients.s, lambda, nullptr, nullptr, nullptr, nullptr,
                                             lambda);
  });
}

// The columns of a panel in the coefficients.
template <class T>
struct PanelRecurrence {
  PanelRecurrence(Workspace& workspace, const Recurrence<T>& all, int K, int d, const Panel& panel)
      : s(workspace, all.s, 1, d, panel), a(workspace, all.a, K, d, panel), b(workspace, all.b, K, d, panel),
        c(workspace, all.c, K, d, panel) {}
  Recurrence<T> get() const { return {s, a, b, c}; }

  const InputColumns<T> s, a, b, c;
};

}  // namespace

template <class T, class I>
void recurrence(const Csr<T, I>& graph, Isa isa, int threads, int d, int K, const Recurrence<T>& coefficients,
                const T* alpha, const T* x, T* h, int planes, T* z) {
  for_each_panel<T>(graph.rows, d, threads, [&](const Panel& panel) {
    Workspace workspace;
    const PanelRecurrence<T> coefficients_(workspace, coefficients, K, d, panel);
    const InputColumns<T> alpha_(workspace, alpha, K + 1, d, panel), x_(workspace, x, graph.rows, d, panel);
    const OutputColumns<T> z_(workspace, z, graph.rows, d, panel);
    recurrence_of_panel<T, I>(graph, isa, panel.threads, panel.width, K, coefficients_.get(), alpha_, x_,
                              panel_data(h, planes, graph.rows, panel), planes, z_);
  });
}

template <class T, class I>
void recurrence_adjoint(const Csr<T, I>& graph, Isa isa, int threads, int d, int K, const Recurrence<T>& coefficients,
                        const T* alpha, const T* h, const T* z_bar, const RecurrenceGradient<T>& gradient, T* work) {
  for_each_panel<T>(graph.rows, d, threads, [&](const Panel& panel) {
    Workspace workspace;
    const PanelRecurrence<T> coefficients_(workspace, coefficients, K, d, panel);
    const InputColumns<T> alpha_(workspace, alpha, K + 1, d, panel), z_bar_(workspace, z_bar, graph.rows, d, panel);
    const OutputColumns<T> x_bar(workspace, gradient.x, graph.rows, d, panel);
    const int first = panel.first;
    adjoint_of_panel<T, I>(
        graph, isa, panel.threads, panel.width, K, coefficients_.get(), alpha_, panel_data(h, K + 1, graph.rows, panel),
        z_bar_,
        {x_bar, gradient.alpha + first, gradient.s + first, gradient.a + first, gradient.b + first, gradient.c + first},
        d, panel_data(work, 1, graph.rows, panel));
  });
}

#define POLYBASIS_INSTANTIATE(T, I)                                                                                 \
  template void recurrence(const Csr<T, I>&, Isa, int, int, int, const Recurrence<T>&, const T*, const T*, T*, int, \
                           T*);                                                                                     \
  template void recurrence_adjoint(const Csr<T, I>&, Isa, int, int, int, const Recurrence<T>&, const T*, const T*,  \
                                   const T*, const RecurrenceGradient<T>&, T*);
POLYBASIS_INSTANTIATE(float, int32_t)
POLYBASIS_INSTANTIATE(float, int64_t)
POLYBASIS_INSTANTIATE(double, int32_t)
POLYBASIS_INSTANTIATE(double, int64_t)

}  // namespace polybasis
