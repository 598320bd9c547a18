// Row compression: a factorisation of P whose product takes fewer operations.
//
// Equal rows: P = S Q S', where S assigns nodes to classes of equal rows and Q is the quotient matrix between classes.
// P is symmetric, so equal rows are equal columns: a row has all nodes of a class, with one value, or none of them.
//
// Row deltas: a row of Q that is nearly a multiple of an earlier row (its parent) is stored as the difference to that
// multiple. Its product is the product of the difference plus the multiple of the parent's product. A value that is not
// finite in the parent's product propagates to the row.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "row_kernels.hpp"

namespace polybasis {

// A sparse matrix that owns its arrays.
template <class T, class I>
struct OwnedCsr {
  std::vector<I> indptr{0}, indices;
  std::vector<T> values;

  int64_t rows() const { return static_cast<int64_t>(indptr.size()) - 1; }
  int64_t nonzeros() const { return static_cast<int64_t>(indices.size()); }
  void add(I column, T value) {
    indices.push_back(column);
    values.push_back(value);
  }
  void end_row() { indptr.push_back(static_cast<I>(indices.size())); }
  Csr<T, I> view() const { return {indptr.data(), indices.data(), values.empty() ? nullptr : values.data(), rows()}; }
};

template <class T, class I>
struct RowCompression {
  OwnedCsr<T, I> members;           // S', without values: all are 1
  OwnedCsr<T, I> quotient;          // Q, with the differences for rows that have a delta
  std::vector<RowDelta<T>> deltas;  // in ascending order of rows
  std::vector<I> row_class;         // the class of each row: S

  // The compression of P, or null if it saves less than a quarter of the work.
  static std::unique_ptr<const RowCompression> of(const Csr<T, I>& P);
};

// Whether indptr is monotone and all indices are in range.
template <class T, class I>
bool is_valid(const Csr<T, I>& matrix, int64_t columns) {
  if (matrix.indptr[0] != 0 || !std::is_sorted(matrix.indptr, matrix.indptr + matrix.rows + 1)) return false;
  return std::all_of(matrix.indices, matrix.indices + matrix.indptr[matrix.rows],
                     [&](I column) { return 0 <= column && column < columns; });
}

// Whether deltas are in ascending order of rows, with earlier parents.
template <class T>
bool is_valid(const std::vector<RowDelta<T>>& deltas, int64_t rows) {
  int64_t previous = -1;
  for (const auto& [row, parent, factor] : deltas) {
    if (row <= previous || row >= rows || parent < 0 || parent >= row) return false;
    previous = row;
  }
  return true;
}

// The class of each row of P; classes are numbered in the order of their first rows.
template <class T, class I>
std::vector<I> classes_of_equal_rows(const Csr<T, I>& P) {
  const auto same = [&](I a, I b) {  // bitwise: NaN equals itself
    const I from = P.indptr[a], to = P.indptr[a + 1], other = P.indptr[b];
    return to - from == P.indptr[b + 1] - other && std::equal(P.indices + from, P.indices + to, P.indices + other) &&
           (from == to || std::memcmp(P.values + from, P.values + other, (to - from) * sizeof(T)) == 0);
  };
  std::vector<std::pair<uint64_t, I>> rows(P.rows);  // (hash, row)
  for (int64_t i = 0; i < P.rows; ++i) {
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a offset basis
    const auto mix = [&](uint64_t part) { hash = (hash ^ part) * 0x100000001b3u, hash ^= hash >> 32; };
    for (int64_t e = P.indptr[i]; e < P.indptr[i + 1]; ++e) {
      uint64_t value = 0;
      std::memcpy(&value, P.values + e, sizeof(T));
      mix(static_cast<uint64_t>(P.indices[e]));
      mix(value);
    }
    rows[i] = {hash, static_cast<I>(i)};
  }
  std::sort(rows.begin(), rows.end());
  std::vector<I> first(P.rows);
  for (size_t begin = 0, end; begin < rows.size(); begin = end) {
    for (end = begin; end < rows.size() && rows[end].first == rows[begin].first; ++end) {
      size_t other = begin;
      while (!same(rows[other].second, rows[end].second)) ++other;
      first[rows[end].second] = rows[other].second;
    }
  }
  I classes = 0;
  for (int64_t i = 0; i < P.rows; ++i) first[i] = first[i] == i ? classes++ : first[first[i]];
  return first;
}

// Longer columns (hubs) say little about which rows are similar and are skipped.
constexpr int64_t max_column = 1 << 13;

// Finds, for a row of a matrix with a symmetric pattern, the earlier row that shares most of its columns.
template <class T, class I>
class RowMatcher {
 public:
  explicit RowMatcher(const Csr<T, I>& matrix) : matrix_(matrix), common_(matrix.rows, 0) {}

