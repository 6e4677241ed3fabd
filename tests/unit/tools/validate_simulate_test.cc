// `validate --simulate`: the simulated step beside the closed form, and the cause where they
// differ.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "planner/calibrate/validation.h"
#include "tests/unit/tools/command.h"
#include "tools/row_simulation.h"

namespace trireme::tools {
namespace {

using nlohmann::json;

json row_of(const std::string& id) {
  return {{"id", id},
          {"layers", 32},
          {"hidden", 4096},
          {"ffn", 14336},
          {"heads", 32},
          {"kv_heads", 8},
          {"vocab", 128256},
          {"seq", 4096},
          {"gated_mlp", true},
          {"gpu", "H100-80GB"},
          {"gpus", 16},
          {"gpus_per_node", 8},
          {"tp", 1},
          {"pp", 1},
          {"data_parallel", 16},
          {"sharding", "none"},
          {"micro_batch", 1},
          {"global_batch", 16},
          {"precision", "bf16"},
          {"recompute", "none"},
          {"attention", "flash"},
          {"behaviour", "megatron"}};
}

RowSimulation simulate(const json& row) {
  const topologies::Profile& profile = topologies::shipped_profile();
  const auto cases = planner::validation_cases(
      {planner::parse_published(json::array({row}).dump(), "test")}, profile);
  EXPECT_EQ(cases.at(0).found.skipped, "");
  return simulate_row(cases.at(0), profile);
}

TEST(ValidateSimulate, ARowThatIsComputeOnlyAgreesAndHasNoCause) {
  json row = row_of("large-0");
  row["gpus"] = 1;
  row["data_parallel"] = 1;
  row["global_batch"] = 4;
  row["hidden"] = 8192;
  row["ffn"] = 28672;
  row["heads"] = 64;
  row["layers"] = 8;
  const RowSimulation simulated = simulate(row);
  EXPECT_LT(std::abs(simulated.difference()), kAgreement);
  EXPECT_TRUE(simulated.causes.empty());
}

TEST(ValidateSimulate, EveryRowThatDiffersHasACauseThatPullsItsWay) {
  // Two stages of 30 and 2 layers under a few micro-batches, a model so small that its host is the
  // limit, and ZeRO-3 of small units over a slow network.
  json uneven = row_of("uneven-0");
  uneven["pp"] = 2;
  uneven["data_parallel"] = 8;
  uneven["global_batch"] = 32;
  uneven["schedule"] = "1f1b";
  uneven["settings"] = {{"stage_layers", {30, 2}}};
  json small = row_of("small-0");
  small["hidden"] = 256;
  small["heads"] = 4;
  small["kv_heads"] = 4;
  small["ffn"] = 1024;
  small["behaviour"] = "fsdp2";
  json sharded = row_of("sharded-0");
  sharded["sharding"] = "full";
  sharded["behaviour"] = "fsdp2";
  sharded["seq"] = 512;
  int differ = 0;
  for (const json& row : {uneven, small, sharded}) {
    const RowSimulation simulated = simulate(row);
    ASSERT_EQ(simulated.not_simulated, "");
    ASSERT_GT(simulated.seconds, 0);
    if (std::abs(simulated.difference()) <= kAgreement) {
      continue;
    }
    ++differ;
    ASSERT_FALSE(simulated.causes.empty()) << row["id"];
    const double gap = simulated.seconds - simulated.estimated_seconds;
    double told = 0;
    for (const Cause& cause : simulated.causes) {
      const double pull = cause.seconds - cause.estimated_seconds;
      EXPECT_GT(pull * gap, 0) << row["id"] << " " << cause.name;
      told += pull;
      EXPECT_FALSE(cause.detail.empty());
    }
    EXPECT_GE(told / gap, 0.5) << row["id"];
  }
  EXPECT_GE(differ, 1);
}

TEST(ValidateSimulate, ARowWithoutAStepProgramSaysWhy) {
  json row = row_of("zb-0");
  row["pp"] = 4;
  row["vpp"] = 2;
  row["data_parallel"] = 4;
  row["schedule"] = "zb-h1";
  const RowSimulation simulated = simulate(row);
  EXPECT_NE(simulated.not_simulated, "");
  EXPECT_GT(simulated.estimated_seconds, 0);
  const json report = json::parse(row_simulation_json(simulated).dump());
  EXPECT_TRUE(report["simulated_seconds"].is_null());
  EXPECT_EQ(report["not_simulated"], simulated.not_simulated);
}

// The closed form once left out that launches bind the step of a small model.
TEST(ValidateSimulate, AStreamBoundByLaunchesIsInTheClosedFormToo) {
  json row = row_of("launch-0");
  row["hidden"] = 256;
  row["heads"] = 4;
  row["kv_heads"] = 4;
  row["ffn"] = 1024;
  row["seq"] = 256;
  row["gpus"] = 1;
  row["data_parallel"] = 1;
  row["global_batch"] = 4;
  row["behaviour"] = "fsdp2";
  row["vocab"] = 32000;
  const RowSimulation simulated = simulate(row);
  EXPECT_LT(std::abs(simulated.difference()), kAgreement) << causes_text(simulated);
}

TEST(ValidateSimulate, TheReportKeepsItsKeysAndAddsTheSimulators) {
  const TestFolder folder;
  json broken = row_of("broken-1");
  broken.erase("gpu");
  const std::string file =
      folder.file("rows.json", json::array({row_of("whole-0"), broken}).dump());
  const json report = json_of({"validate", "--simulate", "--json", "--rows", file});
  EXPECT_EQ(report["schema"], "trireme.validate/1");
  const json& row = report["rows"][0];
  for (const char* key : {"id", "measured_seconds", "predicted_seconds", "measured_memory_gib",
                          "predicted_memory_gib", "memory_kind", "low_seconds", "high_seconds",
                          "fit", "assumed", "skipped", "closed_form_seconds", "simulated_seconds",
                          "simulated_over_closed_form", "causes", "not_simulated"}) {
    EXPECT_TRUE(row.contains(key)) << key;
  }
  EXPECT_EQ(row["predicted_seconds"], row["simulated_seconds"]);
  EXPECT_FALSE(report["rows"][1]["skipped"].is_null());
}

}  // namespace
}  // namespace trireme::tools
