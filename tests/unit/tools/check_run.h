// Runs `check` on a file that a test writes.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/tools/export_run.h"

namespace trireme::tools {

namespace fs = std::filesystem;

inline std::string written(const std::string& name, const std::string& text) {
  const fs::path path = fs::path(testing::TempDir()) / "check_cases" / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
  return path.string();
}

struct Checked {
  int code = -1;
  nlohmann::json json;
  std::string err;
};

inline Checked check(const std::string& path, const std::string& options) {
  const std::size_t more = options.find(" -- ");
  const std::string before = options.substr(0, more);
  const std::string after = more == std::string::npos ? "" : options.substr(more);
  const Exported result = run_words("check " + path + " " + before + " --json" + after);
  return {result.code, nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false),
          result.err};
}

// "error RULE" or "warning RULE" of each violation, and the fix of the named one.
inline std::vector<std::string> rules_in(const Checked& answer) {
  std::vector<std::string> rules;
  for (const nlohmann::json& violation : answer.json.value("violations", nlohmann::json::array())) {
    rules.push_back(violation.at("severity").get<std::string>() + " " +
                    violation.at("rule").get<std::string>());
  }
  return rules;
}

inline std::string fix_in(const Checked& answer, const std::string& rule) {
  for (const nlohmann::json& violation : answer.json.value("violations", nlohmann::json::array())) {
    if (violation.at("rule") == rule) {
      return violation.at("fix").get<std::string>();
    }
  }
  return "no such rule";
}

inline bool remarks_have(const Checked& answer, const std::string& words) {
  return answer.json.at("remarks").dump().find(words) != std::string::npos;
}

using Rules = std::vector<std::string>;

inline constexpr const char* kModel =
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --vocab-size 51200 --micro-batch-size 1 ";
inline const std::string kGpt = std::string(kModel) + "--bf16 ";
inline constexpr const char* kNode = "--format megatron --cluster dgx-h100x1";

}  // namespace trireme::tools
