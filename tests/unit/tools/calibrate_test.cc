// `trireme calibrate` end to end without a GPU: logs, raw points and runs become profiles, profiles
// change predictions, and bad input is one line that leaves the old profile whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/files.h"
#include "core/json_reader.h"
#include "core/json_text.h"
#include "core/microbenchmarks_json.h"
#include "planner/cost/offload_cost.h"
#include "tests/unit/tools/command.h"
#include "tools/program.h"
#include "topologies/grouped_tiles.h"
#include "topologies/op_cost.h"

namespace trireme::tools {
namespace {

namespace fs = std::filesystem;

class CalibrateCommand : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    return folder_.file(name, text);
  }
  // A log whose times are latency + size / rate, with its bus bandwidth as the tool prints it.
  [[nodiscard]] std::string log(double latency_us, double gbytes_per_second) const {
    std::ostringstream text;
    text << "# Collective test starting: all_reduce_perf\n";
    for (int rank = 0; rank < 8; ++rank) {
      text << "#  Rank " << rank << " Group 0 Pid 7 on node-a device " << rank
           << " [0000:1b:00] NVIDIA H100 80GB HBM3\n";
    }
    text << "#       size  count  type  redop  root  time  algbw  busbw #wrong\n"
            "#        (B)                               (us)  (GB/s)  (GB/s)\n";
    for (std::int64_t bytes = 1 << 16; bytes <= 1 << 30; bytes *= 2) {
      const double us = latency_us + static_cast<double>(bytes) / gbytes_per_second * 1e-3;
      const double algbw = static_cast<double>(bytes) / us * 1e-3;
      text << bytes << " " << bytes / 4 << " float sum -1 " << us << " " << algbw << " "
           << algbw * 1.75 << " 0\n";
    }
    return text.str();
  }
  TestFolder folder_;
};

const std::vector<std::string> kEstimate = {
    "estimate", "--model", "llama-3.1-8b",           "--cluster",      "dgx-h100x1",
    "--tp",     "8",       "--no-sequence-parallel", "--global-batch", "8",
    "--json"};

double estimated_tensor_seconds(const std::string& profile) {
  std::vector<std::string> arguments = kEstimate;
  if (!profile.empty()) {
    arguments.insert(arguments.end(), {"--calibration", profile});
  }
  const Answer answer = run_command(arguments);
  EXPECT_EQ(answer.code, kDone) << answer.err;
  return nlohmann::json::parse(answer.out)
      .at("time")
      .at("breakdown_seconds")
      .at("tensor_parallel")
      .get<double>();
}

TEST_F(CalibrateCommand, FitReproducesTheLogsOwnBusBandwidths) {
  const std::string file = write("all_reduce.log", log(30, 100));
  const Answer answer = run_command({"calibrate", "--fit", file, "--cluster", "dgx-h100x1", "-o",
                                     path("profile.json"), "--json"});
  ASSERT_EQ(answer.code, kDone) << answer.err;
  const nlohmann::json json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json.at("schema"), "trireme.calibrate/1");
  ASSERT_EQ(json.at("tables").size(), 1U);
  ASSERT_EQ(json.at("tables")[0].at("points").size(), 15U);
  for (const nlohmann::json& point : json.at("tables")[0].at("points")) {
    const double printed = point.at("measured_busbw_gbytes_per_second").get<double>();
    EXPECT_NEAR(point.at("busbw_gbytes_per_second").get<double>() / printed, 1, 1e-3);
  }
  EXPECT_LT(json.at("collectives")[0].at("regimes_median_abs_error").get<double>(), 0.01);
  // `topo collective` aside, predictions follow: this link is far slower than a DGX's.
  EXPECT_GT(estimated_tensor_seconds(path("profile.json")), 1.2 * estimated_tensor_seconds(""));
}

