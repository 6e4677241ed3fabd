// Where a step's time goes, counted by hand; and the peak of a card by its driver's name.
#include "tools/time_split.h"

#include <gtest/gtest.h>

#include "tools/device_peak.h"

namespace trireme::tools {
namespace {

TimedOp kernel(double start, double end, const char* category = "compute") {
  return {0, 0, category, true, start, start, end};
}
TimedOp transfer(double ready, double start, double end, const char* category) {
  return {0, 0, category, false, ready, start, end};
}

TEST(TimeSplit, EveryInstantIsCountedOnce) {
  // Kernels 1-3 and 4-5; a gather waits 0-2, runs 2-4; a message waits 5-7, runs 7-8; the step ends
  // at 10.
  const TimeSplit split =
      split_time({kernel(1, 3), kernel(4, 5), transfer(0, 2, 4, "data_parallel"),
                  transfer(5, 7, 8, "pipeline_p2p")},
                 {10});
  EXPECT_DOUBLE_EQ(split.seconds.at("skew"), 1);           // 0-1
  EXPECT_DOUBLE_EQ(split.seconds.at("compute"), 3);        // 1-3, 4-5
  EXPECT_DOUBLE_EQ(split.seconds.at("data_parallel"), 1);  // 3-4
  EXPECT_DOUBLE_EQ(split.seconds.at("pipeline_bubble"), 2);
  EXPECT_DOUBLE_EQ(split.seconds.at("pipeline_p2p"), 1);
  EXPECT_DOUBLE_EQ(split.seconds.at("unattributed"), 2);  // 8-10
  EXPECT_DOUBLE_EQ(split.step_seconds, 10);
  EXPECT_DOUBLE_EQ(split.exposed_communication, 2);
}

TEST(TimeSplit, OptimizerKernelsAreNotCommunication) {
  const TimeSplit split = split_time(
      {kernel(0, 4, "optimizer"), transfer(0, 0, 5, "optimizer"), kernel(1, 2, "compute")}, {5});
  EXPECT_DOUBLE_EQ(split.seconds.at("compute"), 1);
  EXPECT_DOUBLE_EQ(split.seconds.at("optimizer"), 4);
  EXPECT_DOUBLE_EQ(split.exposed_communication, 1);  // the norm's sum, 4-5
}

TEST(TimeSplit, MeanOverRanksAndIterations) {
  std::vector<TimedOp> ops = {kernel(0, 2)};
  ops.push_back({1, 0, "compute", true, 0, 0, 4});
  ops.push_back({0, 1, "compute", true, 0, 0, 6});
  ops.push_back({1, 1, "compute", true, 0, 0, 8});
  const TimeSplit split = split_time(ops, {4, 8});
  EXPECT_DOUBLE_EQ(split.seconds.at("compute"), 5);
  EXPECT_DOUBLE_EQ(split.seconds.at("unattributed"), 1);
  EXPECT_DOUBLE_EQ(split.step_seconds, 6);
}

TEST(TimeSplit, NamesCoverEveryPart) {
  const TimeSplit split = split_time({kernel(0, 1)}, {1});
  EXPECT_EQ(split.seconds.size(), time_split_names().size());
  for (const std::string& name : time_split_names()) {
    EXPECT_TRUE(split.seconds.contains(name)) << name;
  }
}

TEST(DevicePeak, CardsAsTheirDriversNameThem) {
  using topologies::Precision;
  const struct {
    const char* driver;
    const char* gpu;
    double tflops;  // dense bf16 of the makers' data sheets
  } cards[] = {{"NVIDIA H200", "H200-SXM-141GB", 989.4},
               {"NVIDIA H100 80GB HBM3", "H100-SXM5-80GB", 989.4},
               {"NVIDIA H100 PCIe", "H100-PCIe-80GB", 756},
               {"NVIDIA H100 NVL", "H100-NVL-94GB", 835},
               {"NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB", 312},
               {"NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", 312},
               {"NVIDIA A100 80GB PCIe", "A100-PCIe-80GB", 312},
               {"NVIDIA A100-PCIE-40GB", "A100-PCIe-40GB", 312},
               {"NVIDIA L40S", "L40S-48GB", 362},
               {"NVIDIA GeForce RTX 4090", "RTX-4090-24GB", 165.2}};
  for (const auto& card : cards) {
    const auto peak = device_peak(card.driver, Precision::kBf16);
    ASSERT_TRUE(peak) << card.driver;
    EXPECT_NEAR(peak->rate.value * 1e-12, card.tflops, 1e-6) << card.driver;
    EXPECT_TRUE(peak->source.starts_with(card.gpu)) << peak->source;
  }
  EXPECT_FALSE(device_peak("NVIDIA X9000 Unheard Of", Precision::kBf16));
  EXPECT_FALSE(device_peak("Tesla V100-SXM2-32GB", Precision::kBf16));  // it has none
  EXPECT_TRUE(device_peak("Tesla V100-SXM2-32GB", Precision::kFp16));
}

}  // namespace
}  // namespace trireme::tools
