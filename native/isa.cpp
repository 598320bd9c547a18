// Selects the row kernels at run time.
#include "row_kernels.hpp"

namespace polybasis {

#define POLYBASIS_DECLARE(isa)                    \
  namespace isa {                                 \
  template <class T, class I>                     \
  const ProductKernels<T, I>& product_table();    \
  template <class T>                              \
  const VectorKernels<T>& vector_table();         \
  template <class I>                              \
  const UnweightedKernels<I>& unweighted_table(); \
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
const ProductKernels<T, I>& product_kernels([[maybe_unused]] Isa isa) {
#ifdef POLYBASIS_X86
  if (isa == Isa::avx512) return avx512::product_table<T, I>();
  if (isa == Isa::avx2) return avx2::product_table<T, I>();
#endif
  return plain::product_table<T, I>();
}

template <class T>
const VectorKernels<T>& vector_kernels([[maybe_unused]] Isa isa) {
#ifdef POLYBASIS_X86
  if (isa == Isa::avx512) return avx512::vector_table<T>();
  if (isa == Isa::avx2) return avx2::vector_table<T>();
#endif
  return plain::vector_table<T>();
}

template <class I>
const UnweightedKernels<I>& unweighted_kernels([[maybe_unused]] Isa isa) {
#ifdef POLYBASIS_X86
  if (isa == Isa::avx512) return avx512::unweighted_table<I>();
  if (isa == Isa::avx2) return avx2::unweighted_table<I>();
#endif
  return plain::unweighted_table<I>();
}

template const ProductKernels<float, int32_t>& product_kernels(Isa);
template const ProductKernels<float, int64_t>& product_kernels(Isa);
template const ProductKernels<double, int32_t>& product_kernels(Isa);
template const ProductKernels<double, int64_t>& product_kernels(Isa);
template const VectorKernels<float>& vector_kernels(Isa);
template const VectorKernels<double>& vector_kernels(Isa);
template const UnweightedKernels<int32_t>& unweighted_kernels(Isa);
template const UnweightedKernels<int64_t>& unweighted_kernels(Isa);

}  // namespace polybasis