// A run of all the tensor-parallel collectives over a link of a third of the DGX's rate.
TEST_F(CalibrateCommand, SimulateFollowsTheProfileAndSaysSo) {
  const std::string file = write("all_reduce.log", log(30, 100));
  ASSERT_EQ(run_command(
                {"calibrate", "--fit", file, "--cluster", "dgx-h100x1", "-o", path("profile.json")})
                .code,
            kDone);
  std::vector<std::string> arguments = kEstimate;
  arguments[0] = "simulate";
  const nlohmann::json shipped = nlohmann::json::parse(run_command(arguments).out);
  arguments.insert(arguments.end(), {"--calibration", path("profile.json")});
  const nlohmann::json fitted = nlohmann::json::parse(run_command(arguments).out);
  const auto tensor = [](const nlohmann::json& step) {
    return step.at("time").at("breakdown_seconds").at("tensor_parallel").get<double>();
  };
  EXPECT_EQ(fitted.at("schema"), "trireme.simulate/1");
  EXPECT_GT(tensor(fitted), 1.2 * tensor(shipped));
  EXPECT_EQ(fitted.at("sources").at("calibrated"), true);
  EXPECT_EQ(shipped.at("sources").at("calibrated"), false);
  // The simulator's collective takes what the profile's regimes say: the closed form's too.
  EXPECT_NEAR(tensor(fitted) / estimated_tensor_seconds(path("profile.json")), 1, 0.25);
}

TEST_F(CalibrateCommand, PlanFollowsTheProfileAndSaysSo) {
  const std::string file = write("all_reduce.log", log(30, 20));
  ASSERT_EQ(run_command(
                {"calibrate", "--fit", file, "--cluster", "dgx-h100x1", "-o", path("profile.json")})
                .code,
            kDone);
  // With tp and sequence parallelism fixed every plan must pass the slow all-reduce.
  const std::vector<std::string> arguments = {
      "plan",  "--model", "llama-3.1-8b",           "--cluster",      "dgx-h100x1",
      "--tp",  "8",       "--no-sequence-parallel", "--global-batch", "8",
      "--json"};
  std::vector<std::string> calibrated = arguments;
  calibrated.insert(calibrated.end(), {"--calibration", path("profile.json")});
  const nlohmann::json shipped = nlohmann::json::parse(run_command(arguments).out);
  const nlohmann::json fitted = nlohmann::json::parse(run_command(calibrated).out);
  const auto step = [](const nlohmann::json& plan) {
    return plan.at("best").at("time").at("step_seconds").get<double>();
  };
  EXPECT_GT(step(fitted), 1.2 * step(shipped));
  EXPECT_EQ(fitted.at("best").at("sources").at("calibrated"), true);
  EXPECT_EQ(shipped.at("best").at("sources").at("calibrated"), false);
  // Free to choose, the plan leaves the slow collective: no tensor parallelism over all eight.
  std::vector<std::string> free_choice = {
      "plan",           "--model", "llama-3.1-8b", "--cluster",     "dgx-h100x1",
      "--global-batch", "64",      "--json",       "--calibration", path("profile.json")};
  const nlohmann::json chosen = nlohmann::json::parse(run_command(free_choice).out);
  EXPECT_LT(chosen.at("best").at("layout").at("tp").get<int>(), 8);
}

TEST_F(CalibrateCommand, EstimateSaysWhatCameFromTheProfile) {
  const std::string file = write("all_reduce.log", log(30, 100));
  ASSERT_EQ(run_command(
                {"calibrate", "--fit", file, "--cluster", "dgx-h100x1", "-o", path("profile.json")})
                .code,
            kDone);
  std::vector<std::string> arguments = kEstimate;
  arguments.insert(arguments.end(), {"--calibration", path("profile.json")});
  const nlohmann::json sources = nlohmann::json::parse(run_command(arguments).out).at("sources");
  EXPECT_EQ(sources.at("calibrated"), true);
  std::map<std::string, std::string> from;
  for (const nlohmann::json& one : sources.at("quantities")) {
    from[one.at("quantity")] = one.at("from");
  }
  EXPECT_EQ(from.at("collectives in the node"), "measured");
  const nlohmann::json shipped = nlohmann::json::parse(run_command(kEstimate).out).at("sources");
  EXPECT_EQ(shipped.at("calibrated"), false);
}

