// Memory for the arrays of a panel. On small graphs, allocating them would take as long as the computation.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace polybasis {

// Hands out arrays that live as long as the workspace, from memory that the thread keeps for its next workspace; arrays
// that do not fit are allocated. A thread has one workspace at a time.
class Workspace {
 public:
  Workspace() : memory_(memory_of_thread()) {}
  Workspace(const Workspace&) = delete;

  // An uninitialised array, aligned to a cache line if it fits.
  template <class T>
  T* array(int64_t count) {
    assert(count >= 0);
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    if (bytes > capacity - used_) {
      allocated_.emplace_back(new std::byte[bytes]);
      return reinterpret_cast<T*>(allocated_.back().get());
    }
    T* const result = reinterpret_cast<T*>(memory_ + used_);
    used_ = std::min(capacity, (used_ + bytes + cache_line - 1) / cache_line * cache_line);
    return result;
  }

  // An array of equal numbers.
  template <class T>
  T* array(int64_t count, T value) {
    T* const result = array<T>(count);
    std::fill_n(result, count, value);
    return result;
  }

 private:
  static constexpr size_t capacity = 1 << 18, cache_line = 64;

  static std::byte* memory_of_thread() {
    thread_local const std::unique_ptr<std::byte[]> memory(new std::byte[capacity + cache_line]);
    const auto address = reinterpret_cast<std::uintptr_t>(memory.get());
    return memory.get() + (cache_line - address % cache_line) % cache_line;
  }

  std::byte* const memory_;
  size_t used_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> allocated_;
};

}  // namespace polybasis
