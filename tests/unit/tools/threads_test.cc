// Commands that work on several threads answer the same on fewer, when the system gives no more.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/tools/command.h"

namespace trireme::tools {
namespace {

nlohmann::json answer_of(const std::string& words) {
  const Answer result = run_words(words);
  if (result.code != 0) {
    return result.err;
  }
  nlohmann::json json = nlohmann::json::parse(result.out);
  json.erase("search_seconds");
  return json;
}

// Leaves less room than a thread's stack takes.
bool fill_address_space() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  const rlim_t limit = pages * static_cast<rlim_t>(::sysconf(_SC_PAGE_SIZE)) + (6U << 20U);
  const rlimit narrow{limit, limit};
  return ::setrlimit(RLIMIT_AS, &narrow) == 0;
}

// --threads 1024, or an address space without room for one, ended the program with exit code 134.
TEST(Threads, AFullAddressSpaceChangesNoAnswer) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space";
#endif
  const std::string job = " --model gpt2 --cluster dgx-h100x1 --global-batch 64 --json --threads ";
  for (const std::string& command :
       {"plan" + job, "whatif --vary nic_bandwidth=0.5x,2x,4x,8x" + job}) {
    const nlohmann::json expected = answer_of(command + "1");
    ASSERT_TRUE(expected.is_object()) << command << expected;
    EXPECT_EQ(answer_of(command + "1024"), expected) << command;
    const pid_t child = ::fork();
    if (child == 0) {
      std::_Exit(fill_address_space() && answer_of(command + "1024") == expected ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << command;
  }
}

}  // namespace
}  // namespace trireme::tools
