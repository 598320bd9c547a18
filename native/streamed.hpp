// Lanczos steps on an unweighted graph that may be larger than memory. Vectors are scaled as in UnweightedKernels.
#pragma once

#include <cstdint>

#include "array_source.hpp"
#include "row_kernels.hpp"

namespace polybasis {

// If the indices are read from a file, indptr lies in a file mapped for reading, whose pages are dropped after use.
template <class I>
struct StreamedCsr {
  UnweightedRows rows;
  Source<I> indices;

  bool mapped() const { return indices.file != nullptr; }
};

// The order of a sweep. backward: from the last block to the first; alternating directions reuses the file cache.
// stripe_bytes: the part of a vector that is read at random at a time; columns are split into stripes accordingly.
struct Streaming {
  bool backward;
  int64_t stripe_bytes;
};

// w = scale P u - beta w and sums <w, u>. Returns whether all indices are in range.
template <class I>
bool streamed_product(const StreamedCsr<I>&, Isa, int threads, Streaming, int width, const float* u,
                      const double* scale, const double* beta, float* w, double* sums);

// u = scale u; w = w - gamma u; sums |w|^2.
template <class I>
void streamed_subtract(const StreamedCsr<I>&, Isa, int threads, Streaming, int width, float* u, const double* scale,
                       const double* gamma, float* w, double* sums);

}  // namespace polybasis
