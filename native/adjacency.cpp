#include "adjacency.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "pages.hpp"

namespace polybasis {
namespace {

// Each share has a counter for every row. Limits the shares so that the counters take no more memory than the entries.
int useful_shares(int threads, int64_t entries, int64_t rows) {
  return static_cast<int>(std::clamp<int64_t>(entries / std::max<int64_t>(rows, 1), 1, threads));
}

// A stable counting sort by row. The input is split into shares, one for each thread: for_each(share, visit) calls
// visit(row, column, reversed, weight) for every entry of a share. The entries of a row are in the order of the input,
// whatever the number of shares.
template <class ForEach>
class CountingSort {
 public:
  CountingSort(int64_t rows, int shares, const ForEach& for_each)
      : rows_(rows), shares_(shares), for_each_(for_each), places_(rows * shares) {
#pragma omp parallel for num_threads(shares_) schedule(static, 1)
    for (int share = 0; share < shares_; ++share) {
      int64_t* count = places_.data() + share * rows_;
      for_each_(share, [&](int64_t row, int64_t, bool, double) { ++count[row]; });
    }
  }

  // Puts a row's first entry at `place` and returns the place after its last one.
  int64_t start_row(int64_t row, int64_t place) {
    for (int share = 0; share < shares_; ++share) {
      int64_t& first = places_[share * rows_ + row];
      place += std::exchange(first, place);
    }
    return place;
  }

  // Calls write(place, column, reversed, weight) for every entry, after start_row for every row.
  template <class Write>
  void write_entries(Write write) {
#pragma omp parallel for num_threads(shares_) schedule(static, 1)
    for (int share = 0; share < shares_; ++share) {
      int64_t* next = places_.data() + share * rows_;
      for_each_(share, [&](int64_t row, int64_t column, bool reversed, double weight) {
        write(next[row]++, column, reversed, weight);
      });
    }
  }

