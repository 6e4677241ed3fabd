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

// Beginnings of scripts, and the host that most are asked of.
inline const std::string kOne = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
inline const std::string kTorchrun = "torchrun --nproc_per_node 8 pretrain_gpt.py ";
inline constexpr const char* kHost = "--cluster dgx-h100x1";

inline std::string written(const std::string& name, const std::string& text) {
  const fs::path path = fs::path(testing::TempDir()) / "check_cases" / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
  return path.string();
}

// A run of axolotl, and more of its keys.
inline std::string axolotl(const std::string& more) {
  return "base_model: NousResearch/Meta-Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 1\n"
         "gradient_accumulation_steps: 8\nsample_packing: true\nbf16: auto\n" +
         more;
}

struct Checked {
  int code = -1;
  nlohmann::json json;
  std::string err;
};

// GiB that a rank reserves at its peak.
inline double memory_of(const Checked& answer) {
  return answer.json.at("estimate").at("memory").at("peak_reserved_gib").get<double>();
}

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

// A case that people brought, with what is right: every rule that it breaks, values of the answer
// by their JSON pointers (numbers within 1 %), and words that stand somewhere in it.
struct PublicCase {
  const char* name;
  std::string file, text, options;
  Rules rules = {};
  std::vector<std::pair<std::string, nlohmann::json>> holds = {};
  std::vector<std::string> says = {};
};

inline void expect_case(const PublicCase& one) {
  SCOPED_TRACE(std::string(one.name) + "\n" + one.text + "\n" + one.options);
  const Checked answer = check(written(one.file, one.text), one.options);
  ASSERT_TRUE(answer.json.is_object()) << answer.err;
  EXPECT_EQ(rules_in(answer), one.rules) << answer.json.at("violations").dump(1);
  for (const auto& [pointer, value] : one.holds) {
    const nlohmann::json::json_pointer place(pointer);
    ASSERT_TRUE(answer.json.contains(place)) << pointer;
    const nlohmann::json& found = answer.json.at(place);
    if (value.is_number_float() && found.is_number()) {
      EXPECT_NEAR(found.get<double>() / value.get<double>(), 1, 0.01) << pointer << found;
    } else {
      EXPECT_EQ(found, value) << pointer;
    }
  }
  for (const std::string& words : one.says) {
    EXPECT_NE(answer.json.dump().find(words), std::string::npos) << words << answer.json.dump(1);
  }
}

inline constexpr const char* kModel =
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --vocab-size 51200 --micro-batch-size 1 ";
inline const std::string kGpt = std::string(kModel) + "--bf16 ";
inline constexpr const char* kNode = "--format megatron --cluster dgx-h100x1";

}  // namespace trireme::tools
