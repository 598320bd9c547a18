#include "team.hpp"

#include <system_error>

namespace polybasis {
namespace {

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Passes follow one another within microseconds, so a worker looks a while before it sleeps.
constexpr int looks_before_sleep = 4000;

}  // namespace

Team::Team(int threads) {
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {
    // No more threads to be had: those that are there do the work.
  }
}

Team::~Team() {
  stop_ = true;
  round_.fetch_add(1);
  round_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void Team::run_erased(int64_t blocks, Call call, void* context) {
  call_ = call;
  context_ = context;
  blocks_ = blocks;
  next_block_ = 0;
  busy_ = static_cast<int>(workers_.size());
  round_.fetch_add(1);
  round_.notify_all();
  take_blocks();
  for (int look = 0; busy_.load() != 0; ++look) {
    if (look < looks_before_sleep)
      relax();
    else
      std::this_thread::yield();
  }
}

void Team::take_blocks() {
  for (int64_t block; (block = next_block_.fetch_add(1)) < blocks_;) call_(context_, block);
}

void Team::serve() {
  uint32_t seen = 0;
  for (;;) {
    for (int look = 0; look < looks_before_sleep && round_.load() == seen; ++look) relax();
    round_.wait(seen);
    seen = round_.load();
    if (stop_) return;
    take_blocks();
    busy_.fetch_sub(1);
  }
}

}  // namespace polybasis
