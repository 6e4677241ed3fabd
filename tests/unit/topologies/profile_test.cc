// The calibrated profile: what it holds reads back equal, and its tables are what costs answer.
#include "topologies/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/microbenchmarks_json.h"
#include "topologies/collective_cost.h"
#include "topologies/measured_collective.h"
#include "topologies/op_cost.h"

namespace trireme::topologies {
namespace {

Profile calibrated() {
  Profile profile;
  profile.name = "two H200";
  profile.machine = MachineFingerprint{.gpu = "NVIDIA H200",
                                       .driver = "13.0",
                                       .cuda = "13.0",
                                       .nccl = "2.28.3",
                                       .cudnn = "91400",
                                       .gpus = 2,
                                       .multiprocessors = 132,
                                       .clock_mhz = 1980,
                                       .memory_clock_mhz = 3201,
                                       .memory = Bytes(150'000'000'000)};
  profile.topology = "hgx-h200x1";
  GpuFit fit = shipped_profile().gpus.at("H200-SXM-141GB");
  fit.matmuls = {
      {4096, 4096, 4096, FlopPerSecond(7e14), "forward"},
      {4096, 4096, 4096, FlopPerSecond(1.2e15), "input_gradient", MatmulPrecision::kFp8}};
  fit.grouped = {{64, 1536, 2048, 256, FlopPerSecond(2e14), MatmulLayout::kWeightGradient, true}};
  fit.attention = {{1, 32, 8, 4096, 128, Seconds(3e-4), Seconds(9e-4), false}};
  profile.gpus["H200-SXM-141GB"] = fit;
  profile.networks["NVLink Hopper"] = {{"ring_share", 0.7}};
  profile.collectives.push_back({.operation = "all_reduce",
                                 .gpu = "H200-SXM-141GB",
                                 .network = "",
                                 .ranks = 2,
                                 .ranks_per_node = 2,
                                 .points = {{1 << 20, 3e-5}, {1 << 24, 1.5e-4}},
                                 .regimes = {{1 << 24, Seconds(2e-5), BytesPerSecond(1.3e11)}},
                                 .residual = 0.01,
                                 .source = "test"});
  profile.overlaps.push_back({"all_gather", 0.08, 0.15});
  profile.corrections["compute"] = {1.1, 3, 0.6};
  profile.interval = MeasuredInterval{0.95, 1.06, 4};
  profile.residuals["matmul"] = 0.02;
  auto points = std::make_shared<Microbenchmarks>();
  points->machine = *profile.machine;
  points->matmuls.push_back({4096, 4096, 4096, MatmulLayout::kForward, {Seconds(1.9e-4), 0.01}});
  points->matmuls.push_back({4096,
                             4096,
                             4096,
                             MatmulLayout::kInputGradient,
                             {Seconds(1.1e-4), 0.01},
                             MatmulPrecision::kFp8});
  points->grouped.push_back(
      {64, 1536, 2048, 256, MatmulLayout::kWeightGradient, true, {Seconds(5.2e-4), 0.01}});
  points->collectives.push_back({"all_reduce", 2, Bytes(1 << 20), {Seconds(3e-5), 0.02}});
  points->launch = {Seconds(4e-6), 0.1};
  profile.points = points;
  return profile;
}

TEST(CalibratedProfile, ReadsBackEqual) {
  const std::string text = profile_text(calibrated());
  const Profile again = parse_profile(text, "again");
  EXPECT_EQ(profile_text(again), text);
  EXPECT_EQ(again.machine->gpu, "NVIDIA H200");
  EXPECT_EQ(again.gpus.at("H200-SXM-141GB").matmuls.front().layout, "forward");
  ASSERT_TRUE(again.points);
  EXPECT_EQ(again.points->collectives.size(), 1U);
  ASSERT_EQ(again.points->grouped.size(), 1U);
  EXPECT_TRUE(again.points->grouped.front().adds);
  ASSERT_EQ(again.gpus.at("H200-SXM-141GB").grouped.size(), 1U);
  EXPECT_EQ(again.gpus.at("H200-SXM-141GB").grouped.front().layout, MatmulLayout::kWeightGradient);
  EXPECT_EQ(again.points->matmuls.back().precision, MatmulPrecision::kFp8);
  EXPECT_EQ(again.gpus.at("H200-SXM-141GB").matmuls.front().precision, MatmulPrecision::kBf16);
  EXPECT_EQ(again.gpus.at("H200-SXM-141GB").matmuls.back().precision, MatmulPrecision::kFp8);
}

TEST(CalibratedProfile, TheProfilesThatShipAreWholeAndNameWhoMeasuredThem) {
  int found = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(TRIREME_SOURCE_DIR "/topologies/profiles")) {
    const Profile profile = load_profile(entry.path().string());
    ASSERT_TRUE(profile.machine) << entry.path();
    ASSERT_TRUE(profile.points) << entry.path();
    const auto gpu = std::ranges::find_if(
        profile.gpus, [](const auto& each) { return !each.second.matmuls.empty(); });
    ASSERT_NE(gpu, profile.gpus.end()) << entry.path();
    const std::string& source = gpu->second.source;
    EXPECT_TRUE(source.find("measured by trireme calibrate") == 0 ||
                source.find("micro-benchmarks of ") == 0)
        << source;
    ++found;
  }
  EXPECT_GE(found, 2);
}

TEST(CalibratedProfile, MisspeltKeysAndSpoiltValuesAreErrors) {
  const std::string text = profile_text(calibrated());
  const auto spoilt = [&text](const std::string& from, const std::string& to) {
    std::string copy = text;
    const auto at = copy.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return copy.replace(at, from.size(), to);
  };
  EXPECT_THROW(parse_profile(spoilt("\"overlaps\"", "\"overlap\""), "x"), Error);
  EXPECT_THROW(parse_profile(spoilt("\"ranks\":2", "\"ranks\":1"), "x"), Error);
  EXPECT_THROW(parse_profile(spoilt("[1048576.0,", "[0,"), "x"), Error);
  EXPECT_THROW(parse_profile(spoilt("profile/1", "profile/2"), "x"), Error);
  EXPECT_THROW(
      parse_profile(spoilt("\"input_gradient\",\"fp8\"", "\"input_gradient\",\"fp7\""), "x"),
      Error);
}

// Samples of experts' products at rates that a profile's table cannot have were fitted, and the
// profile made of them was read by nothing.
TEST(CalibratedProfile, SamplesOfExpertsAtARateOfNoGpuAreErrors) {
  const nlohmann::ordered_json good = microbenchmarks_to_json(*calibrated().points);
  EXPECT_NO_THROW(microbenchmarks_from_json(good, "x"));
  const auto spoilt = [&](std::int64_t m, double seconds) {
    nlohmann::ordered_json bad = good;
    bad["grouped"][0]["m"] = m;
    bad["grouped"][0]["seconds"] = seconds;
    return bad;
  };
  EXPECT_THROW(microbenchmarks_from_json(spoilt(1536, 1e-30), "x"), Error);
  EXPECT_THROW(microbenchmarks_from_json(spoilt(1, 1e6), "x"), Error);
  EXPECT_THROW(microbenchmarks_from_json(spoilt(10'000'000'000'000, 1e3), "x"), Error);
}

TEST(CalibratedProfile, SavingReplacesTheOldFileInOneStep) {
  const auto path = std::filesystem::temp_directory_path() / "trireme_profile_test.json";
  save_profile(calibrated(), path.string());
  const Profile loaded = load_profile(path.string());
  // What the file leaves out is the shipped profile's, and is not written again.
  EXPECT_EQ(loaded.frameworks, shipped_profile().frameworks);
  EXPECT_EQ(profile_text(loaded), profile_text(calibrated()));
  EXPECT_THROW(save_profile(calibrated(), "/no/such/folder/profile.json"), Error);
  std::filesystem::remove(path);
}

TEST(MeasuredCollective, AnswersFromTheTableBetweenItsSizes) {
  const Cluster cluster = narrowed(load_cluster("hgx-h200x1"), 2);
  const GroupShape pair{.ranks = 2, .ranks_per_node = 2};
  const Profile profile = [] {
    Profile p = calibrated();
    p.corrections.clear();
    return p;
  }();
  const auto time = [&](double bytes, const GroupShape& group = {.ranks = 2, .ranks_per_node = 2}) {
    return collective_time(cluster, profile, Collective::kAllReduce, group,
                           Bytes(static_cast<std::int64_t>(bytes)));
  };
  EXPECT_DOUBLE_EQ(time(1 << 20).time.value, 3e-5);
  EXPECT_DOUBLE_EQ(time(1 << 24).time.value, 1.5e-4);
  EXPECT_TRUE(time(1 << 22).measured);
  EXPECT_NEAR(time(1 << 22).time.value, std::sqrt(3e-5 * 1.5e-4), 1e-9);
  // Beyond, the model goes on from the edge without a jump.
  EXPECT_FALSE(time(1 << 26).measured);
  EXPECT_NEAR(time((1 << 24) * 1.001).time.value, 1.5e-4, 1e-6);
  EXPECT_GT(time(1 << 26).time.value, 3 * 1.5e-4);
  // Another card has no table.
  const Cluster other = load_cluster("dgx-h100x1");
  EXPECT_EQ(measured_table(profile, other, Collective::kAllReduce, pair), nullptr);
  EXPECT_EQ(measured_table(profile, cluster, Collective::kAllGather, pair), nullptr);
}

// Each precision has its own measured products; 16 bits stand in for each other, 8 bits for none.
TEST(OpCost, AProductAsksTheTableOfItsPrecision) {
  const Cluster cluster = load_cluster("hgx-h200x1");
  Profile profile = with_shipped_parts(calibrated());
  profile.corrections.clear();
  GpuFit& fit = profile.gpus.at("H200-SXM-141GB");
  const MatmulShape shape{4096, 4096, 4096, 1};
  const auto seconds = [&](Precision precision) {
    return OpCost(cluster, profile).matmul(shape, precision).value;
  };
  fit.matmuls.clear();
  const double fp8_model = seconds(Precision::kFp8);
  const double bf16_model = seconds(Precision::kBf16);
  const double fp16_model = seconds(Precision::kFp16);
  EXPECT_EQ(matmul_table(fit, Precision::kFp8), std::nullopt);
  const auto rate = [&shape](double model) {  // of a product that takes half as long again
    return FlopPerSecond(2.0 * 4096 * 4096 * 4096 / (1.5 * model));
  };
  // One point against the model's half a vote: two thirds of the way in logarithms.
  const double moved = std::pow(1.5, 1 / 1.5);
  fit.matmuls.push_back({4096, 4096, 4096, rate(fp8_model), "", MatmulPrecision::kFp8});
  EXPECT_NEAR(seconds(Precision::kFp8) / fp8_model, moved, 1e-9);
  EXPECT_EQ(seconds(Precision::kBf16), bf16_model);
  EXPECT_EQ(seconds(Precision::kFp16), fp16_model);
  fit.matmuls.push_back({4096, 4096, 4096, rate(bf16_model), ""});
  EXPECT_NEAR(seconds(Precision::kBf16) / bf16_model, moved, 1e-9);
  EXPECT_NEAR(seconds(Precision::kFp16) / fp16_model, moved, 1e-9);
  fit.matmuls.push_back({4096, 4096, 4096, FlopPerSecond(2.0 * 4096 * 4096 * 4096 / fp16_model), "",
                         MatmulPrecision::kFp16});
  EXPECT_NEAR(seconds(Precision::kFp16) / fp16_model, 1, 1e-9);
}

// Products in fp8 were scaled by the ratio of the peaks in bf16: a card that has other units for 8
// bits was misjudged.
TEST(OpCost, MeasuredProductsMoveToAnotherCardByThePeakOfTheirPrecision) {
  const Profile profile = with_shipped_parts(calibrated());
  Gpu other = load_cluster("dgx-h100x1").gpu;
  other.name = "half the fp8 units";
  other.peak_dense[Precision::kFp8] = other.peak_dense[Precision::kFp8] * 0.5;
  const GpuFit moved = fit_for(other, profile);
  ASSERT_EQ(moved.matmuls.size(), 2U);
  EXPECT_NEAR(moved.matmuls[0].rate.value, 7e14, 1e9);
  EXPECT_NEAR(moved.matmuls[1].rate.value, 0.6e15, 1e9);
}

TEST(OpCost, ACalibratedProfileMovesToAnotherCardByItsDatasheet) {
  const Profile profile = with_shipped_parts(calibrated());
  const Cluster own = load_cluster("hgx-h200x1");
  const Cluster other = load_cluster("dgx-h100x1");
  EXPECT_TRUE(fit_for(own.gpu, profile).measured);
  const GpuFit moved = fit_for(other.gpu, profile);
  EXPECT_FALSE(moved.measured);
  EXPECT_TRUE(moved.source.starts_with("transferred from H200-SXM-141GB"));
  // The same peak: a measured product takes the same time on both, up to memory traffic.
  const MatmulShape shape{4096, 4096, 4096, 1};
  EXPECT_NEAR(OpCost(other, profile).matmul(shape, Precision::kBf16).value,
              OpCost(own, profile).matmul(shape, Precision::kBf16).value, 1e-5);
}

// B200's and A100's rows were predicted by an H200's efficiencies: 4 and 25 % further off.
TEST(OpCost, ACalibratedProfileLeavesOtherArchitecturesAsTheyShip) {
  const Profile profile = with_shipped_parts(calibrated());
  for (const char* name : {"dgx-b200x1", "dgx-a100-80gbx1", "hgx-h100-96gbx1"}) {
    const Gpu gpu = load_cluster(name).gpu;
    const GpuFit& shipped = shipped_profile().gpus.at(gpu.name);
    EXPECT_EQ(fit_for(gpu, profile).source, shipped.source);
    EXPECT_EQ(fit_for(gpu, profile).constants, shipped.constants);
  }
}

TEST(CalibratedProfile, ConstantsOutOfTheirRangeAreErrors) {
  const std::string text = profile_text(calibrated());
  const auto with = [&text](const std::string& constant, const std::string& value) {
    nlohmann::json json = nlohmann::json::parse(text);
    json["gpus"]["H200-SXM-141GB"]["constants"][constant] = nlohmann::json::parse(value);
    return json.dump();
  };
  EXPECT_NO_THROW(parse_profile(with("matmul_efficiency", "0.7"), "x"));
  EXPECT_THROW(parse_profile(with("matmul_efficiency", "0"), "x"), Error);
  EXPECT_THROW(parse_profile(with("kernel_seconds", "1e308"), "x"), Error);
  EXPECT_THROW(parse_profile(with("launch_seconds", "-1e-6"), "x"), Error);
}

// A share was an efficiency above 1 once, and a start a latency below 0: neither is read as
// today's.
TEST(CalibratedProfile, ConstantsOfNetworksAreTimesAndSharesByTodaysNames) {
  const std::string text = profile_text(calibrated());
  const auto with = [&text](const std::string& constant, double value) {
    nlohmann::json json = nlohmann::json::parse(text);
    json["networks"]["NVLink Hopper"][constant] = value;
    return json.dump();
  };
  EXPECT_NO_THROW(parse_profile(with("ring_share", 0.8), "x"));
  EXPECT_THROW(parse_profile(with("ring_share", 1.03), "x"), Error);
  EXPECT_THROW(parse_profile(with("start_us", -0.3), "x"), Error);
  EXPECT_THROW(parse_profile(with("ring_efficiency", 0.9), "x"), Error);
}

TEST(OpCost, AttentionFollowsItsTableAndTheCorrectionOfRuns) {
  const Cluster cluster = load_cluster("hgx-h200x1");
  Profile profile = with_shipped_parts(calibrated());
  profile.corrections.clear();
  const AttentionShape shape{.batch = 1,
                             .heads = 32,
                             .kv_heads = 8,
                             .query_length = 4096,
                             .key_length = 4096,
                             .qk_dim = 128,
                             .v_dim = 128};
  const double seconds =
      OpCost(cluster, profile).attention(shape, Precision::kBf16, Pass::kForward).value;
  EXPECT_NEAR(seconds / 3e-4, 1, 0.05);
  profile.corrections["compute"] = {1.25, 2, 0.5};
  EXPECT_NEAR(OpCost(cluster, profile).attention(shape, Precision::kBf16, Pass::kForward).value,
              1.25 * seconds, 1e-9);
}

}  // namespace
}  // namespace trireme::topologies
