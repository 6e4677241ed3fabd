// Each formula against the value worked in its source, or against one worked here by hand.
#include "planner/cost/formulas.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme::planner {
namespace {

Symbols worked() {
  Symbols s;
  s.parameters = 1e9;
  s.devices = 8;
  s.gathered_share = 0.05;
  s.activations = 1e9;
  s.tensor = 4;
  s.pipeline = 2;
  s.element_bytes = 2;
  return s;
}

TEST(Formulas, F1ShardsAndTheirPadding) {
  EXPECT_DOUBLE_EQ(f1_shard(worked()), 1.25e8);
  // 10 over 8 pads to 16, 16 needs none, 1 pads to 8: 6 + 0 + 7.
  EXPECT_DOUBLE_EQ(f1_padding({10, 16, 1}, 8), 13);
}

TEST(Formulas, F2ForwardPeakAddsUp) {
  EXPECT_DOUBLE_EQ(f2_forward_peak(3, 2, 0.5), 5.5);
}

TEST(Formulas, F3ToF7Memory) {
  const Symbols s = worked();
  EXPECT_DOUBLE_EQ(f3_fsdp_memory(s), 1.55e9);
  EXPECT_DOUBLE_EQ(f4_megatron_memory(s), 0.75e9);
  EXPECT_NEAR(f5_ratio(s), 2.0667, 5e-5);
  EXPECT_DOUBLE_EQ(f5_limit_activations(s), 4);
  EXPECT_DOUBLE_EQ(f5_limit_state(s), 1.1);
  Symbols t = s;
  t.activation_ratio = 0.25;
  EXPECT_NEAR(f6_memory_reduction(t), 3.3333, 5e-5);
  EXPECT_DOUBLE_EQ(f7_hybrid_state(1e9, 2, 4), 1.25e8);
}

TEST(Formulas, F5ReachesItsLimits) {
  Symbols s = worked();
  s.activations = 1e18;
  EXPECT_NEAR(f5_ratio(s), f5_limit_activations(s), 1e-6);
  s.activations = 0;
  EXPECT_NEAR(f5_ratio(s), f5_limit_state(s), 1e-12);
}

TEST(Formulas, F9ToF13Volumes) {
  const Symbols s = worked();
  EXPECT_DOUBLE_EQ(f9_fsdp_volume(s), 1.2e10);
  EXPECT_DOUBLE_EQ(f9_gather_optimal(s), 1.75e9);
  EXPECT_DOUBLE_EQ(f10_data_parallel_volume(s), 6e9);
  EXPECT_DOUBLE_EQ(f10_all_reduce_optimal(s), 3.5e9);
  Symbols t;
  t.element_bytes = 2;
  t.devices = 64;
  t.tensor = 8;
  t.layers = 32;
  t.hidden = 4096;
  t.micro_batch_tokens = 4096;
  t.pipeline = 8;
  t.parameters = 12 * t.layers * t.hidden * t.hidden;
  EXPECT_DOUBLE_EQ(f11_tensor_volume(t), 3 * 4096.0 * 4096 * 2 * 3);
  EXPECT_DOUBLE_EQ(f11_tensor_activations(t), 4 * 4096.0 * 4096 * 2);
  EXPECT_DOUBLE_EQ(f12_pipeline_volume(t), 2 * 4096.0 * 4096 * 2);
  EXPECT_DOUBLE_EQ(f12_megatron_volume(t),
                   32 * 3 * 4096.0 * 4096 * 2 * 3 + 2 * 4096.0 * 4096 * 2 * 8);
  EXPECT_NEAR(f13_ratio(t), 1.2632, 5e-5);
  EXPECT_NEAR(f13_ratio_real(t), 15.158, 5e-4);
  EXPECT_NEAR(f13_limit(t), 12.0 / 9, 1e-12);
  // The ratio is the quotient of F9's and F12's volumes when d = L h^2.
  t.parameters = t.layers * t.hidden * t.hidden;
  EXPECT_NEAR(f13_ratio(t), f9_fsdp_volume(t) / f12_megatron_volume(t), 1e-12);
}

TEST(Formulas, F14LogarithmicCollective) {
  // ceil(log2 6) = 3 rounds of 1 us + 1 MB / 1 GB/s = 1 ms.
  EXPECT_NEAR(f14_log_collective(6, Seconds(1e-6), Bytes(1'000'000), BytesPerSecond(1e9)).value,
              3 * 1.001e-3, 1e-12);
}

TEST(Formulas, F15TakesTheCheapestDegreeUpToTheWidth) {
  const std::vector<TensorOption> options = {
      {1, 100, BytesPerSecond(10)}, {4, 60, BytesPerSecond(20)}, {8, 80, BytesPerSecond(20)}};
  EXPECT_DOUBLE_EQ(f15_tensor_degree(options, 8192, 1024), 4);
  EXPECT_DOUBLE_EQ(f15_tensor_degree(options, 2048, 1024), 2);
}

TEST(Formulas, F16DeferringReducesOnce) {
  Symbols s = worked();
  s.micro_batches = 5;
  EXPECT_DOUBLE_EQ(f16_reduction_volume(s, true), 1.75e9);
  EXPECT_DOUBLE_EQ(f16_reduction_volume(s, false), 5 * 1.75e9);
}

TEST(Formulas, F17ThreeBubblesUnderTheirNames) {
  const Bubbles b = f17_bubbles(8, 32, 1);
  EXPECT_NEAR(b.as_given, 0.0273, 5e-5);
  EXPECT_NEAR(b.over_ideal, 0.219, 5e-4);
  EXPECT_NEAR(b.over_total, 0.179, 5e-4);
  // As given it is right only for v = P_p.
  EXPECT_DOUBLE_EQ(f17_bubbles(8, 32, 8).over_ideal, b.as_given);
  EXPECT_DOUBLE_EQ(f17_micro_batches_for_90_percent(8), 8.75);
}

TEST(Formulas, F18Imbalance) {
  EXPECT_DOUBLE_EQ(f18_imbalance({1, 1, 1}), 0);
  EXPECT_DOUBLE_EQ(f18_imbalance({1, 2, 3}), 1);
}

TEST(Formulas, F19ScalingCurves) {
  EXPECT_DOUBLE_EQ(f19_fsdp_time(64, 0.5, 16), 4 + 2);
  EXPECT_DOUBLE_EQ(
      f19_megatron_time({.compute = 64, .tensor = 0.5, .pipeline = 1, .bubble = 2}, 4, 4),
      4 + 1 + 1 + 2);
}

TEST(Formulas, F20OptimaAndTheirSlopes) {
  const Objective o{.a = 64, .b = std::log(2.0), .g = 0.5, .e = 4};
  EXPECT_NEAR(f20_tensor_optimum(o, 4), 16, 1e-12);
  EXPECT_NEAR(f20_slope_tensor(o, 16, 4), 0, 1e-12);
  EXPECT_NEAR(f20_pipeline_optimum(o, 4, 8), 4, 1e-12);
  EXPECT_NEAR(f20_slope_pipeline(o, 4, 4, 8), 0, 1e-12);
  const Objective c{.a = 0, .b = 8 * std::log(2.0), .g = 1, .e = 0};
  EXPECT_NEAR(f20_constrained_tensor(c, 64, 1), 8, 1e-12);
}

TEST(Formulas, F20FitFindsTheCoefficientsBack) {
  const Objective truth{.a = 64, .b = 0.7, .g = 0.5, .e = 4};
  std::vector<ObjectivePoint> points;
  for (const double tensor : {1.0, 2.0, 4.0, 8.0}) {
    for (const double pipeline : {1.0, 2.0, 4.0}) {
      const double m = 8 * tensor;
      points.push_back({tensor, pipeline, m, f20_objective(truth, tensor, pipeline, m)});
    }
  }
  const Objective fitted = f20_fit(points);
  EXPECT_NEAR(fitted.a, truth.a, 1e-9);
  EXPECT_NEAR(fitted.b, truth.b, 1e-9);
  EXPECT_NEAR(fitted.g, truth.g, 1e-9);
  EXPECT_NEAR(fitted.e, truth.e, 1e-9);
  for (ObjectivePoint& point : points) {
    point.seconds = 10 - point.seconds / 100;  // falls with cost: no coefficient may turn negative
  }
  const Objective clamped = f20_fit(points);
  EXPECT_GE(std::min({clamped.a, clamped.b, clamped.g, clamped.e}), 0);
}

}  // namespace
}  // namespace trireme::planner
