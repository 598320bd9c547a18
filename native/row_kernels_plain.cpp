#define POLYBASIS_ISA plain
#define POLYBASIS_BYTES 16
#include "row_kernels.inl"
