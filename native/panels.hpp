// Signals cut into panels of channels. Channels never mix, so a panel is a problem of its own; on a graph whose signals fit
// the caches, narrow panels stay closer to the processor and each thread works on panels of its own, waiting for nobody.
//
// A basis of K + 1 vectors on N nodes and d channels is kept panel after panel, each (K+1) x N x width: `packed` finds a
// panel's part. All other arrays are row-major with d columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>

#include "passes.hpp"

namespace polybasis {

constexpr int64_t near_signal = 6 << 20;  // bytes of a widest panel up to which panels of half that width are faster

// Channels of a panel (the last one of a signal may have fewer).
template <class T>
constexpr int panel_width(int64_t rows) {
  return rows * widest<T> * int64_t(sizeof(T)) <= near_signal ? widest<T> / 2 : widest<T>;
}

struct Panel {
  int first, width, threads;
};

// Calls f(panel) for all panels of d channels. What f throws (memory may run out) leaves the threads first.
template <class T, class F>
void over_panels(int64_t rows, int d, int threads, F&& f) {
  threads = std::max(threads, 1);
  const int width = panel_width<T>(rows), count = (d + width - 1) / width;
  const auto panel = [&](int p, int each) { return Panel{p * width, std::min(width, d - p * width), each}; };
  if (width == widest<T> || count % threads != 0) {
    for (int p = 0; p < count; ++p) f(panel(p, threads));
    return;
  }
  std::exception_ptr thrown;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int p = 0; p < count; ++p) {
    try {
      f(panel(p, 1));
    } catch (...) {
#pragma omp critical
      thrown = std::current_exception();
    }
  }
  if (thrown) std::rethrow_exception(thrown);
}

// A panel's part of a packed array with `planes` vectors.
template <class T>
T* packed(T* array, int planes, int64_t rows, const Panel& panel) {
  return array + planes * rows * panel.first;
}

// A panel's columns of an array with d of them, to read.
template <class T>
class ColumnsIn {
 public:
  ColumnsIn(const T* array, int64_t rows, int d, const Panel& panel) : data_(array) {
    if (panel.width == d) return;
    copy_.reset(new T[rows * panel.width]);
    for (int64_t i = 0; i < rows; ++i)
      std::copy_n(array + i * d + panel.first, panel.width, copy_.get() + i * panel.width);
    data_ = copy_.get();
  }
  ColumnsIn(const ColumnsIn&) = delete;
  operator const T*() const { return data_; }

 private:
  std::unique_ptr<T[]> copy_;
  const T* data_;
};

// A panel's columns of an array with d of them, to write: they are in the array when this goes out of scope.
template <class T>
class ColumnsOut {
 public:
  ColumnsOut(T* array, int64_t rows, int d, const Panel& panel)
      : array_(array), rows_(rows), d_(d), panel_(panel), data_(array) {
    if (panel.width == d) return;
    copy_.reset(new T[rows * panel.width]);
    data_ = copy_.get();
  }
  ~ColumnsOut() {
    for (int64_t i = 0; i < rows_ && copy_; ++i)
      std::copy_n(copy_.get() + i * panel_.width, panel_.width, array_ + i * d_ + panel_.first);
  }
  ColumnsOut(const ColumnsOut&) = delete;
  operator T*() const { return data_; }

 private:
  T* const array_;
  const int64_t rows_;
  const int d_;
  const Panel panel_;
  std::unique_ptr<T[]> copy_;
  T* data_;
};

}  // namespace polybasis
