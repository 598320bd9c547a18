#define POLYBASIS_ISA avx2
#define POLYBASIS_BYTES 32
#include "row_kernels.inl"