  struct Match {
    I row = -1;
    int64_t saved = 0;  // nonzeros saved with this row as the parent
  };

  // The best parent among the rows that satisfy `allowed`; ties go to the first row.
  template <class Allowed>
  Match best_parent(I row, Allowed&& allowed) {
    for (int64_t e = matrix_.indptr[row]; e < matrix_.indptr[row + 1]; ++e) {
      const I column = matrix_.indices[e];
      if (matrix_.indptr[column + 1] - matrix_.indptr[column] > max_column) continue;
      for (int64_t f = matrix_.indptr[column]; f < matrix_.indptr[column + 1] && matrix_.indices[f] < row; ++f)
        if (common_[matrix_.indices[f]]++ == 0) candidates_.push_back(matrix_.indices[f]);
    }
    Match best;
    for (const I other : candidates_) {
      const int64_t saved = 2 * int64_t(common_[other]) - (matrix_.indptr[other + 1] - matrix_.indptr[other]) - 1;
      const bool better = saved > best.saved || (saved == best.saved && other < best.row);
      if (better && allowed(other)) best = {other, saved};
      common_[other] = 0;
    }
    candidates_.clear();
    return best;
  }

 private:
  const Csr<T, I> matrix_;
  std::vector<I> common_, candidates_;
};

// Whether row deltas save enough, estimated from a sample of rows, and the search for parents is fast enough.
template <class T, class I>
bool deltas_pay_off(const Csr<T, I>& matrix) {
  constexpr int64_t sampled_rows = 256;
  constexpr double max_steps = 3e8;  // about half a second
  double steps = 0;
  for (int64_t i = 0; i < matrix.rows; ++i) {
    const double length = static_cast<double>(matrix.indptr[i + 1] - matrix.indptr[i]);
    if (length <= max_column) steps += length * length / 2;
  }
  if (steps > max_steps) return false;
  RowMatcher<T, I> matcher(matrix);
  int64_t nonzeros = 0, saved = 0;
  const int64_t stride = std::max<int64_t>(1, matrix.rows / sampled_rows);
  for (int64_t i = stride - 1; i < matrix.rows; i += stride) {
    nonzeros += matrix.indptr[i + 1] - matrix.indptr[i];
    saved += matcher.best_parent(static_cast<I>(i), [](I) { return true; }).saved;
  }
  return 4 * saved > nonzeros;
}

// Differences between rows of a matrix and multiples of earlier rows.
template <class T, class I>
class RowDifference {
 public:
  explicit RowDifference(const Csr<T, I>& matrix) : matrix_(matrix), place_(matrix.rows, -1) {}

  // Appends row - factor * parent to `rest` and returns the factor.
  T append(I row, I parent, OwnedCsr<T, I>& rest) {
    constexpr T agreement = 4 * std::numeric_limits<T>::epsilon();
    for_each_nonzero(parent, [&](int64_t f, I column, T) { place_[column] = f; });
    T factor = 0;
    for_each_nonzero(row, [&](int64_t, I column, T value) {
      if (factor == 0 && place_[column] >= 0) factor = value / matrix_.values[place_[column]];
    });
    for_each_nonzero(row, [&](int64_t, I column, T value) {
      const int64_t f = std::exchange(place_[column], -1);
      const T left = f >= 0 ? value - factor * matrix_.values[f] : value;
      if (!(std::abs(left) <= agreement * std::abs(value))) rest.add(column, left);
    });
    for_each_nonzero(parent, [&](int64_t, I column, T value) {
      if (std::exchange(place_[column], -1) >= 0) rest.add(column, -factor * value);
    });
    return factor;
  }

 private:
  template <class F>
  void for_each_nonzero(I row, F&& f) const {
    for (int64_t e = matrix_.indptr[row]; e < matrix_.indptr[row + 1]; ++e) f(e, matrix_.indices[e], matrix_.values[e]);
  }

