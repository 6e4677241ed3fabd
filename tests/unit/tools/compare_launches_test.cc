// A trace of PyTorch's profiler beside a plan: passes, layers and kinds of small traces made here.
#include "tools/compare_launches.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"

namespace trireme::tools {
namespace {

using nlohmann::json;

// Calls of one thread after each other, each with its kernel on the GPU.
class TraceWriter {
 public:
  void launch(int thread, const std::string& kernel) {
    ++correlation_;
    time_ += 10;
    events_.push_back({{"ph", "X"},
                       {"cat", "cuda_runtime"},
                       {"name", "cudaLaunchKernel"},
                       {"tid", thread},
                       {"ts", time_},
                       {"dur", 5},
                       {"args", {{"correlation", correlation_}}}});
    events_.push_back({{"ph", "X"},
                       {"cat", kernel == "memset" ? "gpu_memset" : "kernel"},
                       {"name", kernel},
                       {"tid", 7},
                       {"ts", time_ + 6},
                       {"dur", 2},
                       {"args", {{"correlation", correlation_}, {"stream", 7}}}});
  }
  void wait(int thread, double microseconds) {
    time_ += 10;
    events_.push_back({{"ph", "X"},
                       {"cat", "cuda_runtime"},
                       {"name", "cudaStreamSynchronize"},
                       {"tid", thread},
                       {"ts", time_},
                       {"dur", microseconds}});
    time_ += microseconds;
  }
  void node(int thread) {
    events_.push_back({{"ph", "X"},
                       {"cat", "cpu_op"},
                       {"name", "autograd::engine::evaluate_function: MmBackward0"},
                       {"tid", thread},
                       {"ts", time_ + 10},
                       {"dur", 5}});
  }
  [[nodiscard]] json trace() const {
    return {{"schemaVersion", 1}, {"deviceProperties", json::array()}, {"traceEvents", events_}};
  }

 private:
  json events_ = json::array();
  double time_ = 0;
  int correlation_ = 0;
};

constexpr int kMain = 11, kBackward = 12;
constexpr int kLayers = 24;

void write_layers(TraceWriter& writer, int thread, const std::vector<std::string>& layer,
                  int longer_layer) {
  for (int i = 0; i < kLayers; ++i) {
    for (const std::string& kernel : layer) {
      writer.launch(thread, kernel);
    }
    if (i == longer_layer) {
      writer.launch(thread, "elementwise_kernel");
      writer.launch(thread, "elementwise_kernel");
    }
  }
}

// Two micro-batches, and a step's end.
json small_trace(int longer_layer = -1) {
  TraceWriter writer;
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    writer.launch(kMain, "vectorized_gather_kernel");
    writer.launch(kMain, "unrolled_copy_kernel");
    write_layers(writer, kMain,
                 {"layer_norm_kernel", "memset", "sm90_gemm", "scaled_masked_softmax_warp_forward",
                  "sm90_gemm", "elementwise_kernel"},
                 longer_layer);
    writer.launch(kMain, "reduce_kernel");
    writer.wait(kMain, 500);
    writer.node(kBackward);
    writer.launch(kBackward, "reduce_kernel");
    write_layers(writer, kBackward,
                 {"elementwise_kernel", "sm90_gemm", "sm90_gemm", "softmax_warp_backward",
                  "GammaBetaBackward", "ncclDevKernel_AllReduce"},
                 -1);
  }
  for (int i = 0; i < 50; ++i) {
    writer.launch(kMain, "multi_tensor_apply_kernel");
  }
  return writer.trace();
}

TEST(ProfilerTrace, TellsPassesLayersAndKindsApart) {
  const ProfiledStep step = parse_profiler_trace(small_trace(), "small");
  ASSERT_EQ(step.passes.size(), 5U);
  const std::array<Phase, 5> phases = {Phase::kForward, Phase::kBackward, Phase::kForward,
                                       Phase::kBackward, Phase::kOptimizer};
  for (std::size_t i = 0; i < phases.size(); ++i) {
    EXPECT_EQ(step.passes[i].phase, phases[i]) << i;
  }
  EXPECT_EQ(step.passes[2].micro_batch, 1);
  // Embedding 2, layers of 6, a reduction; the wait is no host time.
  const ProfiledPass& forward = step.passes[0];
  EXPECT_EQ(forward.launches.size(), 2U + 6 * kLayers + 1);
  EXPECT_NEAR(forward.waited_seconds, 500e-6, 1e-9);
  EXPECT_EQ(forward.launches[0].layer, -1);
  EXPECT_EQ(forward.launches[2].layer, 0);
  EXPECT_EQ(forward.launches[2].kind, LaunchKind::kNorm);
  EXPECT_EQ(forward.launches[3].kind, LaunchKind::kFill);
  EXPECT_EQ(forward.launches[8].layer, 1);
  EXPECT_EQ(forward.launches.back().layer, -1);
  // The backward begins with the last layer.
  EXPECT_EQ(step.passes[1].launches[1].layer, kLayers - 1);
  EXPECT_EQ(step.passes[1].launches.back().layer, 0);
}

TEST(ProfilerTrace, SaysWhatItIsNot) {
  EXPECT_THROW(parse_profiler_trace(json::object(), "x"), Error);
  EXPECT_THROW(parse_profiler_trace(json::array(), "x"), Error);
  EXPECT_THROW(parse_profiler_trace({{"traceEvents", json::array()}}, "x"), Error);
  EXPECT_FALSE(is_profiler_trace("ours.json", {{"traceEvents", json::array()}}));
  EXPECT_TRUE(is_profiler_trace("theirs.json", small_trace()));
}

class CompareLaunches : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("launches-" + std::to_string(std::hash<std::string>{}(
                                 testing::UnitTest::GetInstance()->current_test_info()->name())));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string file(const std::string& name, const std::string& content) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  [[nodiscard]] std::string plan() const {
    return file("plan.json",
                R"({"schema": "trireme.plan_file/1",
 "job": {"attention": "unfused", "cluster": "hgx-h200x1", "framework": "megatron", "global_batch": 8,
         "gpus": 2, "model": "gpt3-760m", "seq": 2048,
         "settings": ["implementation=local", "dropout=0"]},
 "layout": {"short": "dp2.mb2", "tp": 1, "pp": 1, "vpp": 1, "dp": 2, "fsdp": 1, "cp": 1, "ep": 1,
            "etp": 1, "sharding": "none", "micro_batch": 2, "micro_batches": 2,
            "recompute": "none", "recompute_layers": -1, "recompute_modules": "core_attn",
            "schedule": "1f1b", "sequence_parallel": false, "reshard_after_forward": true,
            "fsdp_unit": 1, "stage_layers": [], "order": ["fsdp", "tp", "cp", "dp", "pp"]},
 "predicted": {"step_seconds": 0.2, "peak_allocated_gib": 20}})");
  }

 private:
  std::filesystem::path folder_;
};

