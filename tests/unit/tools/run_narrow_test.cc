// `trireme run --precision fp8` on the CPU: it trains as bf16 does but for its roundings, and what
// it does not compute is one line.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/json_reader.h"
#include "tests/unit/tools/command.h"

namespace trireme::tools {
namespace {

const std::string kTinyModel =
    std::string(TRIREME_SOURCE_DIR) + "/tests/gpu/models/tiny-llama.json";

Answer run_in(const std::string& precision, const std::string& sequence,
              const std::vector<std::string>& more) {
  return run_command({"run", "--backend", "cpu", "--steps", "4", "--lr", "1e-3", "--layout", "mb1",
                      "--global-batch", "2", "--seq", sequence, "--precision", precision},
                     more);
}

std::vector<double> losses(const std::string& path) {
  std::vector<double> values;
  const nlohmann::json json = read_json_file(path);
  for (const nlohmann::json& step : json.at("steps")) {
    values.push_back(step.at("loss").get<double>());
  }
  return values;
}

TEST(RunInEightBits, TrainsAsBf16DoesButForItsRoundings) {
  const TestFolder folder;
  for (const std::string precision : {"bf16", "fp8"}) {
    const Answer answer =
        run_in(precision, "32", {"--model", kTinyModel, "-o", folder.path(precision)});
    ASSERT_EQ(answer.code, 0) << answer.err;
  }
  const std::vector<double> wide = losses(folder.path("bf16"));
  const std::vector<double> narrow = losses(folder.path("fp8"));
  ASSERT_EQ(wide.size(), narrow.size());
  EXPECT_NE(wide, narrow);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_NEAR(narrow[i] / wide[i], 1, 5e-3);  // docs/gpu_measurements.md
  }
}

TEST(RunInEightBits, WhatIsNotComputedSoIsOneLine) {
  const auto refused = [](const std::string& sequence, const std::vector<std::string>& more) {
    const Answer answer = run_in("fp8", sequence, more);
    EXPECT_EQ(answer.code, 2);
    return answer.err;
  };
  EXPECT_NE(refused("32", {"--model", "gpt-oss-20b"}).find("attention sinks under fp8"),
            std::string::npos);
  EXPECT_NE(refused("8", {"--model", kTinyModel}).find("8 tokens of a micro-batch"),
            std::string::npos);
}

TEST(RunInEightBits, RecipesTrainAndWhatTheyCannotIsOneLine) {
  const TestFolder folder;
  const auto run = [](const std::string& recipe, std::vector<std::string> more,
                      const std::string& sequence = "128") {
    more.insert(more.end(), {"--model", kTinyModel, "--set", "fp8_recipe=" + recipe});
    return run_in("fp8", sequence, more);
  };
  ASSERT_EQ(run_in("bf16", "128", {"--model", kTinyModel, "-o", folder.path("bf16")}).code, 0);
  const std::vector<double> wide = losses(folder.path("bf16"));
  for (const std::string recipe : {"delayed", "blockwise"}) {
    const Answer answer = run(recipe, {"-o", folder.path(recipe)});
    ASSERT_EQ(answer.code, 0) << answer.err;
    const std::vector<double> found = losses(folder.path(recipe));
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i] / wide[i], 1, 5e-3) << recipe;
    }
  }
  EXPECT_NE(losses(folder.path("delayed")), losses(folder.path("blockwise")));
  for (const char* option : {"--save", "--resume"}) {
    const Answer answer = run("delayed", {option, folder.path("checkpoint")});
    EXPECT_EQ(answer.code, 2);
    EXPECT_NE(answer.err.find("checkpoints do not hold the largest values"), std::string::npos)
        << answer.err;
  }
  EXPECT_NE(run("blockwise", {}, "64").err.find("fp8 by blocks multiplies"), std::string::npos);
}

}  // namespace
}  // namespace trireme::tools