// Points as the shipped model has them, at other shares of the peaks; with fp8 where a share is
// given.
Microbenchmarks made_up_points(double efficiency, double fp8_efficiency = 0) {
  const topologies::Cluster cluster = topologies::load_cluster("hgx-h200x1");
  topologies::Profile profile = topologies::shipped_profile();
  profile.gpus.at("H200-SXM-141GB").matmuls.clear();
  profile.gpus.at("H200-SXM-141GB").constants["matmul_efficiency"] = efficiency;
  if (fp8_efficiency > 0) {
    profile.gpus.at("H200-SXM-141GB").constants["fp8_efficiency"] = fp8_efficiency;
  }
  const topologies::OpCost cost(cluster, profile);
  Microbenchmarks points;
  points.machine.gpu = "NVIDIA H200";
  points.machine.gpus = 2;
  points.machine.multiprocessors = 132;
  points.machine.memory = cluster.gpu.memory;
  for (const std::int64_t m : {2048, 4096, 8192}) {
    for (const std::int64_t k : {2048, 4096, 14336}) {
      points.matmuls.push_back(
          {m,
           4096,
           k,
           MatmulLayout::kForward,
           {cost.matmul({m, 4096, k, 1}, topologies::Precision::kBf16), 0.01}});
      if (fp8_efficiency > 0) {
        points.matmuls.push_back({m,
                                  4096,
                                  k,
                                  MatmulLayout::kInputGradient,
                                  {cost.matmul({m, 4096, k, 1}, topologies::Precision::kFp8), 0.01},
                                  MatmulPrecision::kFp8});
      }
    }
  }
  for (const std::int64_t rows : {64, 1024}) {
    const auto shape = topologies::grouped_shape({rows, 1536, 2048, 64}, false, false);
    points.grouped.push_back({64,
                              rows,
                              1536,
                              2048,
                              MatmulLayout::kForward,
                              false,
                              {cost.matmul(shape, topologies::Precision::kBf16), 0.01}});
  }
  for (std::int64_t bytes = 1 << 20; bytes <= 1 << 30; bytes *= 4) {
    points.passes.push_back({Bytes(bytes), {cost.memory_bound(Bytes(bytes), 1), 0.01}});
    points.collectives.push_back(
        {"all_gather", 2, Bytes(bytes), {Seconds(2e-5 + static_cast<double>(bytes) / 3e11), 0.01}});
  }
  points.launch = {Seconds(6e-6), 0.1};
  return points;
}

TEST_F(CalibrateCommand, RawPointsBecomeAProfileThatFindsTheirConstantsAgain) {
  const std::string raw =
      write("raw.json", readable_json(microbenchmarks_to_json(made_up_points(0.6))));
  const Answer answer =
      run_command({"calibrate", "--from-points", raw, "-o", path("profile.json"), "--json"});
  ASSERT_EQ(answer.code, kDone) << answer.err;
  const topologies::Profile profile = topologies::load_profile(path("profile.json"));
  const auto& fit = profile.gpus.at("H200-SXM-141GB");
  EXPECT_TRUE(fit.measured);
  EXPECT_NEAR(fit.constants.at("matmul_efficiency"), 0.6, 0.03);
  EXPECT_NEAR(fit.constants.at("launch_seconds"), 6e-6, 1e-9);
  ASSERT_TRUE(profile.machine);
  EXPECT_EQ(profile.machine->gpu, "NVIDIA H200");
  ASSERT_TRUE(profile.points);
  EXPECT_EQ(profile.points->matmuls.size(), 9U);
  EXPECT_EQ(profile.points->grouped.size(), 2U);
  EXPECT_EQ(fit.grouped.size(), 2U);
  EXPECT_EQ(profile.collectives.size(), 1U);
  const nlohmann::json fits = nlohmann::json::parse(answer.out).at("fits");
  for (const nlohmann::json& fitted : fits) {
    EXPECT_LT(fitted.at("median_abs_error").get<double>(), 0.02) << fitted;
  }
  // On another card it is marked, with the fields that differ.
  std::vector<std::string> arguments = kEstimate;
  arguments.insert(arguments.end(), {"--calibration", path("profile.json")});
  const nlohmann::json sources = nlohmann::json::parse(run_command(arguments).out).at("sources");
  EXPECT_EQ(sources.at("transferred"), true);
  EXPECT_FALSE(sources.at("differs").empty());
}

