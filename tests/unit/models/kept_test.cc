// Kept activations against the hand-checked vectors of Korthikanti et al. 2022 and of Llama-type
// layers.
#include <gtest/gtest.h>

#include <cstdint>

#include "models/presets.h"
#include "models/work.h"

namespace trireme::models {
namespace {

std::int64_t kept(const Transformer& model, const Shard& shard, Implementation implementation,
                  double dropout, std::uint16_t without = 0) {
  std::int64_t sum = 0;
  for (const KeptItem& item : kept_activations(model, 0, shard, implementation, dropout)) {
    const bool skip = (traits_of(item.kept).modules & without) != 0;
    sum += skip ? 0 : item.bytes.value;
  }
  return sum;
}

Shard shard_of(std::int64_t sequence, std::int64_t tensor, bool sequence_parallel,
               AttentionKernel attention) {
  Shard shard;
  shard.sequence = sequence;
  shard.tensor_parallel = tensor;
  shard.sequence_parallel = sequence_parallel;
  shard.attention = attention;
  return shard;
}

TEST(Kept, Gpt3VectorsOfThePaper) {
  const Transformer gpt = load_model("gpt3-175b");
  const Implementation classic = Implementation::kClassicMegatron;
  const auto unfused = AttentionKernel::kUnfused;
  EXPECT_EQ(kept(gpt, shard_of(2048, 1, false, unfused), classic, 0.1), 2868903936);
  EXPECT_EQ(kept(gpt, shard_of(2048, 8, false, unfused), classic, 0.1), 578813952);
  EXPECT_EQ(kept(gpt, shard_of(2048, 8, true, unfused), classic, 0.1), 358612992);
  EXPECT_EQ(kept(gpt, shard_of(2048, 8, true, unfused), classic, 0.1, kCoreAttention), 106954752);
  EXPECT_EQ(kept(gpt, shard_of(2048, 8, true, AttentionKernel::kFlash), classic, 0.1), 107053056);
}

TEST(Kept, LlamaBytesPerToken) {
  const struct {
    const char* model;
    std::int64_t engine, eager;
  } cases[] = {{"llama-2-7b", 131712, 0},
               {"llama-3.1-8b", 139392, 0},
               {"llama-3.1-70b", 274688, 0},
               {"llama-3.1-405b", 520704, 0},
               {"qwen2.5-72b", 280064, 0}};
  for (const auto& expected : cases) {
    const Transformer model = load_model(expected.model);
    const Shard shard = shard_of(64, 1, false, AttentionKernel::kFlash);
    EXPECT_EQ(kept(model, shard, Implementation::kTransformerEngine, 0) / 64, expected.engine)
        << expected.model;
    // PyTorch eager, measured: 8 h for the norms, 6 a d + 4 k d around attention, 8 f,
    // 4 a.
    const std::int64_t width = model.heads * model.head_dim;
    EXPECT_EQ(kept(model, shard, Implementation::kEagerTorch, 0) / 64,
              8 * model.hidden + 6 * width + 4 * model.kv_heads * model.head_dim + 8 * model.ffn +
                  4 * model.heads);
  }
}

TEST(Kept, DropoutAddsMasksAndContextDivides) {
  const Transformer gpt = load_model("gpt3-175b");
  Shard shard = shard_of(2048, 1, false, AttentionKernel::kFlash);
  const std::int64_t without = kept(gpt, shard, Implementation::kClassicMegatron, 0);
  const std::int64_t with = kept(gpt, shard, Implementation::kClassicMegatron, 0.1);
  EXPECT_EQ(with - without, 2 * 2048 * gpt.hidden);
  shard.context_parallel = 2;
  // Context parallel attention keeps its output besides the projection's input.
  EXPECT_EQ(kept(gpt, shard, Implementation::kClassicMegatron, 0),
            (without + 2 * 2048 * gpt.heads * gpt.head_dim) / 2);
}

TEST(Kept, CompiledBlocksRecomputeTheGate) {
  const Transformer model = load_model("llama-3.1-8b");
  const Shard shard = shard_of(128, 1, false, AttentionKernel::kFlash);
  EXPECT_EQ(kept(model, shard, Implementation::kEagerTorch, 0) -
                kept(model, shard, Implementation::kCompiledTorch, 0),
            128 * 2 * model.ffn);
}

TEST(Kept, ExpertsFollowTheRoutedTokens) {
  const Transformer model = load_model("mixtral-8x7b");
  Shard shard = shard_of(128, 1, false, AttentionKernel::kFlash);
  const std::int64_t alone = kept(model, shard, Implementation::kTransformerEngine, 0);
  const auto& moe = *model.moe;
  // Top-2 of two expert copies: 2 h input, 4 f gate and up, 2 f down input; router 8 E; no dense
  // MLP.
  const std::int64_t attention = 8 * model.hidden + 4 * model.heads * model.head_dim +
                                 4 * model.kv_heads * model.head_dim + 4 * model.heads;
  EXPECT_EQ(alone / 128, attention + 8 * moe.experts +
                             moe.experts_per_token * (2 * model.hidden + 6 * moe.expert_ffn));
}

// Forced and bias-corrected routing leaves no rank more than its share.
TEST(Kept, EvenRoutingSpreadsNothing) {
  const Transformer model = load_model("deepseek-v3");
  Shard shard = shard_of(4096, 1, false, AttentionKernel::kFlash);
  shard.expert_parallel = 64;
  const auto input_of = [&] {
    for (const KeptItem& item :
         kept_activations(model, 10, shard, Implementation::kTransformerEngine, 0)) {
      if (item.kept == Kept::kExpertInput) {
        return item.bytes.value;
      }
    }
    return std::int64_t{0};
  };
  const std::int64_t untrained = input_of();
  shard.even_routing = true;
  EXPECT_EQ(input_of(), std::int64_t{4096} * 8 * 7168 * 2);
  EXPECT_EQ(untrained, input_of() * 3 / 2);  // four experts a rank: 1 + 1 / 2
}

// What comes back from the experts waits for its weights' gradients, 1.5 copies. A compiler was
// taken to leave them out: a 16B model on B200 was told 106 to 142 GiB and took 157.
TEST(Kept, TorchKeepsWhatExpertsReturnCompiledOrNot) {
  const Transformer sparse = load_model("mixtral-8x7b");
  Transformer dense = sparse;
  dense.moe.reset();
  const Shard shard = shard_of(128, 1, false, AttentionKernel::kFlash);
  const auto experts = [&](Implementation implementation) {
    return kept(sparse, shard, implementation, 0) - kept(dense, shard, implementation, 0);
  };
  EXPECT_EQ(experts(Implementation::kEagerTorch) - experts(Implementation::kCompiledTorch),
            128 * (2 * 2 * sparse.moe->expert_ffn - 2 * dense.ffn));  // the gate alone
  EXPECT_EQ(experts(Implementation::kCompiledTorch) - experts(Implementation::kTransformerEngine),
            128 * 3 * 2 * sparse.hidden);
}

}  // namespace
}  // namespace trireme::models
