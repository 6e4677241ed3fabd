#include "planner/calibrate/published_recompute.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "planner/cost/expert_time.h"

namespace trireme::planner {
namespace {

constexpr const char* kPrintedRow =
    R"({"id": "a-1", "model": "gpt", "layers": 48, "hidden": 256, "heads": 4, "seq": 128,
  "gpu": "A100-80GB", "gpus": 4, "tp": 1, "pp": 1, "micro_batch": 2, "global_batch": 8, "sharding": "full"})";

PublishedCase case_of(const char* fields) {
  nlohmann::json row = nlohmann::json::parse(kPrintedRow);
  row.merge_patch(nlohmann::json::parse(fields));
  return row_to_case(parse_published(nlohmann::json::array({row}).dump(), "s").rows.at(0));
}

// "every k-th block" was every second one whatever the row printed: fms-fsdp's 34B on A100 (HFU
// 0.74, MFU 0.55) repeated every block, and its 70B on H100, which ran, was told that it does not
// fit.
TEST(PublishedRecompute, HardwareFlopSayHowManyBlocksAreRepeated) {
  const auto layers_of = [](const char* rates) {
    nlohmann::json fields = nlohmann::json::parse(rates);
    fields["recompute"] = "selective";
    fields["recompute_detail"] = "every k-th block";
    const PublishedCase read = case_of(fields.dump().c_str());
    EXPECT_EQ(read.plan.recompute, Recompute::kFull);
    return read.plan.recompute_layers;
  };
  EXPECT_EQ(layers_of("{}"), 24);
  EXPECT_EQ(layers_of(R"({"mfu": 0.55, "hfu": 0.74})"), 48);
  EXPECT_EQ(layers_of(R"({"mfu": 0.38, "hfu": 0.47})"), 34);  // 3 (0.47 / 0.38 - 1) = 0.71
  EXPECT_EQ(layers_of(R"({"mfu": 0.5, "hfu": 0.4})"), 0);
}

// AutoModel's adapters were read as Megatron's, and without the recompute of their recipes.
TEST(PublishedRecompute, AutoModelsRowsAreItsOwn) {
  const PublishedCase read =
      case_of(R"({"behaviour": "megatron", "framework": "NeMo AutoModel, fsdp2_prefetch"})");
  EXPECT_EQ(read.job.framework.name, "nemo-automodel");
  EXPECT_EQ(read.plan.recompute, Recompute::kFull);
}

// NeMo AutoModel's stand-in router gives a token experts that follow each other: with four of 128
// on eight nodes they lie on one, where 3.3 were counted (gpt-oss-120b came out 44 % too slow).
TEST(PublishedRecompute, AutoModelsStandInSendsATokenToOneNode) {
  const PublishedCase read = case_of(
      R"({"gpu": "H100-80GB", "gpus": 64, "gpus_per_node": 8, "ep": 64, "global_batch": 512,
          "behaviour": "fsdp2", "framework": "NeMo AutoModel, TE + DeepEP",
          "source": "NVIDIA-NeMo/Automodel docs/performance-summary.mdx",
          "moe": {"experts": 128, "topk": 4, "moe_ffn": 256, "shared_ffn": 0, "moe_layers": 48}})");
  ASSERT_EQ(read.skipped, "");
  EXPECT_TRUE(read.job.framework.dispatch_once && read.job.framework.even_routing);
  EXPECT_NEAR(exchanged_copies(read.job, read.plan, true), 1.3, 1e-12);
}

// Pax had no fused attention before 2024 and keeps only products with weights: its 5B rows on
// A100 and H100 came out 25 to 54 % too fast.
TEST(PublishedRecompute, PaxRepeatsAttentionWithoutAKernelForIt) {
  const char* row = R"({"model": "gpt3-5b", "framework": "Paxml/XLA", "date": "2023-10"})";
  EXPECT_EQ(case_of(row).job.attention, models::AttentionKernel::kUnfused);
  EXPECT_EQ(case_of(row).plan.recompute_modules, kCoreAttention);
  EXPECT_EQ(case_of(R"({"framework": "Paxml/XLA", "date": "2024-04"})").job.attention,
            models::AttentionKernel::kFlash);
}

}  // namespace
}  // namespace trireme::planner
