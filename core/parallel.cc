#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace trireme {
namespace {

// Items are taken in order, so when one fails every lower item has been taken too: the lowest that
// fails is found whichever failed first.
class FirstFailure {
 public:
  void add(std::size_t item, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ == nullptr || item < item_) {
      item_ = item;
      error_ = std::move(error);
    }
  }
  void rethrow() const {
    if (error_ != nullptr) {
      std::rethrow_exception(error_);
    }
  }

 private:
  std::mutex mutex_;
  std::size_t item_ = 0;
  std::exception_ptr error_;
};

}  // namespace

int usable_threads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void parallel_for(int threads, std::size_t count,
                  const std::function<void(std::size_t thread, std::size_t item)>& work) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> stopped = false;
  FirstFailure failure;
  const auto run = [&](std::size_t thread) {
    while (!stopped) {
      const std::size_t item = next++;
      if (item >= count) {
        return;
      }
      try {
        work(thread, item);
      } catch (...) {
        stopped = true;
        failure.add(item, std::current_exception());
      }
    }
  };
  const std::size_t most =
      std::min(count, static_cast<std::size_t>(std::clamp(threads, 1, usable_threads())));
  std::vector<std::thread> others;
  others.reserve(most);
  try {
    for (std::size_t thread = 1; thread < most; ++thread) {
      others.emplace_back(run, thread);
    }
  } catch (const std::system_error&) {  // no more to be had: those that run do the work
  } catch (const std::bad_alloc&) {
  }
  run(0);
  for (std::thread& other : others) {
    other.join();
  }
  failure.rethrow();
}

}  // namespace trireme
