// What repeats among the rows of P, so that it is multiplied out once. Equal rows first: P = S Q S', with S from classes of
// equal rows to nodes and Q between the classes. P is symmetric, so equal rows are equal columns, and a row has all nodes of
// a class, at one value, or none. Then rows of Q that are nearly a multiple of an earlier one: such a row of the product is
// that multiple of the earlier one's, and what the two differ in. What is not finite in one row of the product is not in
// those that start from it either.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "passes.hpp"

namespace polybasis {

// A sparse matrix that keeps its arrays.
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
struct Repeats {
  OwnedCsr<T, I> members, core;  // S' without its values, which are all 1, and Q without what its rows have from earlier ones
  std::vector<Link<T>> links;    // in the order of their rows
  std::vector<I> class_of;       // the class of each row: S

  // Those of P, or null where they would save less than a quarter of the work.
  static std::unique_ptr<const Repeats> of(const Csr<T, I>& P);
};

// The class of each row of P, numbered by their first rows.
template <class T, class I>
std::vector<I> classes_of_equal_rows(const Csr<T, I>& P) {
  const auto same = [&](I a, I b) {
    const I from = P.indptr[a], to = P.indptr[a + 1], other = P.indptr[b];
    return to - from == P.indptr[b + 1] - other && std::equal(P.indices + from, P.indices + to, P.indices + other) &&
           (from == to || std::memcmp(P.values + from, P.values + other, (to - from) * sizeof(T)) == 0);  // NaN too is what it is
  };
  std::vector<std::pair<uint64_t, I>> rows(P.rows);  // equal ones have the same number, and so come one after the other
  for (int64_t i = 0; i < P.rows; ++i) {
    uint64_t number = 0xcbf29ce484222325u;
    const auto mix = [&](uint64_t part) { number = (number ^ part) * 0x100000001b3u, number ^= number >> 32; };
    for (int64_t e = P.indptr[i]; e < P.indptr[i + 1]; ++e) {
      uint64_t value = 0;
      std::memcpy(&value, P.values + e, sizeof(T));
      mix(static_cast<uint64_t>(P.indices[e]));
      mix(value);
    }
    rows[i] = {number, static_cast<I>(i)};
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

constexpr int64_t longest_column = 1 << 13;  // of what is compared: a hub says little about who is alike

// Finds the earlier row that a row of a matrix with a symmetric pattern has most in common with.
template <class T, class I>
class Kinship {
 public:
  explicit Kinship(const Csr<T, I>& matrix) : matrix_(matrix), common_(matrix.rows, 0) {}

  struct Kin {
    I row = -1;
    int64_t saved = 0;  // nonzeros, if this row is what the other one starts from
  };

  // The best of those with `allowed`; among equals the first.
  template <class Allowed>
  Kin of(I row, Allowed&& allowed) {
    for (int64_t e = matrix_.indptr[row]; e < matrix_.indptr[row + 1]; ++e) {
      const I column = matrix_.indices[e];
      if (matrix_.indptr[column + 1] - matrix_.indptr[column] > longest_column) continue;
      for (int64_t f = matrix_.indptr[column]; f < matrix_.indptr[column + 1] && matrix_.indices[f] < row; ++f)
        if (common_[matrix_.indices[f]]++ == 0) met_.push_back(matrix_.indices[f]);
    }
    Kin best;
    for (const I other : met_) {
      const int64_t saved = 2 * int64_t(common_[other]) - (matrix_.indptr[other + 1] - matrix_.indptr[other]) - 1;
      const bool better = saved > best.saved || (saved == best.saved && other < best.row);
      if (better && allowed(other)) best = {other, saved};
      common_[other] = 0;
    }
    met_.clear();
    return best;
  }

 private:
  const Csr<T, I> matrix_;
  std::vector<I> common_, met_;
};

// Whether enough rows of a matrix are like earlier ones, from a few of its rows, and can be found in a short time.
template <class T, class I>
bool worth_linking(const Csr<T, I>& matrix) {
  constexpr int64_t looked_at = 256;
  constexpr double most_steps = 3e8;  // some half a second
  double steps = 0;
  for (int64_t i = 0; i < matrix.rows; ++i) {
    const double length = static_cast<double>(matrix.indptr[i + 1] - matrix.indptr[i]);
    if (length <= longest_column) steps += length * length / 2;
  }
  if (steps > most_steps) return false;
  Kinship<T, I> kinship(matrix);
  int64_t nonzeros = 0, saved = 0;
  const int64_t stride = std::max<int64_t>(1, matrix.rows / looked_at);
  for (int64_t i = stride - 1; i < matrix.rows; i += stride) {
    nonzeros += matrix.indptr[i + 1] - matrix.indptr[i];
    saved += kinship.of(static_cast<I>(i), [](I) { return true; }).saved;
  }
  return 4 * saved > nonzeros;
}

// Rows of a matrix as multiples of earlier ones and what they differ in.
template <class T, class I>
class Differences {
 public:
  explicit Differences(const Csr<T, I>& matrix) : matrix_(matrix), place_(matrix.rows, -1) {}

  // Adds to `rest` what `row` has beside a multiple of `other`, and returns the factor.
  T take(I row, I other, OwnedCsr<T, I>& rest) {
    constexpr T agreement = 4 * std::numeric_limits<T>::epsilon();
    over(other, [&](int64_t f, I column, T) { place_[column] = f; });
    T share = 0;
    over(row, [&](int64_t, I column, T value) {
      if (share == 0 && place_[column] >= 0) share = value / matrix_.values[place_[column]];
    });
    over(row, [&](int64_t, I column, T value) {
      const int64_t f = std::exchange(place_[column], -1);
      const T left = f >= 0 ? value - share * matrix_.values[f] : value;
      if (!(std::abs(left) <= agreement * std::abs(value))) rest.add(column, left);
    });
    over(other, [&](int64_t, I column, T value) {
      if (std::exchange(place_[column], -1) >= 0) rest.add(column, -share * value);
    });
    return share;
  }

 private:
  template <class F>
  void over(I row, F&& f) const {
    for (int64_t e = matrix_.indptr[row]; e < matrix_.indptr[row + 1]; ++e) f(e, matrix_.indices[e], matrix_.values[e]);
  }

  const Csr<T, I> matrix_;
  std::vector<int64_t> place_;  // of each column among the nonzeros of the other row
};

// Takes from the rows of a matrix what they have in common with earlier ones, up to a factor.
// sizes: of what the columns stand for, in units of one entry of the signal.
template <class T, class I>
std::vector<Link<T>> link_rows(OwnedCsr<T, I>& matrix, const std::vector<double>& sizes) {
  constexpr int longest_line = 8;  // of rows that are each linked to the one before: rounding errors add up along it
  // Terms of both rows that cancel leave their rounding errors behind. So the terms that a linked row is made of may be
  // larger than its own, but not by more than this: a digit at most is lost.
  constexpr double most_larger = 10;
  const OwnedCsr<T, I> whole = std::exchange(matrix, {});
  const Csr<T, I> Q = whole.view();
  const auto size_of_terms = [&](const OwnedCsr<T, I>& rows, int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t e = begin; e < end; ++e) sum += std::abs(double(rows.values[e])) * sizes[rows.indices[e]];
    return sum;
  };
  Kinship<T, I> kinship(Q);
  Differences<T, I> differences(Q);
  std::vector<Link<T>> links;
  std::vector<int> line(Q.rows, 0);
  std::vector<double> terms(Q.rows);  // the size of all terms that a row is made of in the end
  for (I i = 0; i < Q.rows; ++i) {
    const int64_t before = matrix.nonzeros(), length = Q.indptr[i + 1] - Q.indptr[i];
    const double own = terms[i] = size_of_terms(whole, Q.indptr[i], Q.indptr[i + 1]);
    const auto kin = kinship.of(i, [&](I other) { return line[other] < longest_line; });
    const T share = kin.row >= 0 ? differences.take(i, kin.row, matrix) : T(0);
    const double linked = share != 0 ? size_of_terms(matrix, before, matrix.nonzeros()) + std::abs(share) * terms[kin.row] : 0;
    if (share != 0 && matrix.nonzeros() - before < length && linked <= most_larger * own) {  // false where one is NaN
      links.push_back({i, kin.row, share});
      line[i] = line[kin.row] + 1;
      terms[i] = linked;
    } else {
      matrix.indices.resize(before);
      matrix.values.resize(before);
      for (int64_t e = Q.indptr[i]; e < Q.indptr[i + 1]; ++e) matrix.add(Q.indices[e], Q.values[e]);
    }
    matrix.end_row();
  }
  return links;
}

// Whether every row has its columns in order, each once.
template <class T, class I>
bool in_order(const Csr<T, I>& P) {
  for (int64_t i = 0; i < P.rows; ++i)
    for (int64_t e = P.indptr[i] + 1; e < P.indptr[i + 1]; ++e)
      if (P.indices[e - 1] >= P.indices[e]) return false;
  return true;
}

template <class T, class I>
std::unique_ptr<const Repeats<T, I>> Repeats<T, I>::of(const Csr<T, I>& P) {
  if (P.rows == 0 || !in_order(P)) return nullptr;
  std::vector<I> class_of = classes_of_equal_rows(P);
  const I classes = *std::max_element(class_of.begin(), class_of.end()) + 1;
  if (4 * int64_t(classes) > 3 * P.rows && !worth_linking(P)) return nullptr;  // hardly any, and no copy made to see it

  auto repeats = std::make_unique<Repeats>();
  auto& [members, core, links, kept_class_of] = *repeats;
  members.indptr.resize(classes + 1);
  for (const I c : class_of) ++members.indptr[c + 1];
  std::partial_sum(members.indptr.begin(), members.indptr.end(), members.indptr.begin());
  members.indices.resize(P.rows);
  std::vector<I> next = members.indptr;
  for (int64_t i = 0; i < P.rows; ++i) members.indices[next[class_of[i]]++] = static_cast<I>(i);

  std::vector<I> met(classes, 0);
  std::vector<T> value_of(classes);
  for (I c = 0; c < classes; ++c) {
    const I first = members.indices[members.indptr[c]];
    bool whole = true;  // all of a class at one value, or nothing of it: not so where P is not symmetric
    for (int64_t e = P.indptr[first]; e < P.indptr[first + 1]; ++e) {
      const I column = class_of[P.indices[e]];
      if (met[column]++ == 0) core.add(column, value_of[column] = P.values[e]);
      whole &= P.values[e] == value_of[column];
    }
    core.end_row();
    for (int64_t e = core.indptr[c]; e < core.indptr[c + 1]; ++e) {
      const I column = core.indices[e];
      whole &= met[column] == members.indptr[column + 1] - members.indptr[column];
      met[column] = 0;
    }
    if (!whole) return nullptr;
  }
  if (worth_linking(core.view())) {
    std::vector<double> sizes(classes);
    for (I c = 0; c < classes; ++c) sizes[c] = static_cast<double>(members.indptr[c + 1] - members.indptr[c]);
    links = link_rows(core, sizes);
  }
  const int64_t left = core.nonzeros() + static_cast<int64_t>(links.size()) + 2 * P.rows;
  if (4 * left > 3 * static_cast<int64_t>(P.indptr[P.rows])) return nullptr;
  kept_class_of = std::move(class_of);
  return repeats;
}

}  // namespace polybasis
