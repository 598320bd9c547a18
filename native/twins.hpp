// Nodes with the same neighbours. Where rows of P are equal one product serves them all: P = S Q S', with S from classes of
// equal rows to nodes and Q between the classes. P is symmetric, so equal rows are equal columns, and a row has all nodes of
// a class, at one value, or none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
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
    const auto length = [&](I row) { return static_cast<size_t>(P.indptr[row + 1] - P.indptr[row]); };
    return length(a) == length(b) &&
           !std::memcmp(P.indices + P.indptr[a], P.indices + P.indptr[b], length(a) * sizeof(I)) &&
           !std::memcmp(P.values + P.indptr[a], P.values + P.indptr[b], length(a) * sizeof(T));
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
  const std::vector<I> class_of = classes_of_equal_rows(P);
  const I classes = P.rows ? *std::max_element(class_of.begin(), class_of.end()) + 1 : 0;
  if (4 * int64_t(classes) > 3 * P.rows) return nullptr;  // hardly any
  std::vector<std::vector<I>> nodes(classes);
  for (int64_t i = 0; i < P.rows; ++i) nodes[class_of[i]].push_back(static_cast<I>(i));

  auto twins = std::make_unique<Twins>();
  std::vector<size_t> met(classes, 0);
  for (const auto& members : nodes) {
    for (const I node : members) twins->members.add(node, T(1));
    twins->members.end_row();
    const auto over_row = [&](auto&& f) {
      for (int64_t e = P.indptr[members[0]]; e < P.indptr[members[0] + 1]; ++e) f(class_of[P.indices[e]], P.values[e]);
    };
    over_row([&](I column, T value) {
      if (met[column]++ == 0) twins->core.add(column, value);
    });
    bool whole = true;
    over_row([&](I column, T) { whole &= met[column] == nodes[column].size(); });
    if (!whole) return nullptr;  // P is not symmetric
    over_row([&](I column, T) { met[column] = 0; });
    twins->core.end_row();
  }
  for (const I of_node : class_of) {
    twins->spread.add(of_node, T(1));
    twins->spread.end_row();
  }
  const auto left = static_cast<int64_t>(twins->core.indices.size()) + 2 * P.rows;
  if (4 * left > 3 * static_cast<int64_t>(P.indptr[P.rows])) return nullptr;
  return twins;
}

}  // namespace polybasis
