// Hints to the operating system about memory pages. They affect speed and memory, never results.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace polybasis {

#if defined(__linux__)
// madvise on the pages of size `page` that lie within [first, last).
inline void advise(std::uintptr_t first, std::uintptr_t last, std::uintptr_t page, int advice) {
  first = (first + page - 1) & ~(page - 1);
  last &= ~(page - 1);
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, advice);
}
#endif

// Requests 2 MiB pages for an array before its first write: fewer page faults, and fewer TLB misses in random reads.
inline void advise_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  advise(first, first + bytes, std::uintptr_t{1} << 21, MADV_HUGEPAGE);
#endif
}

// An array in a file that is mapped for reading.
template <class T>
struct MappedArray {
  const T* data;
  int64_t size;

  // Unmaps the resident pages of [begin, end); the file cache may keep them. A page fault also maps neighbouring pages,
  // so those within `fault_around` bytes are dropped too, as far as they belong to the array.
  void drop_pages([[maybe_unused]] int64_t begin, [[maybe_unused]] int64_t end) const {
#if defined(__linux__)
    advise(std::max(address(0), address(begin) - std::min(address(begin), fault_around)),
           std::min(address(size), address(end) + fault_around), page, MADV_DONTNEED);
#endif
  }

 private:
  static constexpr std::uintptr_t page = 4096, fault_around = 1 << 16;
  std::uintptr_t address(int64_t element) const { return reinterpret_cast<std::uintptr_t>(data + element); }
};

}  // namespace polybasis
