// A parallel loop over tasks that may throw.
#pragma once

#include <cstdint>
#include <exception>

namespace polybasis {

// Calls f(i) for i < count, dynamically scheduled. An exception in f (out of memory) is rethrown after the loop. With
// one thread this is a plain loop, which may run inside a parallel region.
template <class F>
void parallel_for(int64_t count, int threads, F&& f) {
  if (threads <= 1 || count <= 1) {
    for (int64_t i = 0; i < count; ++i) f(i);
    return;
  }
  std::exception_ptr thrown;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < count; ++i) {
    try {
      f(i);
    } catch (...) {
#pragma omp critical
      thrown = std::current_exception();
    }
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace polybasis
