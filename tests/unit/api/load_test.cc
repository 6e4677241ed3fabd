// The library under load: many calls, good and bad, one after the other and at once. Run it under
// the sanitizers too: ctest --test-dir build/dev -R load_test, and build/tsan. Where that takes too
// long, in parts at once: TRIREME_LOAD_CALLS=2500 in four processes, each case in one of its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "trireme/trireme.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Of the sanitizers' runtime; GCC brings no header file with it.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace trireme::api {
namespace {

const Job kJob{.model = "gpt2", .cluster = "dgx-h100x1", .seq = 1024, .global_batch = 64};

// The answer of one of eight calls, an error's line where it is wrong input.
std::string call(int which) {
  try {
    switch (which % 8) {
      case 0:
        return estimate(kJob, {.tp = 2}).json;
      case 1:
        return estimate(kJob, {.tp = 3}).json;
      case 2:
        return std::to_string(model("llama-3.1-8b").parameters);
      case 3:
        return model("no-such-model").name;
      case 4:
        return ask({"topo", "collective"}, {"--cluster", "dgx-h100x1", "--gpus", "8", "--op",
                                            "all_reduce", "--bytes", "1MiB"})
            .json;
      case 5:
        return ask({"topo", "collective"}, {"--cluster", "dgx-h100x1", "--bytes", "1 apple"}).json;
      case 6:
        return simulate(kJob, {.pp = 2}).json;
      default:
        return check("no_such_file.sh").json;
    }
  } catch (const Error& error) {
    return error.what();
  }
}

// Of a simulation, without the time that it took.
std::string lasting(const std::string& answer) {
  return answer.find("simulation_seconds") == std::string::npos ? answer : "simulated";
}

// What the library holds. A sanitizer keeps what was freed for a while and tells what is allocated.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
double held_bytes() {
  return static_cast<double>(__sanitizer_get_current_allocated_bytes());
}
#else
double held_bytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
}
#endif

// Consecutive calls: 10,000 unless TRIREME_LOAD_CALLS says otherwise.
int calls() {
  const char* text = std::getenv("TRIREME_LOAD_CALLS");
  return text == nullptr ? 10'000 : std::stoi(text);
}

TEST(Load, TenThousandCallsHoldWhatAThousandHeld) {
  std::vector<std::string> expected;
  expected.reserve(8);
  for (int which = 0; which < 8; ++which) {
    expected.push_back(lasting(call(which)));
    EXPECT_FALSE(expected.back().empty()) << which;
  }
  const int most = calls();
  double early = 0;
  for (int i = 1; i <= most; ++i) {
    ASSERT_EQ(lasting(call(i)), expected[static_cast<std::size_t>(i % 8)]) << i;
    early = i == most / 10 ? held_bytes() : early;
  }
  const double late = held_bytes();
  std::printf("held: %.3f MiB after %d calls, %.3f after %d\n", early / 1048576, most / 10,
              late / 1048576, most);
  EXPECT_LE(late, 1.01 * early);
}

TEST(Load, SixtyFourThreadsGetTheAnswersOfOne) {
  std::vector<std::string> expected;
  expected.reserve(8);
  for (int which = 0; which < 8; ++which) {
    expected.push_back(lasting(call(which)));
  }
  std::vector<int> wrong(64, 0);
  std::vector<std::thread> threads;
  for (std::size_t mine = 0; mine < wrong.size(); ++mine) {
    threads.emplace_back([&, mine] {
      for (std::size_t i = 0; i < 24; ++i) {
        const std::size_t which = (mine + i) % 8;
        wrong[mine] += lasting(call(static_cast<int>(which))) == expected[which] ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(64, 0));
}

}  // namespace
}  // namespace trireme::api
