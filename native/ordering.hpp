// Renumbering the nodes of a graph, so that rows of P that are multiplied one after the other read the same rows of the
// signal. A product of a signal that exceeds the caches spends most of its time on those reads.
#pragma once

#include <cstdint>
#include <vector>

#include "passes.hpp"

namespace polybasis {

// The pattern of a square sparse matrix in compressed rows.
template <class I>
struct Neighbours {
  const I* indptr;
  const I* indices;
  int64_t rows;
};

// A new numbering of the nodes: order[i] is the node that becomes node i. saved: how many rows of the signal, for each node, a
// product then reads from the cache instead of from memory, by an estimate.
template <class I>
struct Ordering {
  std::vector<I> order;
  double saved = 0;
};

// A numbering that makes products of signals larger than the cache faster; empty where too little is saved. It depends on the
// pattern only and takes the time of a few products of 64 channels.
template <class I>
Ordering<I> locality_order(const Neighbours<I>&);

// Renumbers the rows and columns of P. The nonzeros of a row keep their order, and thus their sum its rounding. Returns false
// if `order` is not a permutation.
template <class T, class I>
bool permute(const Csr<T, I>& P, const I* order, I* indptr, I* indices, T* values);

// Row i of y becomes row order[i] of x. Returns false if `order` has a row out of range.
template <class T, class I>
bool take_rows(int threads, int64_t rows, int64_t width, const T* x, const I* order, T* y);

}  // namespace polybasis
