// Renumbers the nodes of a graph so that consecutive rows of P read the same rows of the signal. The product of a
// signal that exceeds the caches spends most of its time on those reads.
#pragma once

#include <cstdint>
#include <vector>

#include "row_kernels.hpp"

namespace polybasis {

// The pattern of a square sparse matrix in compressed rows.
template <class I>
struct Neighbours {
  const I* indptr;
  const I* indices;
  int64_t rows;
};

// A new numbering of the nodes: node order[i] becomes node i. saved: the estimated number of rows of the signal, per
// node, that a product then reads from the cache instead of from memory.
template <class I>
struct Ordering {
  std::vector<I> order;
  double saved = 0;
};

// A numbering that makes products of signals larger than the cache faster; empty if it saves too little. It depends on
// the pattern only and takes about the time of a few products of 64 channels.
template <class I>
Ordering<I> locality_order(const Neighbours<I>&);

// Renumbers the rows and columns of P. The nonzeros of a row keep their order, so their sum keeps its bits. Returns
// whether `order` is a permutation.
template <class T, class I>
bool permute(const Csr<T, I>& P, const I* order, I* indptr, I* indices, T* values);

// y_i = x_order[i]. Returns whether all entries of `order` are in range.
template <class T, class I>
bool take_rows(int threads, int64_t rows, int64_t width, const T* x, const I* order, T* y);

}  // namespace polybasis
