// What the tests of `plan` and of what stands beside it ask.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/tools/export_run.h"

namespace trireme::tools {

inline nlohmann::json plan_of(const std::string& options, int code = 0) {
  const Exported result = run_words("plan --json " + options);
  EXPECT_EQ(result.code, code) << options << "\n" << result.err;
  return nlohmann::json::parse(result.out, nullptr, false);
}

inline const std::string kEight =
    "--model llama-3.1-8b --cluster dgx-h100x1 --global-batch 128 --seq 8192 ";

}  // namespace trireme::tools
