// Steps of the Lanczos process on a graph without values; see BarePasses for the form the vectors are kept in.
#pragma once

#include <cstdint>

#include "passes.hpp"
#include "reading.hpp"

namespace polybasis {

// A graph that may be larger than memory. Where its indices are read from a file, its indptr lies in a file mapped for
// reading, whose pages are let go of when they have been used.
template <class I>
struct StreamedCsr {
  BareRows rows;
  Source<I> indices;

  bool mapped() const { return indices.file != nullptr; }
};

// How it is gone through. backward: from its last row on; taking turns finds the end of the last pass in the file cache.
// stripe_bytes: of a vector, as much as is read from at random at a time; columns are cut accordingly.
struct Streaming {
  bool backward;
  int64_t stripe_bytes;
};

// w = scale P u - beta w and sums <w, u>, both in the passes' form; false where an index was out of range.
template <class I>
bool streamed_product(const StreamedCsr<I>&, Isa, int threads, Streaming, int width, const float* u, const double* scale,
                      const double* beta, float* w, double* sums);

// u = scale u; w = w - gamma u; sums |w|^2.
template <class I>
void streamed_subtract(const StreamedCsr<I>&, Isa, int threads, Streaming, int width, float* u, const double* scale,
                       const double* gamma, float* w, double* sums);

}  // namespace polybasis
