#include "core/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace trireme {
namespace {

TEST(ParallelFor, EveryItemIsWorkedOnOnce) {
  for (const int threads : {-1, 0, 1, 2, 7, 1024}) {
    std::vector<std::atomic<int>> calls(1000);
    parallel_for(threads, calls.size(), [&](std::size_t, std::size_t item) { ++calls[item]; });
    for (const std::atomic<int>& count : calls) {
      EXPECT_EQ(count, 1) << threads;
    }
  }
  parallel_for(4, 0, [](std::size_t, std::size_t) { FAIL() << "there is no item"; });
}

// whatif started as many threads as asked for, whatever there was to do.
TEST(ParallelFor, ThereAreNoMoreThreadsThanItemsOrCores) {
  const auto cores = static_cast<std::size_t>(usable_threads());
  for (const std::size_t items : {1U, 2U, 100U}) {
    std::atomic<std::size_t> highest = 0;
    parallel_for(1024, items, [&](std::size_t thread, std::size_t) {
      std::size_t seen = highest;
      while (thread > seen && !highest.compare_exchange_weak(seen, thread)) {
      }
    });
    EXPECT_LT(highest, std::min(items, cores));
  }
}

// An exception in a thread of the search ended the process.
TEST(ParallelFor, TheLowestItemsExceptionIsRethrown) {
  for (int round = 0; round < 200; ++round) {
    try {
      parallel_for(8, 64, [](std::size_t, std::size_t item) {
        if (item >= 5) {
          throw std::runtime_error(std::to_string(item));
        }
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "5");
    }
  }
}

std::size_t address_space() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
}

// A thread that could not be started ended the process with exit code 134.
TEST(ParallelFor, WorksWhereNoThreadCanBeStarted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    const rlim_t limit = address_space() + (1U << 20U);  // less than a thread's stack
    const rlimit narrow{limit, limit};
    std::atomic<int> calls = 0;
    if (::setrlimit(RLIMIT_AS, &narrow) == 0) {
      parallel_for(8, 100, [&](std::size_t, std::size_t) { ++calls; });
    }
    std::_Exit(calls == 100 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace trireme
