// What `frameworks` promises, and that `--framework NAME@VERSION` reaches the estimate.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/tools/command.h"
#include "tools/program.h"

namespace trireme::tools {
namespace {

Answer run(const std::vector<std::string>& arguments) {
  return run_command(arguments);
}

TEST(FrameworksCommand, ListsVersionsWithTheirSettings) {
  const Answer answer = run({"frameworks", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json.at("schema"), "trireme.frameworks/1");
  bool found = false;
  for (const auto& framework : json.at("frameworks")) {
    ASSERT_TRUE(framework.at("settings").is_object());
    EXPECT_FALSE(framework.at("source").get<std::string>().empty());
    if (framework.at("name") == "torchtitan" && framework.at("version") == "0.2.2") {
      found = true;
      EXPECT_EQ(framework.at("settings").at("expandable_segments"), true);
      EXPECT_EQ(framework.at("settings").at("reduce_bytes"), 4);
    }
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(run({"frameworks", "nemo@25.02"}).code, 0);
  EXPECT_NE(run({"frameworks", "nemo", "--settings"}).out.find("--grad-reduce-in-bf16"),
            std::string::npos);
}

TEST(FrameworksCommand, EveryCommandTakesAVersion) {
  const std::vector<std::string> common = {
      "--model", "llama-3.1-8b",   "--cluster", "dgx-h100x1", "--seq",
      "8192",    "--global-batch", "8",         "--json"};
  const auto estimate = [&](const std::string& framework) {
    std::vector<std::string> arguments = {"estimate",   "--framework", framework, "--tp", "2",
                                          "--sharding", "optimizer",   "--fsdp",  "4"};
    arguments.insert(arguments.end(), common.begin(), common.end());
    const Answer answer = run(arguments);
    EXPECT_NE(answer.code, 2) << answer.err;
    return nlohmann::json::parse(answer.out);
  };
  const auto older = estimate("nemo@24.09");
  const auto newer = estimate("nemo@25.02");
  // 16-bit gradients: 2 bytes of 4 billion parameters a rank less.
  const double saved = older.at("memory").at("breakdown_gib").at("gradients").get<double>() -
                       newer.at("memory").at("breakdown_gib").at("gradients").get<double>();
  EXPECT_NEAR(saved, 2 * 8.03e9 / 2 / (1 << 30), 0.5);
  EXPECT_LT(newer.at("time").at("step_seconds"), older.at("time").at("step_seconds"));
}

// 16-bit remainders as masters, which the precision-aware optimizer of these releases keeps, were
// refused.
TEST(FrameworksCommand, AVersionsMastersAreExported) {
  const std::string path = ::testing::TempDir() + "bridge_version.py";
  std::vector<std::string> arguments = {"export",
                                        "--model",
                                        "llama-3.1-8b",
                                        "--cluster",
                                        "dgx-h100x1",
                                        "--framework",
                                        "megatron-bridge@26.02",
                                        "--layout",
                                        "tp2.fsdp4.zero1.mb1",
                                        "--seq",
                                        "4096",
                                        "--global-batch",
                                        "8",
                                        "--format",
                                        "megatron-bridge",
                                        "-o",
                                        path};
  const Answer written = run(arguments);
  EXPECT_EQ(written.code, 0) << written.err;
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("use_precision_aware_optimizer = True"), std::string::npos);
  // With sharded gradients there is no such optimizer.
  arguments.insert(arguments.end(), {"--sharding", "full"});
  const Answer refused = run(arguments);
  EXPECT_EQ(refused.code, 2);
  std::remove(path.c_str());
}

TEST(FrameworksCommand, AnUnknownVersionIsOneLine) {
  for (const char* wrong : {"megatron@1999", "torchtitan@", "fsdp3", "trireme@1"}) {
    const Answer answer = run(
        {"estimate", "--model", "llama-3.1-8b", "--cluster", "dgx-h100x1", "--framework", wrong});
    EXPECT_EQ(answer.code, 2) << wrong;
    EXPECT_TRUE(answer.err.starts_with("trireme: --framework")) << answer.err;
    EXPECT_EQ(std::count(answer.err.begin(), answer.err.end(), '\n'), 1) << answer.err;
  }
}

}  // namespace
}  // namespace trireme::tools