// gzip of one stored block (RFC 1951, 1952).
std::string gzipped(const std::string& text) {
  std::uint32_t crc = 0xffffffffU;
  for (const char letter : text) {
    crc ^= static_cast<unsigned char>(letter);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
    }
  }
  crc = ~crc;
  std::string packed("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  const auto number = [&](std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      packed.push_back(static_cast<char>((value >> (8U * static_cast<unsigned>(i))) & 0xffU));
    }
  };
  constexpr std::size_t kBlock = 65535;
  for (std::size_t at = 0; at < text.size(); at += kBlock) {
    const std::string block = text.substr(at, kBlock);
    const auto size = static_cast<std::uint32_t>(block.size());
    packed.push_back(at + kBlock >= text.size() ? '\x01' : '\0');
    number(size, 2);
    number(~size, 2);
    packed += block;
  }
  number(crc, 4);
  number(static_cast<std::uint32_t>(text.size()), 4);
  return packed;
}

double kind_count(const Json& found, const std::string& pass, const std::string& kind,
                  const char* side) {
  for (const Json& one : found.at("launches_of_a_layer")) {
    if (one.at("pass") == pass && one.at("kind") == kind) {
      return one.at(side).get<double>();
    }
  }
  return -1;
}

TEST_F(CompareLaunches, CountsALayerByKindOnBothSides) {
  const LaunchComparison found = compare_launches(plan(), small_trace(), "trace.json");
  const Json printed = launches_json(found);
  EXPECT_EQ(printed.at("layers").at("predicted"), kLayers);
  EXPECT_EQ(printed.at("layers").at("measured"), kLayers);
  EXPECT_DOUBLE_EQ(kind_count(printed, "forward", "product", "measured_launches"), 2);
  // Joined q, k and v, output, up, down; scores and context.
  EXPECT_DOUBLE_EQ(kind_count(printed, "forward", "product", "predicted_launches"), 6);
  EXPECT_DOUBLE_EQ(kind_count(printed, "forward", "fill", "measured_launches"), 1);
  EXPECT_DOUBLE_EQ(kind_count(printed, "forward", "fill", "predicted_launches"), 0);
  EXPECT_DOUBLE_EQ(kind_count(printed, "backward", "collective", "measured_launches"), 1);
  EXPECT_TRUE(printed.at("unlike_layers").empty());
}

TEST_F(CompareLaunches, NamesLayersThatAreUnlike) {
  const LaunchComparison found = compare_launches(plan(), small_trace(9), "trace.json");
  ASSERT_EQ(found.unlike.size(), 2U);  // of each micro-batch
  EXPECT_EQ(found.unlike[0].layer, 9);
  EXPECT_DOUBLE_EQ(found.unlike[0].launches, 8);
  EXPECT_DOUBLE_EQ(found.unlike[0].median, 6);
}

TEST_F(CompareLaunches, ReadsWhatGzipHasPacked) {
  const std::string packed = gzipped(small_trace().dump());
  const std::string path = file("trace.json.gz", packed);
  try {
    const json trace = read_maybe_gzipped_json(path);
    EXPECT_EQ(trace, small_trace());
  } catch (const Error& error) {
    if (std::string(error.what()).find("no zlib") != std::string::npos) {
      GTEST_SKIP() << error.what();
    }
    throw;
  }
  EXPECT_THROW(read_maybe_gzipped_json(file("cut.json.gz", packed.substr(0, packed.size() / 2))),
               Error);
  EXPECT_THROW(read_maybe_gzipped_json(file("text.json.gz", "{}")), Error);
}

}  // namespace
}  // namespace trireme::tools
