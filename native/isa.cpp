// Chooses, at run time, the passes for this processor.
#include "passes.hpp"

namespace polybasis {

#define POLYBASIS_DECLARE(isa)             \
  namespace isa {                          \
  template <class T, class I>              \
  const Passes<T, I>& table();             \
  template <class T>                       \
  const RowPasses<T>& row_table();         \
  template <class I>                       \
  const BarePasses<I>& bare_table();       \
  }
POLYBASIS_DECLARE(plain)
#ifdef POLYBASIS_X86
POLYBASIS_DECLARE(avx2)
POLYBASIS_DECLARE(avx512)
#endif
#undef POLYBASIS_DECLARE

Isa best_isa() {
#ifdef POLYBASIS_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return Isa::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
#endif
  return Isa::plain;
}

const char* name(Isa isa) {
  switch (isa) {
    case Isa::avx512: return "avx512";
    case Isa::avx2: return "avx2";
    case Isa::plain: break;
  }
  return "plain";
}

template <class T, class I>
const Passes<T, I>& passes([[maybe_unused]] Isa isa) {
#ifdef POLYBASIS_X86
  if (isa == Isa::avx512) return avx512::table<T, I>();
  if (isa == Isa::avx2) return avx2::table<T, I>();
#endif
  return plain::table<T, I>();
}

template <class T>
const RowPasses<T>& row_passes([[maybe_unused]] Isa isa) {
#ifdef POLYBASIS_X86
  if (isa == Isa::avx512) return avx512::row_table<T>();
  if (isa == Isa::avx2) return avx2::row_table<T>();
#endif
  return plain::row_table<T>();
}

template <class I>
const BarePasses<I>& bare_passes([[maybe_unused]] Isa isa) {
#ifdef POLYBASIS_X86
  if (isa == Isa::avx512) return avx512::bare_table<I>();
  if (isa == Isa::avx2) return avx2::bare_table<I>();
#endif
  return plain::bare_table<I>();
}

template const Passes<float, int32_t>& passes(Isa);
template const Passes<float, int64_t>& passes(Isa);
template const Passes<double, int32_t>& passes(Isa);
template const Passes<double, int64_t>& passes(Isa);
template const RowPasses<float>& row_passes(Isa);
template const RowPasses<double>& row_passes(Isa);
template const BarePasses<int32_t>& bare_passes(Isa);
template const BarePasses<int64_t>& bare_passes(Isa);

}  // namespace polybasis
