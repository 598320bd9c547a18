// Algorithms do O(K^2) operations on each channel besides the sweeps over the rows. On small graphs these loops over
// the channels of a panel take as long as the sweeps, so they are compiled for wider registers too.
#pragma once

#include "row_kernels.hpp"

namespace polybasis {

#if defined(POLYBASIS_X86)
// f() with AVX2 in everything that is inlined into it. FMA stays off, so results have the same bits as without AVX2.
template <class F>
__attribute__((target("avx2"), flatten, noinline)) void call_with_avx2(F&& f) {
  f();
}
#endif

// Calls f() in code compiled for the instruction set, as far as that does not change results.
template <class F>
void call_compiled_for([[maybe_unused]] Isa isa, F&& f) {
#if defined(POLYBASIS_X86)
  if (isa != Isa::plain) return call_with_avx2(f);
#endif
  f();
}

}  // namespace polybasis
