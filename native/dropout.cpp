// Dropout without a stored mask: the mask is recomputed from the seed.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "algorithms.hpp"

namespace polybasis {
namespace {

// Entry `place` of a sequence of 64 random bits (SplitMix64; Steele, Lea and Flood, "Fast splittable pseudorandom
// number generators", 2014).
inline uint64_t random_bits(uint64_t seed, uint64_t place) {
  uint64_t z = seed + (place + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

constexpr int64_t block = 256;  // entries whose random numbers are drawn together, 16 bits each

}  // namespace

template <class T>
void dropout(int threads, int64_t n, const T* x, double p, uint64_t seed, int64_t offset, T* y) {
  assert(0 <= p && p < 1 && offset % block == 0);
  const auto dropped = static_cast<uint16_t>(std::min<long>(std::lround(p * 65536), 65535));
  const T scale = static_cast<T>(65536.0 / (65536 - dropped));
  threads = static_cast<int>(std::clamp<int64_t>(threads, 1, n / (64 * block) + 1));
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t first = 0; first < n; first += block) {
    uint64_t bits[block / 4];
    for (int64_t j = 0; j < block / 4; ++j)
      bits[j] = random_bits(seed, static_cast<uint64_t>((offset + first) / 4 + j));
    uint16_t draws[block];
    std::memcpy(draws, bits, sizeof bits);
    // A multiplication, because branches on random numbers are mispredicted.
    for (int64_t j = 0; j < std::min(block, n - first); ++j)
      y[first + j] = x[first + j] * (draws[j] >= dropped ? scale : T(0));
  }
}

template void dropout(int, int64_t, const float*, double, uint64_t, int64_t, float*);
template void dropout(int, int64_t, const double*, double, uint64_t, int64_t, double*);

}  // namespace polybasis
