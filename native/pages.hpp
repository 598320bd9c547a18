// What the system is asked to do with memory pages. Hints: whatever comes of them, results are equal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace polybasis {

#if defined(__linux__)
// madvise on the pages, of size `page`, that lie within [first, last).
inline void advise(std::uintptr_t first, std::uintptr_t last, std::uintptr_t page, int advice) {
  first = (first + page - 1) & ~(page - 1);
  last &= ~(page - 1);
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, advice);
}
#endif

// Large pages for an array that is about to be written for the first time: the kernel then zeroes 2 MiB a fault instead of
// 4 KiB, and the product's random reads miss the address cache less often.
inline void ask_for_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  advise(first, first + bytes, std::uintptr_t{1} << 21, MADV_HUGEPAGE);
#endif
}

// An array that lies in a file mapped for reading, of which a part at a time is needed.
template <class T>
struct MappedArray {
  const T* data;
  int64_t size;

  // Gives the pages of [begin, end) back; they stay in the system's file cache while there is room. A fault brings some
  // pages around it too, so those are given back with them, but never any outside of the array.
  void let_go([[maybe_unused]] int64_t begin, [[maybe_unused]] int64_t end) const {
#if defined(__linux__)
    advise(std::max(address(0), address(begin) - std::min(address(begin), around)),
           std::min(address(size), address(end) + around), page, MADV_DONTNEED);
#endif
  }

 private:
  static constexpr std::uintptr_t page = 4096, around = 1 << 16;
  std::uintptr_t address(int64_t place) const { return reinterpret_cast<std::uintptr_t>(data + place); }
};

}  // namespace polybasis
