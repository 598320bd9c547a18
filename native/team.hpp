// A team of threads that lives for one call: work is cut into blocks, and whoever is free takes the next one.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace polybasis {

class Team {
 public:
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Calls task(0) .. task(blocks - 1), each once, in no particular order, and returns when all are done.
  template <class Task>
  void run(int64_t blocks, Task&& task) {
    run_erased(blocks, [](void* context, int64_t block) { (*static_cast<Task*>(context))(block); }, &task);
  }

 private:
  using Call = void (*)(void* context, int64_t block);
  void run_erased(int64_t blocks, Call call, void* context);
  void take_blocks();
  void serve();

  std::vector<std::thread> workers_;
  Call call_ = nullptr;
  void* context_ = nullptr;
  int64_t blocks_ = 0;
  std::atomic<int64_t> next_block_{0};
  std::atomic<int> busy_{0};
  std::atomic<uint32_t> round_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace polybasis
