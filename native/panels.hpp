// Splits a signal into panels of channels. Channels are independent, so panels are independent problems. On a graph
// whose signals fit into the caches, panels are narrow and each thread works on its own panels without synchronisation.
//
// Panel layout: a basis of K + 1 vectors on N nodes and d channels is stored panel after panel, each (K+1) x N x width;
// `panel_data` locates a panel. All other arrays are row-major with d columns.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "parallel.hpp"
#include "row_kernels.hpp"
#include "workspace.hpp"

namespace polybasis {

// Up to this size of a panel of max_width channels, panels of half that width are faster.
constexpr int64_t cached_panel_bytes = 6 << 20;

// Channels of a panel; the last panel of a signal may have fewer.
template <class T>
constexpr int panel_width(int64_t rows) {
  return rows * max_width<T> * int64_t(sizeof(T)) <= cached_panel_bytes ? max_width<T> / 2 : max_width<T>;
}

struct Panel {
  int first, width, threads;
};

inline bool is_panel_of(const Panel& panel, int d) {
  return panel.first >= 0 && panel.width > 0 && panel.first + panel.width <= d && panel.threads >= 1;
}

// Calls f(panel) for all panels of d channels.
template <class T, class F>
void for_each_panel(int64_t rows, int d, int threads, F&& f) {
  threads = std::max(threads, 1);
  const int width = panel_width<T>(rows), count = (d + width - 1) / width;
  const bool shared = width == max_width<T> || count % threads != 0;  // all threads work on one panel
  parallel_for(count, shared ? 1 : threads, [&](int64_t p) {
    const int first = static_cast<int>(p) * width;
    f(Panel{first, std::min(width, d - first), shared ? threads : 1});
  });
}

// The start of a panel in an array of `planes` vectors in panel layout.
template <class T>
T* panel_data(T* array, int planes, int64_t rows, const Panel& panel) {
  assert(planes >= 0 && panel.first % panel_width<std::remove_const_t<T>>(rows) == 0);
  return array + planes * rows * panel.first;
}

// The columns of a panel in an array with d columns, for reading: copied, unless the panel has all columns.
template <class T>
class InputColumns {
 public:
  InputColumns(Workspace& workspace, const T* array, int64_t rows, int d, const Panel& panel) : data_(array) {
    assert(is_panel_of(panel, d) && reinterpret_cast<std::uintptr_t>(array) % alignof(T) == 0);
    if (panel.width == d) return;
    T* const copy = workspace.array<T>(rows * panel.width);
    for (int64_t i = 0; i < rows; ++i) std::copy_n(array + i * d + panel.first, panel.width, copy + i * panel.width);
    data_ = copy;
  }
  InputColumns(const InputColumns&) = delete;
  operator const T*() const { return data_; }

 private:
  const T* data_;
};

// The columns of a panel in an array with d columns, for writing: the destructor copies them to the array.
template <class T>
class OutputColumns {
 public:
  OutputColumns(Workspace& workspace, T* array, int64_t rows, int d, const Panel& panel)
      : array_(array), rows_(rows), d_(d), panel_(panel), data_(array) {
    assert(is_panel_of(panel, d) && reinterpret_cast<std::uintptr_t>(array) % alignof(T) == 0);
    if (panel.width != d) data_ = workspace.array<T>(rows * panel.width);
  }
  ~OutputColumns() {
    if (data_ == array_) return;
    for (int64_t i = 0; i < rows_; ++i)
      std::copy_n(data_ + i * panel_.width, panel_.width, array_ + i * d_ + panel_.first);
  }
  OutputColumns(const OutputColumns&) = delete;
  operator T*() const { return data_; }

 private:
  T* const array_;
  const int64_t rows_;
  const int d_;
  const Panel panel_;
  T* data_;
};

}  // namespace polybasis
