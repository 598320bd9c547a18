// Arrays that are read in chunks, from memory or from a file that may be larger than memory.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "pages.hpp"

namespace polybasis {

constexpr int64_t read_page = 4096;

// A file open for reading. `direct` requests O_DIRECT, which bypasses the file cache: a file larger than the cache
// would only evict pages. Falls back to buffered reads where the file system does not support it.
class File {
 public:
  File(const std::string& path, [[maybe_unused]] bool direct) : path_(path) {
#if defined(O_DIRECT)
    if (direct) descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    alignas(read_page) char first[read_page];
    direct_ = descriptor_ >= 0 && pread(descriptor_, first, read_page, 0) >= 0;  // open may succeed where read fails
    if (!direct_ && descriptor_ >= 0) descriptor_ = (close(descriptor_), -1);
#endif
    if (descriptor_ < 0) descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail(std::strerror(errno));
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;

  bool direct() const { return direct_; }

  // Reads at least `least` bytes from `offset` on, and up to `most` if the file has them.
  void read(char* target, int64_t least, int64_t most, int64_t offset) const {
    for (int64_t got = 0; got < least;) {
      const ssize_t more = pread(descriptor_, target + got, most - got, offset + got);
      if (more > 0)
        got += more;
      else if (more == 0)
        fail("unexpected end of file");
      else if (errno != EINTR)
        fail(std::strerror(errno));
    }
  }

 private:
  [[noreturn]] void fail(const char* why) const { throw std::invalid_argument("cannot read " + path_ + ": " + why); }

  const std::string path_;
  int descriptor_ = -1;
  bool direct_ = false;
};

// An array in memory, or in a file starting at byte `offset`.
template <class T>
struct Source {
  const T* data;
  const File* file;  // null: in memory
  int64_t offset;
};

// Reads chunks of a source into its own buffer, for one thread. A copy has a buffer of its own.
template <class T>
class Reader {
 public:
  explicit Reader(const Source<T>& source) : source_(source) {}
  Reader(const Reader& other) : source_(other.source_) {}

  // Elements [begin, end), valid until the next call.
  const T* read(int64_t begin, int64_t end) {
    if (!source_.file) return source_.data + begin;
    // O_DIRECT requires offset, length and buffer to be aligned to pages.
    const int64_t first = source_.offset + begin * int64_t(sizeof(T)), last = source_.offset + end * int64_t(sizeof(T));
    const int64_t from = first / read_page * read_page;
    assert(0 <= begin && begin <= end && source_.offset % int64_t(sizeof(T)) == 0);  // the result is aligned
    const int64_t most = (last - from + read_page - 1) / read_page * read_page;
    if (most > size_) {
      memory_.reset();
      size_ = (most + huge_page - 1) / huge_page * huge_page;
      memory_.reset(static_cast<char*>(std::aligned_alloc(huge_page, size_)));
      if (!memory_) {
        size_ = 0;
        throw std::bad_alloc();
      }
      advise_huge_pages(memory_.get(), size_);
    }
    if (begin < end) source_.file->read(memory_.get(), last - from, most, from);
    return reinterpret_cast<const T*>(memory_.get() + (first - from));
  }

 private:
  static constexpr int64_t huge_page = 1 << 21;
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  Source<T> source_;
  std::unique_ptr<char, Free> memory_;
  int64_t size_ = 0;
};

}  // namespace polybasis
