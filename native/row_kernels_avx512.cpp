#define POLYBASIS_ISA avx512
#define POLYBASIS_BYTES 64
#include "row_kernels.inl"
