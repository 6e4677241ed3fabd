#include "planner/plan/rules.h"

#include <gtest/gtest.h>

namespace trireme::planner {
namespace {

// A Llama-70B shape: 80 layers, 64 heads, 8 KV heads.
Job job_on(std::int64_t gpus, const char* framework = "trireme") {
  Job job;
  job.model.name = std::string("llama");
  job.model.layers = 80;
  job.model.hidden = 8192;
  job.model.heads = 64;
  job.model.kv_heads = 8;
  job.model.head_dim = 128;
  job.model.ffn = 28672;
  job.model.vocab = 128256;
  job.model.max_sequence = 8192;
  job.framework = find_framework(framework);
  job.cluster.gpus = gpus;
  job.sequence = 8192;
  job.global_batch = 512;
  return job;
}

Plan plan_of(const Job& job, const char* form) {
  Plan plan = parse_short_form(form);
  plan.micro_batches = job.global_batch / (plan.data_parallel() * plan.micro_batch);
  return plan;
}

struct Case {
  const char* form = nullptr;
  std::int64_t gpus = 0;
  Rule rule{};
  const char* words = nullptr;  // numbers that the detail must state
  const char* framework = "trireme";
};

TEST(Rules, EachViolationNamesItsRuleAndNumbers) {
  for (const Case& c : {
           Case{"tp8.pp4.mb1", 64, Rule::kGpuProduct, "= 32 ranks, but 64 GPUs"},
           Case{"tp8.dp3.mb1", 24, Rule::kBatchDivides, "512 is not divisible by data parallel 3"},
           Case{"tp48.mb1", 48, Rule::kHeadsDivide,
                "64 attention heads are not divisible by tp 48"},
           Case{"tp16.mb1", 16, Rule::kKvHeadsDivide, "8 key-value heads", "fsdp2"},
           Case{"pp128.mb1", 128, Rule::kStagesNonEmpty, "128 chunks are more than the 80 layers"},
           Case{"pp32.mb1", 32, Rule::kLayersDivide, "80 layers do not split evenly over pp 32",
                "megatron"},
           Case{"pp4.vpp3.mb1", 4, Rule::kLayersDivide, "= 12 chunks"},
           Case{"pp4.mb1.layers20-20-20-19", 4, Rule::kLayersDivide, "add up to 79"},
           Case{"pp4.mb1.layers20-0-30-30", 4, Rule::kStagesNonEmpty, "chunk 1 of 4 has no layer"},
           Case{"pp4.mb1.layers40-40", 4, Rule::kLayersDivide, "2 stage layer counts"},
           Case{"vpp2.mb1", 1, Rule::kVirtualNeedsPipeline, "vpp 2 needs pp > 1"},
           Case{"pp4.vpp2.mb1.1f1b", 4, Rule::kVirtualNeedsPipeline,
                "schedule interleaved, or vpp 1"},
           Case{"pp4.vpp3.mb1.zb-v", 4, Rule::kVirtualNeedsPipeline, "two stages a rank, vpp is 3"},
           Case{"pp8.vpp2.dp8.mb8.dualpipe-v", 64, Rule::kInterleavedMicroBatches,
                "fewer than the 16 stages of schedule dualpipe-v"},
           Case{"pp8.vpp2.dp8.mb16", 64, Rule::kInterleavedMicroBatches,
                "4 micro-batches are not a multiple of pp 8"},
           Case{"pp8.vpp2.dp8.mb64", 64, Rule::kInterleavedMicroBatches,
                "1 micro-batch is not a multiple of pp 8"},
           Case{"cp3.mb1", 3, Rule::kSequenceDivides, "8192 is not divisible by 2 x cp 3"},
           Case{"sp.mb1", 1, Rule::kSequenceParallelNeedsTensor, "tp is 1"},
           Case{"ep2.dp2.mb1", 2, Rule::kExpertsDivide, "needs a model with experts"},
           Case{"fsdp8.mb1", 8, Rule::kFrameworkFeature, "no sharding full", "megatron"},
           Case{"fsdp8.mb1.zero1", 8, Rule::kFrameworkFeature, "optimizer alone", "fsdp2"},
           Case{"pp2.fsdp8.mb1", 16, Rule::kFrameworkFeature, "ZeRO stage 1", "deepspeed"},
           Case{"pp4.mb1.gpipe", 4, Rule::kFrameworkFeature, "GPipe", "megatron"},
           Case{"pp4.vpp2.mb1", 4, Rule::kFrameworkFeature, "interleaved schedule", "deepspeed"},
       }) {
    const Job job = job_on(c.gpus, c.framework);
    const auto found = check_plan(job, plan_of(job, c.form));
    ASSERT_TRUE(found.has_value()) << c.form;
    EXPECT_EQ(to_string(found->rule), to_string(c.rule)) << c.form << ": " << found->detail;
    EXPECT_NE(found->detail.find(c.words), std::string::npos) << found->detail;
  }
}

// Megatron-LM asks for num_layers_to_build >= 0: 6 layers, the embedding and the loss on 8 chunks.
TEST(Rules, TheFirstAndLastChunkMayGoWithoutLayers) {
  Job job = job_on(4, "megatron");
  job.model.layers = 6;
  EXPECT_FALSE(check_plan(job, plan_of(job, "pp4.vpp2.mb1")).has_value());
  EXPECT_FALSE(check_plan(job, plan_of(job, "pp4.mb1.layers0-3-3-0")).has_value());
  job.model.layers = 94;  // Qwen3-235B on pp 32, vpp 3, which was measured
  Plan plan = plan_of(job, "pp4.vpp24.mb1");
  EXPECT_FALSE(check_plan(job, plan).has_value());
}

TEST(Rules, LegalPlansPass) {
  for (const auto& [form, gpus, framework] : {std::tuple{"tp8.pp4.fsdp2.mb1", 64, "trireme"},
                                              {"tp16.dp4.mb1", 64, "megatron"},
                                              {"tp8.pp8.vpp5.dp1.mb1", 64, "megatron"},
                                              {"fsdp64.mb2", 64, "fsdp2"},
                                              {"pp8.fsdp8.mb1.zero1", 64, "deepspeed"},
                                              {"pp4.zb-v.mb1", 4, "fsdp2"},
                                              {"pp8.vpp2.dp8.mb16.zb-v", 64, "trireme"},
                                              {"pp8.vpp2.dp8.mb4.zb-v", 64, "trireme"},
                                              {"pp8.vpp2.dp8.mb4.dualpipe-v", 64, "trireme"},
                                              {"pp3.mb1", 3, "trireme"}}) {
    const Job job = job_on(gpus, framework);
    const auto found = check_plan(job, plan_of(job, form));
    EXPECT_FALSE(found.has_value()) << form << ": " << found->detail;
  }
}

TEST(Rules, ExpertsNeedTheirGrid) {
  Job job = job_on(16);
  job.model.moe =
      models::MixtureOfExperts{.experts = 12, .experts_per_token = 2, .expert_ffn = 1024};
  EXPECT_EQ(check_plan(job, plan_of(job, "tp2.dp8.ep8.mb1"))->rule, Rule::kExpertsDivide);
  EXPECT_EQ(check_plan(job, plan_of(job, "tp2.dp8.ep3.mb1"))->rule, Rule::kExpertGrid);
  EXPECT_FALSE(check_plan(job, plan_of(job, "tp2.dp8.ep4.mb1")).has_value());
}

// plan recommended an order that Megatron-Core does not start with, and priced its experts'
// exchange in a node where it crosses four: 1.84 s, simulated 3.49.
TEST(Rules, MegatronsExpertsStayInsideAStageThatIsNoRun) {
  Job job = job_on(32, "megatron");
  job.model.moe =
      models::MixtureOfExperts{.experts = 8, .experts_per_token = 2, .expert_ffn = 1024};
  const Plan crossing = plan_of(job, "pp4.ep8.fsdp8.mb1.zero1.order-pp-fsdp");
  const auto broken = check_plan(job, crossing);
  ASSERT_TRUE(broken);
  EXPECT_EQ(broken->rule, Rule::kExpertGrid);
  EXPECT_NE(broken->detail.find("etp 1 x ep 8 is tp x cp, 1"), std::string::npos);
  EXPECT_FALSE(check_plan(job, plan_of(job, "pp4.ep8.fsdp8.mb1.zero1")));
  EXPECT_FALSE(check_plan(job, plan_of(job, "tp4.pp2.ep4.etp1.fsdp4.mb1.zero1.order-tp-pp-fsdp")));
}

TEST(Rules, UnevenLayersGetAProposal) {
  Job job = job_on(4, "megatron");
  job.model.layers = 31;  // 31 and 33 do not divide by 4
  const auto found = check_plan(job, plan_of(job, "pp4.mb1"));
  ASSERT_TRUE(found.has_value());
  EXPECT_NE(found->detail.find("--stage-layers 7,8,8,8"), std::string::npos) << found->detail;
}

}  // namespace
}  // namespace trireme::planner
