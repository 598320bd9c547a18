// Nodes with the same neighbours. Where rows of P are equal one product serves them all: P = S Q S', with S from classes of
// equal rows to nodes and Q between the classes. P is symmetric, so equal rows are equal columns, and a row has all nodes of
// a class, at one value, or none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
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

  void add(I column, T value) {
    indices.push_back(column);
    values.push_back(value);
  }
  void end_row() { indptr.push_back(static_cast<I>(indices.size())); }
  Csr<T, I> view() const {
    return {indptr.data(), indices.data(), values.data(), static_cast<int64_t>(indptr.size()) - 1};
  }
};

template <class T, class I>
struct Twins {
  OwnedCsr<T, I> members, core, spread;  // S', Q and S

  // Those of P, or null where they would save less than a quarter of the work.
  static std::unique_ptr<const Twins> of(const Csr<T, I>& P);
};

// The class of each row of P, numbered by their first rows.
template <class T, class I>
std::vector<I> classes_of_equal_rows(const Csr<T, I>& P) {
  const auto same = [&](I a, I b) {
    const I from = P.indptr[a], to = P.indptr[a + 1], other = P.indptr[b];
    return to - from == P.indptr[b + 1] - other && std::equal(P.indices + from, P.indices + to, P.indices + other) &&
           std::equal(P.values + from, P.values + to, P.values + other);
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

template <class T, class I>
std::unique_ptr<const Twins<T, I>> Twins<T, I>::of(const Csr<T, I>& P) {
  if (P.rows == 0) return nullptr;
  const std::vector<I> class_of = classes_of_equal_rows(P);
  const I classes = *std::max_element(class_of.begin(), class_of.end()) + 1;
  if (4 * int64_t(classes) > 3 * P.rows) return nullptr;  // hardly any

  auto twins = std::make_unique<Twins>();
  auto& [members, core, spread] = *twins;
  members.indptr.resize(classes + 1);
  for (const I c : class_of) ++members.indptr[c + 1];
  std::partial_sum(members.indptr.begin(), members.indptr.end(), members.indptr.begin());
  members.indices.resize(P.rows);
  members.values.assign(P.rows, T(1));
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
  for (const I c : class_of) {
    spread.add(c, T(1));
    spread.end_row();
  }
  const auto left = static_cast<int64_t>(core.indices.size()) + 2 * P.rows;
  if (4 * left > 3 * static_cast<int64_t>(P.indptr[P.rows])) return nullptr;
  return twins;
}

}  // namespace polybasis
