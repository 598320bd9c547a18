// Steps of the Lanczos process on a graph without values; see BarePasses for the form the vectors are kept in.
#pragma once

#include <cstdint>

#include "passes.hpp"

namespace polybasis {

// How the graph is read. mapped: it lies in files mapped for reading, which may be larger than memory: pages are asked for
// ahead and let go of behind. backward: from its last row on; taking turns finds the end of the last pass in the file cache.
// stripe_bytes: of a vector, as much as is read from at random at a time; columns are cut accordingly.
struct Streaming {
  bool mapped, backward;
  int64_t stripe_bytes;
};

// w = scale P u - beta w and sums <w, u>, both in the passes' form; false where an index was out of range.
template <class I>
bool streamed_product(const BareCsr<I>&, Isa, int threads, Streaming, int width, const float* u, const double* scale,
                      const double* beta, float* w, double* sums);

// u = scale u; w = w - gamma u; sums |w|^2.
template <class I>
void streamed_subtract(const BareCsr<I>&, Isa, int threads, Streaming, int width, float* u, const double* scale,
                       const double* gamma, float* w, double* sums);

}  // namespace polybasis