// The runtime gives a pipeline's messages two multiprocessors; they were priced as NCCL's own.
TEST_F(CalibrateCommand, MeasuredMessagesSetTheRateOfTheRuntimesOwn) {
  Microbenchmarks points = made_up_points(0.6);
  for (std::int64_t bytes = 1 << 18; bytes <= 1 << 26; bytes *= 4) {
    const Seconds seconds(1e-5 + static_cast<double>(bytes) / 2e10);
    points.messages.push_back({"message", 2, Bytes(bytes), {seconds, 0.01}});
  }
  const std::string raw = write("raw.json", readable_json(microbenchmarks_to_json(points)));
  ASSERT_EQ(run_command({"calibrate", "--from-points", raw, "-o", path("profile.json")}).code,
            kDone);
  const topologies::Profile profile = topologies::load_profile(path("profile.json"));
  const auto& own = profile.frameworks.at("trireme");
  EXPECT_NEAR(own.at("message_rate"), 2e10, 0.1e10);  // less what a message costs beside its bytes
  EXPECT_EQ(own.at("memory_traffic"),
            topologies::shipped_profile().frameworks.at("trireme").at("memory_traffic"));
}

// Copies between GPU and host were measured and asked by nobody.
TEST_F(CalibrateCommand, MeasuredCopiesSetTheRatesOfTheHostsLink) {
  Microbenchmarks points = made_up_points(0.6);
  points.machine.gpus = 2;
  const Timing second{Seconds(1), 0.01};
  points.copies = {{"host_to_device", Bytes(50'000'000'000), second},
                   {"device_to_host", Bytes(51'000'000'000), second},
                   {"both_ways", Bytes(30'000'000'000), second},
                   {"both_ways_alone", Bytes(40'000'000'000), second}};
  const std::string raw = write("raw.json", readable_json(microbenchmarks_to_json(points)));
  ASSERT_EQ(run_command({"calibrate", "--from-points", raw, "-o", path("profile.json")}).code,
            kDone);
  planner::Job job;
  job.cluster = topologies::load_cluster("hgx-h200");
  job.profile = topologies::load_profile(path("profile.json"));
  const auto rates = [&](std::int64_t gpus) {
    job.cluster.gpus = gpus;
    const planner::HostMachine host = planner::host_of(job);
    return std::pair(host.link_rate, host.both_rate);
  };
  EXPECT_EQ(rates(1), std::pair(50e9, 40e9));
  EXPECT_EQ(rates(2), std::pair(50e9, 30e9));  // as measured of two together
  EXPECT_EQ(rates(4), std::pair(30e9, 15e9));
  job.offload.link_gbytes_per_second = 25;  // what each gets; as much less both ways
  EXPECT_EQ(rates(4), std::pair(25e9, 20e9));
  job.offload.link_gbytes_per_second = 0;
  job.cluster = topologies::load_cluster("dgx-a100-80gb");  // another card's
  EXPECT_LT(planner::host_of(job).link_rate, 30e9);
}

// What --precision fp8 multiplies in, and where its rate comes from.
std::map<std::string, std::string> product_sources(const nlohmann::json& estimate) {
  std::map<std::string, std::string> from;
  for (const nlohmann::json& one : estimate.at("sources").at("quantities")) {
    from[one.at("quantity")] = one.at("from");
  }
  return from;
}

TEST_F(CalibrateCommand, ProductsInFp8BecomeATableThatFp8PlansAsk) {
  const auto estimate = [](const std::string& profile, const std::string& precision) {
    return nlohmann::json::parse(
        run_command({"estimate", "--model", "llama-3.1-8b", "--cluster", "hgx-h200x1", "--sharding",
                     "full", "--framework", "fsdp2", "--global-batch", "8", "--precision",
                     precision, "--calibration", profile, "--json"})
            .out);
  };
  const auto seconds = [](const nlohmann::json& json) {
    return json.at("time").at("step_seconds").get<double>();
  };
  const auto profile_of = [this](const std::string& name, double fp8_efficiency) {
    const Microbenchmarks points = made_up_points(0.6, fp8_efficiency);
    const std::string raw =
        write(name + "_raw.json", readable_json(microbenchmarks_to_json(points)));
    const Answer answer =
        run_command({"calibrate", "--from-points", raw, "-o", path(name + ".json"), "--json"});
    EXPECT_EQ(answer.code, kDone) << answer.err;
    const nlohmann::json fits = nlohmann::json::parse(answer.out).at("fits");
    for (const nlohmann::json& fitted : fits) {
      EXPECT_LT(fitted.at("median_abs_error").get<double>(), 0.02) << fitted;
    }
    return path(name + ".json");
  };
  const std::string fast = profile_of("fast", 0.7);
  const std::string slow = profile_of("slow", 0.35);
  const std::string none = profile_of("none", 0);
  const auto fit = topologies::load_profile(fast).gpus.at("H200-SXM-141GB");
  EXPECT_NEAR(fit.constants.at("fp8_efficiency"), 0.7, 0.02);
  EXPECT_NEAR(fit.constants.at("matmul_efficiency"), 0.6, 0.03);
  EXPECT_GT(seconds(estimate(slow, "fp8")), 1.2 * seconds(estimate(fast, "fp8")));
  EXPECT_NEAR(seconds(estimate(slow, "bf16")) / seconds(estimate(fast, "bf16")), 1, 1e-9);
  auto from = product_sources(estimate(fast, "fp8"));
  EXPECT_EQ(from.at("matrix products in fp8"), "measured");
  EXPECT_EQ(from.at("matrix products kept in bf16"), "measured");
  from = product_sources(estimate(none, "fp8"));
  EXPECT_EQ(from.at("matrix products in fp8"), "fitted");
  EXPECT_EQ(from.at("matrix products kept in bf16"), "measured");
  EXPECT_EQ(product_sources(estimate(none, "fp16")).at("matrix products"), "measured");
  EXPECT_EQ(product_sources(estimate(none, "fp32")).at("matrix products"), "fitted");
}

// Points that were kept before precisions were measured have no such key.
TEST_F(CalibrateCommand, RawPointsWithoutAPrecisionAreInBf16AndAnUnknownOneIsOneLine) {
  nlohmann::ordered_json json = microbenchmarks_to_json(made_up_points(0.6));
  for (auto& row : json.at("matmuls")) {
    EXPECT_EQ(row.at("precision"), "bf16");
    row.erase("precision");
  }
  const Microbenchmarks points = microbenchmarks_from_json(json, "old");
  ASSERT_EQ(points.matmuls.size(), 9U);
  for (const MatmulSample& sample : points.matmuls) {
    EXPECT_EQ(sample.precision, MatmulPrecision::kBf16);
  }
  json.at("matmuls")[0]["precision"] = "fp7";
  const Answer answer = run_command(
      {"calibrate", "--from-points", write("bad.json", json.dump()), "-o", path("profile.json")});
  EXPECT_EQ(answer.code, kWrongInput);
  EXPECT_EQ(std::count(answer.err.begin(), answer.err.end(), '\n'), 1) << answer.err;
  EXPECT_NE(answer.err.find("\"fp7\" is none of bf16, fp16 and fp8"), std::string::npos)
      << answer.err;
}

TEST_F(CalibrateCommand, LinesOfMeasurementsNameTheirPrecisionAsPyTorchDoes) {
  const auto line = [](const std::string& layout, std::int64_t k, double seconds,
                       const std::string& precision) {
    std::ostringstream text;
    text << R"({"suite": "gemm", "layout": ")" << layout << R"(", "m": 8192, "n": 8192, "k": )" << k
         << R"(, "seconds": )" << seconds << precision << "}\n";
    return text.str();
  };
  std::string bf16, fp8;
  for (const std::int64_t k : {2048, 4096, 8192, 16384}) {
    const double flop = 2.0 * 8192 * 8192 * static_cast<double>(k);
    bf16 += line("nt", k, flop / 6e14, "");
    fp8 += line("nt", k, flop / 1.3e15, R"(, "dtype": "torch.float8_e4m3fn")");
    fp8 += line("wgrad_tn", k, flop / 1.1e15, R"(, "precision": "FP8")");
  }
  fp8 += line("nt", 4096, 1e-2, R"(, "dtype": "float32")");
  const std::string first = write("bf16.jsonl", bf16);
  const std::string second = write("fp8.jsonl", fp8);
  const Answer answer = run_command({"calibrate", "--fit", first, second, "--cluster", "hgx-h200x1",
                                     "-o", path("profile.json"), "--json"});
  ASSERT_EQ(answer.code, kDone) << answer.err;
  // A later file adds its precision to what an earlier one measured.
  const auto fit = topologies::load_profile(path("profile.json")).gpus.at("H200-SXM-141GB");
  const auto count = [&fit](MatmulPrecision precision) {
    return std::ranges::count_if(fit.matmuls, [precision](const topologies::MatmulPoint& point) {
      return point.precision == precision;
    });
  };
  EXPECT_GE(count(MatmulPrecision::kBf16), 3);  // less those that the host may have bound
  EXPECT_GE(count(MatmulPrecision::kFp8), 6);
  EXPECT_EQ(fit.source, "bf16.jsonl; fp8.jsonl");
  const nlohmann::json json = nlohmann::json::parse(answer.out);
  ASSERT_EQ(json.at("remarks").size(), 1U);
  EXPECT_NE(json.at("remarks")[0].get<std::string>().find("float32"), std::string::npos);
  bool named = false;
  for (const nlohmann::json& one : json.at("fits")) {
    named = named || one.at("what") == "matrix products, weight_gradient, fp8";
  }
  EXPECT_TRUE(named) << json.at("fits");
}

TEST_F(CalibrateCommand, LogsOfTrainingsCorrectTheProfileAndSetTheInterval) {
  const std::string titan = write("titan.log",
                                  "step:  1  loss: 12.2  tps: 800\n"
                                  "step: 10  loss: 9.8  tps: 4,000\n"
                                  "step: 20  loss: 9.1  tps: 4,010\n"
                                  "step: 30  loss: 8.9  tps: 3,990\n");
  const Answer answer =
      run_command({"calibrate", "--from-run", titan, "--model", "llama-3.1-8b", "--cluster",
                   "dgx-h100x1", "--seq", "8192", "--framework", "fsdp2", "--sharding", "full",
                   "--global-batch", "8", "-o", path("profile.json"), "--json"});
  ASSERT_EQ(answer.code, kDone) << answer.err;
  const nlohmann::json json = nlohmann::json::parse(answer.out);
  ASSERT_EQ(json.at("runs").size(), 1U);
  const nlohmann::json& run = json.at("runs")[0];
  const double measured = run.at("measured_seconds").get<double>();
  EXPECT_NEAR(measured, 8192.0 / 4000, 1e-3);
  EXPECT_LT(std::abs(run.at("after_seconds").get<double>() / measured - 1),
            std::abs(run.at("before_seconds").get<double>() / measured - 1));
  EXPECT_EQ(json.at("interval").at("runs"), 1);
  // The profile's interval and correction are what a prediction then carries.
  const Answer again =
      run_command({"estimate", "--model", "llama-3.1-8b", "--cluster", "dgx-h100x1", "--seq",
                   "8192", "--framework", "fsdp2", "--sharding", "full", "--global-batch", "8",
                   "--json", "--calibration", path("profile.json")});
  const nlohmann::json time = nlohmann::json::parse(again.out).at("time");
  EXPECT_NEAR(time.at("step_seconds").get<double>(), run.at("after_seconds").get<double>(),
              1e-6 * measured);
  EXPECT_NEAR(time.at("low_seconds").get<double>() / time.at("step_seconds").get<double>(),
              json.at("interval").at("low").get<double>(), 1e-9);
}

TEST_F(CalibrateCommand, LogsMayBeginWithABracket) {
  const std::string steps =
      "2026-01-02 03:04:05,678 - root - INFO - step:  1  loss: 12.2  tps: 800\n"
      "[rank1]:[titan] step: 10  loss: 9.8  tps: 4,000\n";
  for (const char* start : {"[titan] ", "[rank0]:[titan] ", "\n[", "  [2026] {"}) {
    const Answer answer = run_command(
        {"calibrate", "--from-run", write("bracket.log", start + steps), "--model", "llama-3.1-8b",
         "--cluster", "dgx-h100x1", "--seq", "8192", "--framework", "fsdp2", "--sharding", "full",
         "--global-batch", "8", "-o", path("profile.json"), "--json"});
    ASSERT_EQ(answer.code, kDone) << start << answer.err;
    EXPECT_EQ(nlohmann::json::parse(answer.out).at("runs").size(), 1U);
  }
}

TEST_F(CalibrateCommand, RowsOfThePublishedFormatAreRunsToo) {
  const std::string rows = write("mine.json", R"({"rows": [
    {"id": "mine-1", "model": "llama3-8b", "layers": 32, "hidden": 4096, "ffn": 14336, "heads": 32,
     "kv_heads": 8, "vocab": 128256, "seq": 8192, "gated_mlp": true, "gpu": "H100", "gpus": 8,
     "gpus_per_node": 8, "tp": 1, "pp": 1, "data_parallel": 8, "shard_degree": 8,
     "sharding": "full", "micro_batch": 1, "global_batch": 8, "precision": "bf16",
     "behaviour": "fsdp2", "recompute": "full", "seconds_per_step": 1.7},
    {"id": "mine-2", "gpu": "H100", "gpus": 8}]})");
  const Answer answer =
      run_command({"calibrate", "--from-run", rows, "-o", path("profile.json"), "--json"});
  ASSERT_EQ(answer.code, kDone) << answer.err;
  const nlohmann::json json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json.at("runs").size(), 1U);
  EXPECT_EQ(json.at("remarks").size(), 1U);
}

TEST_F(CalibrateCommand, BadInputIsOneLineAndLeavesTheOldProfileWhole) {
  const std::string old = "the profile of before";
  const std::string output = write("profile.json", old);
  const std::string log_file = write("log.txt", log(30, 100));
  const std::vector<std::vector<std::string>> wrong = {
      {"--fit", log_file},
      {"--fit", path("missing.log"), "--cluster", "dgx-h100x1"},
      {"--fit", write("empty.log", ""), "--cluster", "dgx-h100x1"},
      {"--fit", write("other.json", "{\"a\": 1}"), "--cluster", "dgx-h100x1"},
      {"--fit", write("bad.jsonl", "{\"suite\": \"gemm\", \"m\": 0}\n"), "--cluster", "dgx-h100x1"},
      {"--fit",
       write("fp7.jsonl", R"({"suite": "gemm", "layout": "nt", "m": 64, "n": 64, "k": 64, )"
                          R"("seconds": 1e-5, "dtype": "fp7"})"),
       "--cluster", "dgx-h100x1"},
      {"--from-points", write("points.json", "{\"schema\": \"x\"}")},
      {"--from-run", write("result.json", R"({"schema": "trireme.run/1"})")},
      {"--from-run", write("prose.txt", "nothing")},
      {"--fit", log_file, "--from-points", log_file, "--cluster", "dgx-h100x1"}};
  for (std::vector<std::string> arguments : wrong) {
    arguments.insert(arguments.begin(), "calibrate");
    arguments.insert(arguments.end(), {"-o", output});
    const Answer answer = run_command(arguments);
    EXPECT_EQ(answer.code, kWrongInput) << arguments[2];
    EXPECT_EQ(std::count(answer.err.begin(), answer.err.end(), '\n'), 1) << answer.err;
    EXPECT_TRUE(answer.err.starts_with("trireme: ")) << answer.err;
    std::ifstream file(output);
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_EQ(text.str(), old);
  }
  EXPECT_EQ(run_command({"calibrate", "--fit", log_file, "--cluster", "dgx-h100x1", "-o",
                         path("no/folder/p.json")})
                .code,
            kWrongInput);
}

}  // namespace
}  // namespace trireme::tools