  const Csr<T, I> matrix_;
  std::vector<int64_t> place_;  // of each column among the nonzeros of the parent, or -1
};

// Replaces rows of a matrix by their differences to multiples of earlier rows where that saves nonzeros.
// sizes: the number of nodes in the class of each column.
template <class T, class I>
std::vector<RowDelta<T>> extract_deltas(OwnedCsr<T, I>& matrix, const std::vector<double>& sizes) {
  constexpr int max_chain = 8;  // of deltas on deltas, along which rounding errors accumulate
  // Cancellation between a row and its parent leaves rounding errors behind. The terms that a row is computed from may
  // exceed its own terms by this factor at most: at most one digit is lost.
  constexpr double max_growth = 10;
  const OwnedCsr<T, I> original = std::exchange(matrix, {});
  const Csr<T, I> Q = original.view();
  const auto sum_of_terms = [&](const OwnedCsr<T, I>& rows, int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t e = begin; e < end; ++e) sum += std::abs(double(rows.values[e])) * sizes[rows.indices[e]];
    return sum;
  };
  RowMatcher<T, I> matcher(Q);
  RowDifference<T, I> difference(Q);
  std::vector<RowDelta<T>> deltas;
  std::vector<int> chain(Q.rows, 0);  // deltas between a row and a stored row
  std::vector<double> terms(Q.rows);  // the sum of the terms that a row is computed from
  for (I i = 0; i < Q.rows; ++i) {
    const int64_t before = matrix.nonzeros(), length = Q.indptr[i + 1] - Q.indptr[i];
    const double own = terms[i] = sum_of_terms(original, Q.indptr[i], Q.indptr[i + 1]);
    const auto match = matcher.best_parent(i, [&](I other) { return chain[other] < max_chain; });
    const T factor = match.row >= 0 ? difference.append(i, match.row, matrix) : T(0);
    const double with_delta =
        factor != 0 ? sum_of_terms(matrix, before, matrix.nonzeros()) + std::abs(factor) * terms[match.row] : 0;
    if (factor != 0 && matrix.nonzeros() - before < length && with_delta <= max_growth * own) {  // false for NaN
      deltas.push_back({i, match.row, factor});
      chain[i] = chain[match.row] + 1;
      terms[i] = with_delta;
    } else {
      matrix.indices.resize(before);
      matrix.values.resize(before);
      for (int64_t e = Q.indptr[i]; e < Q.indptr[i + 1]; ++e) matrix.add(Q.indices[e], Q.values[e]);
    }
    matrix.end_row();
  }
  return deltas;
}

// Whether the columns of every row are strictly ascending.
template <class T, class I>
bool has_sorted_rows(const Csr<T, I>& P) {
  for (int64_t i = 0; i < P.rows; ++i)
    for (int64_t e = P.indptr[i] + 1; e < P.indptr[i + 1]; ++e)
      if (P.indices[e - 1] >= P.indices[e]) return false;
  return true;
}

template <class T, class I>
std::unique_ptr<const RowCompression<T, I>> RowCompression<T, I>::of(const Csr<T, I>& P) {
  assert(is_valid(P, P.rows));
  const int64_t nonzeros = P.indptr[P.rows];
  if (P.rows == 0 || 4 * (2 * P.rows) > 3 * nonzeros) return nullptr;  // even one class would not save a quarter
  if (!has_sorted_rows(P)) return nullptr;
  std::vector<I> row_class = classes_of_equal_rows(P);
  const I classes = *std::max_element(row_class.begin(), row_class.end()) + 1;
  if (4 * int64_t(classes) > 3 * P.rows && !deltas_pay_off(P)) return nullptr;  // little to save

  auto compression = std::make_unique<RowCompression>();
  auto& [members, quotient, deltas, kept_row_class] = *compression;
  members.indptr.resize(classes + 1);
  for (const I c : row_class) ++members.indptr[c + 1];
  std::partial_sum(members.indptr.begin(), members.indptr.end(), members.indptr.begin());
  members.indices.resize(P.rows);
  std::vector<I> next = members.indptr;
  for (int64_t i = 0; i < P.rows; ++i) members.indices[next[row_class[i]]++] = static_cast<I>(i);

  std::vector<I> count(classes, 0);
  std::vector<T> value_of(classes);
  for (I c = 0; c < classes; ++c) {
    const I first = members.indices[members.indptr[c]];
    bool symmetric = true;  // false if the row has part of a class, or different values on it
    for (int64_t e = P.indptr[first]; e < P.indptr[first + 1]; ++e) {
      const I column = row_class[P.indices[e]];
      if (count[column]++ == 0) quotient.add(column, value_of[column] = P.values[e]);
      symmetric &= P.values[e] == value_of[column];
    }
    quotient.end_row();
    for (int64_t e = quotient.indptr[c]; e < quotient.indptr[c + 1]; ++e) {
      const I column = quotient.indices[e];
      symmetric &= count[column] == members.indptr[column + 1] - members.indptr[column];
      count[column] = 0;
    }
    if (!symmetric) return nullptr;
  }
  if (deltas_pay_off(quotient.view())) {
    std::vector<double> sizes(classes);
    for (I c = 0; c < classes; ++c) sizes[c] = static_cast<double>(members.indptr[c + 1] - members.indptr[c]);
    deltas = extract_deltas(quotient, sizes);
  }
  const int64_t left = quotient.nonzeros() + static_cast<int64_t>(deltas.size()) + 2 * P.rows;
  if (4 * left > 3 * nonzeros) return nullptr;
  assert(is_valid(members.view(), P.rows) && is_valid(quotient.view(), classes) && is_valid(deltas, classes));
  kept_row_class = std::move(row_class);
  return compression;
}

}  // namespace polybasis