 private:
  int64_t rows_;
  int shares_;
  const ForEach& for_each_;
  std::vector<int64_t> places_;  // (shares, rows): the number of entries, then the place of the next one
};

// Entries sorted by row, with room for `spare` more at the end of each row.
template <class Entry, class ForEach>
EntryRows<Entry> sorted_by_row(int64_t rows, int shares, int64_t spare, const ForEach& for_each) {
  CountingSort sort(rows, shares, for_each);
  EntryRows<Entry> sorted{nullptr, std::vector<int64_t>(rows), std::vector<int64_t>(rows)};
  int64_t place = 0;
  for (int64_t i = 0; i < rows; ++i) {
    sorted.first[i] = place;
    sorted.last[i] = sort.start_row(i, place);
    place = sorted.last[i] + spare;
  }
  sorted.entries.reset(new Entry[place]);
  advise_huge_pages(sorted.entries.get(), place * sizeof(Entry));
  sort.write_entries([&](int64_t place, int64_t column, bool reversed, double weight) {
    sorted.entries[place] = Entry(column, reversed, weight);
  });
  return sorted;
}

// The first row of a share of rows, shares having about equally many entries.
template <class Entry>
int64_t first_row(const EntryRows<Entry>& rows, int64_t share, int64_t shares) {
  if (share == shares) return rows.size();
  const int64_t entries = rows.size() == 0 ? 0 : rows.last.back();
  return std::lower_bound(rows.first.begin(), rows.first.end(), entries * share / shares) - rows.first.begin();
}

template <class Entry>
EntryRows<Entry> sorted_by_high_node(const Pairs& pairs, SelfLoops loops, int shares) {
  return sorted_by_row<Entry>(pairs.nodes, shares, 0, [&](int64_t share, auto visit) {
    const int64_t last = pairs.count * (share + 1) / shares;
    for (int64_t e = pairs.count * share / shares; e < last; ++e) {
      const int64_t low = std::min(pairs.first[e], pairs.second[e]), high = std::max(pairs.first[e], pairs.second[e]);
      if (low != high || loops != SelfLoops::drop)
        visit(high, low, pairs.first[e] != low, Entry::weighted ? pairs.weight[e] : 1.0);
    }
  });
}

template <class Entry>
EntryRows<Entry> transposed(const EntryRows<Entry>& rows, int shares, int64_t spare) {
  return sorted_by_row<Entry>(rows.size(), shares, spare, [&](int64_t share, auto visit) {
    const int64_t last = first_row(rows, share + 1, shares);
    for (int64_t i = first_row(rows, share, shares); i < last; ++i)
      for (const Entry* entry = rows.begin(i); entry != rows.end(i); ++entry)
        visit(entry->node(), i, entry->reversed(), entry->weight);
  });
}

// The weights of both directions of an edge are often computed separately in float32. Each of a handful of operations
// rounds by up to 2^-24, so weights that should be equal differ by a few such steps; 1e-6 is about sixteen of them.
// NumPy's implementation in adjacency.py has the same rule.
constexpr double same_weight = 1e-6;

bool agree(double a, double b) { return std::abs(a - b) <= same_weight * std::max(a, b); }

// The first entry of a row whose weight is different from that first given for the same node, or `last`.
template <class Entry>
Entry* find_conflict(Entry* first, Entry* last) {
  if constexpr (Entry::weighted)
    for (Entry* entry = first; entry != last; ++entry) {
      if (entry->node() != first->node()) first = entry;
      if (!agree(first->weight, entry->weight)) return entry;
    }
  return last;
}

}  // namespace

bool nodes_in_range(const Pairs& pairs, int threads) {
  const auto nodes = static_cast<uint64_t>(pairs.nodes);
  bool outside = false;
  // A negative node is large as an unsigned number. The operators | have no branches, which lets the loop be
  // vectorised.
#pragma omp parallel for num_threads(threads) reduction(| : outside)
  for (int64_t e = 0; e < pairs.count; ++e)
    outside |= (static_cast<uint64_t>(pairs.first[e]) >= nodes) | (static_cast<uint64_t>(pairs.second[e]) >= nodes);
  return !outside;
}

// Transposing rows visits the columns of each new row in ascending order: it sorts them.
template <class Entry>
UpperTriangle<Entry>::UpperTriangle(const Pairs& pairs, SelfLoops loops, int threads) {
  assert(0 <= pairs.nodes && pairs.nodes <= std::numeric_limits<int32_t>::max() && threads >= 1);
  const int shares = useful_shares(threads, pairs.count, pairs.nodes);
  rows_ = transposed(sorted_by_high_node<Entry>(pairs, loops, shares), shares, loops == SelfLoops::add ? 1 : 0);
  merge(loops, threads);
}

// Keeps each neighbour of a row once, drops edges of weight 0 and adds the self-loops that are missing.
template <class Entry>
void UpperTriangle<Entry>::merge(SelfLoops loops, int threads) {
  int64_t edges = 0, diagonal = 0, one_way = 0, first_conflict = nodes();
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1024) reduction(+ : edges, diagonal, one_way) \
    reduction(min : first_conflict)
  for (int64_t i = 0; i < nodes(); ++i) {
    Entry *const first = rows_.begin(i), *const given = rows_.end(i), *last = first;
    if (find_conflict(first, given) != given) {
      first_conflict = std::min(first_conflict, i);
      continue;
    }
    for (Entry* entry = first; entry != given;) {
      const Entry kept = *entry++;
      bool both_ways = kept.node() == i;
      for (; entry != given && entry->node() == kept.node(); ++entry) both_ways |= entry->reversed() != kept.reversed();
      if (kept.weight == 0) continue;
      one_way += !both_ways;
      *last++ = kept;
    }
    if (loops == SelfLoops::add && (first == last || first->node() != i)) {
      std::move_backward(first, last, last + 1);
      *first = Entry(i, false, 1.0);
      ++last;
    }
    rows_.last[i] = last - rows_.entries.get();
    edges += last - first;
    diagonal += first != last && first->node() == i;
  }
  edges_ = edges;
  loops_ = diagonal;
  one_way_ = one_way;
  if (first_conflict < nodes())
    conflict_.emplace(first_conflict, find_conflict(rows_.begin(first_conflict), rows_.end(first_conflict))->node());
}

// Row j of the whole matrix is column j of the triangle above the diagonal, then row j of the triangle. Visiting the
// triangle's rows in ascending order yields the columns in ascending order.
template <class Entry>
template <class I>
void UpperTriangle<Entry>::mirror(I* indptr, I* indices, double* weight, int threads) const {
  const int shares = useful_shares(threads, edges_, nodes());
  const auto both_ends = [&](int64_t share, auto visit) {
    const int64_t last = first_row(rows_, share + 1, shares);
    for (int64_t i = first_row(rows_, share, shares); i < last; ++i)
      for (const Entry* entry = rows_.begin(i); entry != rows_.end(i); ++entry) {
        visit(i, entry->node(), false, entry->weight);
        if (entry->node() != i) visit(entry->node(), i, false, entry->weight);
      }
  };
  CountingSort sort(nodes(), shares, both_ends);
  indptr[0] = 0;
  for (int64_t i = 0; i < nodes(); ++i) indptr[i + 1] = static_cast<I>(sort.start_row(i, indptr[i]));
  assert(indptr[nodes()] == nonzeros());
  sort.write_entries([&](int64_t place, int64_t column, bool, [[maybe_unused]] double value) {
    indices[place] = static_cast<I>(column);
    if constexpr (Entry::weighted) weight[place] = value;
  });
}

template class UpperTriangle<Neighbour>;
template class UpperTriangle<WeightedNeighbour>;
template void UpperTriangle<Neighbour>::mirror(int32_t*, int32_t*, double*, int) const;
template void UpperTriangle<Neighbour>::mirror(int64_t*, int64_t*, double*, int) const;
template void UpperTriangle<WeightedNeighbour>::mirror(int32_t*, int32_t*, double*, int) const;
template void UpperTriangle<WeightedNeighbour>::mirror(int64_t*, int64_t*, double*, int) const;

}  // namespace polybasis
