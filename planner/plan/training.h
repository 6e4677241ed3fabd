// What of the model is trained, and on samples of which lengths.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::planner {

// How frozen linear weights are stored. Embeddings, head and norms stay in 16 bits.
enum class BaseFormat : std::uint8_t {
  kSixteenBit,
  kFp32,
  kInt8,       // bitsandbytes or GPTQ, a 16-bit scale a group
  kNf4,        // bitsandbytes: blocks of 64 with an fp32 scale each
  kNf4Double,  // the scales themselves in 8 bits
  kGptq4,      // groups of 128 with a 16-bit scale and a 4-bit zero each
};

// Linear layers beside which low-rank adapters are trained; a bit set.
enum AdapterTarget : std::uint16_t {
  kTargetQuery = 1,
  kTargetKey = 2,
  kTargetValue = 4,
  kTargetOutput = 8,
  kTargetGate = 16,
  kTargetUp = 32,
  kTargetDown = 64,
  kTargetHead = 128,
};
constexpr std::uint16_t kAttentionTargets =
    kTargetQuery | kTargetKey | kTargetValue | kTargetOutput;
constexpr std::uint16_t kMlpTargets = kTargetGate | kTargetUp | kTargetDown;
constexpr std::uint16_t kLinearTargets = kAttentionTargets | kMlpTargets;

// Lengths of the samples, in tokens, with the share of samples of each.
struct LengthShare {
  std::int64_t tokens = 0;
  double share = 0;
};
enum class Batching : std::uint8_t {
  kFull,      // every sequence holds Job::sequence tokens of one sample
  kPacked,    // samples laid end to end up to Job::sequence tokens, attention within each
  kPadded,    // each micro-batch is as long as its longest sample
  kUnpadded,  // samples of a micro-batch laid end to end, nothing padded
};

struct Training {
  std::int64_t rank = 0;  // of low-rank adapters (LoRA); 0 = the weights themselves are trained
  std::uint16_t targets = kLinearTargets;
  BaseFormat base = BaseFormat::kSixteenBit;
  double adapter_bytes = 4;    // of one adapter weight, gradient and moment where PyTorch stores it
  double adapter_dropout = 0;  // on the adapters' inputs
  bool embeddings = false;     // with adapters: the input and output tables are trained whole
  std::int64_t frozen_layers = 0;  // of the first layers, with the embedding, when there are any
  double trained = 0;  // trained elements beside frozen weights, where a method has its own count
  bool optimizer_in_backward = false;  // each gradient is stepped and freed as it appears
  // A frozen copy of the model judges the same tokens (DPO, KTO): a forward pass more, and its
  // weights, unless the copy is the model with its adapters switched off.
  bool reference = false;
  // Each linear layer's result, and a bias, times a trained vector, and the norms' weights (LLaMA-
  // Adapter v2).
  bool scales_outputs = false;
  bool keeps_inputs = false;  // frozen products keep their inputs (bitsandbytes until early 2024)
  // They live until the next micro-batch's loss is there: the product's node has them as plain
  // attributes (MatMul4Bit, `ctx.tensors`), and the loop holds the loss that the node hangs on.
  bool holds_graph = false;
  bool fp32_stream = false;  // the residual stream runs in fp32 (PEFT's prepare_model_for_kbit…)

  std::vector<LengthShare> lengths;  // empty: every sample fills the sequence
  Batching batching = Batching::kFull;

  [[nodiscard]] bool has_adapters() const { return rank > 0 || trained > 0; }
  [[nodiscard]] bool has_reference_copy() const { return reference && !has_adapters(); }
};

// Bytes of one frozen element of a linear layer.
double frozen_bytes(BaseFormat base);
bool is_quantised(BaseFormat base);
// Names as `--base` takes them: bf16 fp32 int8 nf4 nf4-double gptq4. Throws Error on another.
BaseFormat base_format_of(std::string_view name);
std::string_view to_string(BaseFormat base);
std::vector<std::string> base_format_names();
// "q,v", "all-linear", "c_attn": names of Llama, GPT, Falcon and Qwen families. Throws Error naming
// the word that is none.
std::uint16_t adapter_targets_of(std::string_view names);

// Mean and mean square of the lengths cut at `longest`.
double mean_length(const Training& training, std::int64_t longest);
double mean_square_length(const Training& training, std::int64_t longest);
// Expected longest of `samples` lengths drawn at random.
double expected_longest(const Training& training, std::int64_t longest, std::int64_t samples);
// A histogram, [[tokens, count], …] or one "tokens count" a line. Throws Error.
std::vector<LengthShare> parse_lengths(const std::string& text, const std::string& where);

}  // namespace trireme::planner
