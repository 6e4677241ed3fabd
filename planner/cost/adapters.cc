#include "planner/cost/adapters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "models/pass_cost.h"
#include "planner/plan/fused_targets.h"
#include "planner/plan/sample_lengths.h"

namespace trireme::planner {

namespace {

// One linear layer with an adapter, whole: rank x (input + output) elements.
struct Linear {
  AdapterTarget target;
  double input, output;
  bool row_parallel;  // its input is split over the tensor ranks, else its output is
};

std::vector<Linear> attention_layers(const models::Transformer& model) {
  const auto hidden = static_cast<double>(model.hidden);
  const auto heads = static_cast<double>(model.heads);
  double query = heads * static_cast<double>(model.head_dim);
  double key = static_cast<double>(model.kv_heads * model.head_dim);
  double context = query;
  if (model.latent) {
    query = heads * static_cast<double>(model.latent->qk_nope + model.latent->qk_rope);
    key = static_cast<double>(model.latent->kv_lora + model.latent->qk_rope);
    context = heads * static_cast<double>(model.latent->v_head);
  }
  return {{kTargetQuery, hidden, query, false},
          {kTargetKey, hidden, key, false},
          {kTargetValue, hidden, key, false},
          {kTargetOutput, context, hidden, true}};
}

std::vector<Linear> mlp_layers(const models::Transformer& model, double inner) {
  const auto hidden = static_cast<double>(model.hidden);
  std::vector<Linear> layers = {{kTargetUp, hidden, inner, false},
                                {kTargetDown, inner, hidden, true}};
  if (model.gated_mlp) {
    layers.push_back({kTargetGate, hidden, inner, false});
  }
  return layers;
}

// Layers that are one matrix have one adapter, which reads the input once.
void join(unsigned fused, std::vector<Linear>& layers) {
  Linear joined{};
  for (const Linear& one : layers) {
    if ((one.target & fused) != 0) {
      joined = {one.target, one.input, joined.output + one.output, false};
    }
  }
  if (joined.output > 0) {
    std::erase_if(layers, [&](const Linear& one) { return (one.target & fused) != 0; });
    layers.push_back(joined);
  }
}

std::vector<Linear> targeted(const Job& job, std::vector<Linear> layers) {
  const Training& training = job.training;
  std::erase_if(layers, [&](const Linear& one) { return (training.targets & one.target) == 0; });
  const bool fused = models::has_fused_projections(job.framework.implementation);
  if ((fused || (training.targets & kTargetFusedQkv) != 0) && !job.model.latent) {
    join(kTargetQuery | kTargetKey | kTargetValue, layers);
  }
  if (fused || (training.targets & kTargetFusedMlp) != 0) {
    join(kTargetGate | kTargetUp, layers);
  }
  return layers;
}

std::vector<Linear> all_layers(const Job& job, bool sparse) {
  std::vector<Linear> layers = attention_layers(job.model);
  const double inner =
      sparse ? static_cast<double>(job.model.moe->shared_ffn) : static_cast<double>(job.model.ffn);
  if (inner > 0) {
    const std::vector<Linear> mlp = mlp_layers(job.model, inner);
    layers.insert(layers.end(), mlp.begin(), mlp.end());
  }
  return layers;
}

std::vector<Linear> layers_of(const Job& job, bool sparse) {
  return targeted(job, all_layers(job, sparse));
}

double elements_of(const Training& training, const std::vector<Linear>& layers, double tensor) {
  double elements = 0;
  for (const Linear& one : layers) {
    elements +=
        one.row_parallel ? one.input / tensor + one.output : one.input + one.output / tensor;
  }
  return elements * static_cast<double>(training.rank);
}

std::vector<Linear> expert_layers(const Job& job) {
  return targeted(job, mlp_layers(job.model, static_cast<double>(job.model.moe->expert_ffn)));
}

double experts_of(const Job& job, const ParameterSplit& split) {
  const models::MixtureOfExperts& moe = *job.model.moe;
  const std::vector<Linear> one = expert_layers(job);
  return elements_of(job.training, one, static_cast<double>(split.expert_tensor)) *
         static_cast<double>(moe.experts) / static_cast<double>(split.expert);
}

// Bytes of memory traffic a weight that is dequantised costs, and how often a pass does it.
double dequantised_bytes(BaseFormat base) {
  switch (base) {
    case BaseFormat::kSixteenBit:
    case BaseFormat::kFp32:
      return 0;
    case BaseFormat::kInt8:
      return 1 + 2 + 2;
    case BaseFormat::kNf4:
    case BaseFormat::kNf4Double:
      return 0.5 + 2 + 2;  // read, written in 16 bits, read again by the product
    case BaseFormat::kGptq4:
      // AutoGPTQ unpacks with PyTorch's own shifts: its kernels take several times the bytes
      // (7B and 72B on A100: 8 to 16 ps a weight and pass).
      return 20;
  }
  return 0;
}

models::MemoryBoundWork pass_of(models::Part part, double bytes, int kernels) {
  return {part, Bytes(static_cast<std::int64_t>(bytes)), kernels, {}};
}

// The products and passes of the adapters of one layer in each direction, per token of the rank.
// Forward: dropout (2 + 2 + 1), the cast to the adapters' type where it is another (2 + 4), two
// thin products that read their input and write the layer's width, scale and sum (2 + 2 + 6).
// Backward reads the output's gradient twice, and adds to the input's gradient (6).
void add_adapter_work(const Job& job, double tokens, const std::vector<Linear>& layers,
                      double tensor, models::LayerWork& work) {
  const Training& training = job.training;
  const bool casts = training.adapter_bytes > 2;
  for (const Linear& one : layers) {
    const double input = one.row_parallel ? one.input / tensor : one.input;
    const double output = one.row_parallel ? one.output : one.output / tensor;
    const double drop = training.adapter_dropout > 0 ? (casts ? 9 : 5) : 0;
    const double cast = casts ? 8 : 0;
    const double forward = tokens * (input * (2 + drop + cast) + output * 12);
    const double backward = tokens * (input * (8 + drop + cast) + output * 8);
    work.forward.memory_bound.push_back(pass_of(models::Part::kAdapter, forward, casts ? 12 : 8));
    work.input_gradient.memory_bound.push_back(
        pass_of(models::Part::kAdapter, backward, casts ? 16 : 11));
  }
}

// The product that recompute repeats when it repeats what an adapter adds to it.
models::Part repeated_with(AdapterTarget target) {
  return target == kTargetDown                          ? models::Part::kMlpDown
         : target == kTargetUp || target == kTargetGate ? models::Part::kMlpUp
                                                        : models::Part::kAdapter;
}

// This project's: products of their own, of 16 bits, that add to what is there (lower/adapters.h).
void add_own_adapters(const Job& job, std::int64_t tokens, const std::vector<Linear>& layers,
                      std::int64_t tensor, models::LayerWork& work) {
  const std::int64_t rank = job.training.rank;
  for (const Linear& one : layers) {
    const auto in = static_cast<std::int64_t>(one.input) / (one.row_parallel ? tensor : 1);
    const auto out = static_cast<std::int64_t>(one.output) / (one.row_parallel ? 1 : tensor);
    const auto add = [](models::PassWork& pass, std::int64_t m, std::int64_t n, std::int64_t k,
                        models::Part part = models::Part::kAdapter) {
      pass.matmuls.push_back({part, m, n, k, 1, true});
    };
    add(work.forward, tokens, rank, in);
    add(work.forward, tokens, out, rank, repeated_with(one.target));
    add(work.input_gradient, tokens, rank, out);
    add(work.input_gradient, tokens, in, rank);
    add(work.weight_gradient, out, rank, tokens);
    add(work.weight_gradient, rank, in, tokens);
  }
}

bool is_weight(const models::Matmul& matmul) {
  return matmul.part != models::Part::kScores && matmul.part != models::Part::kContext;
}

void add_dequantisation(const Job& job, models::PassWork& pass) {
  const double bytes = dequantised_bytes(job.training.base);
  double weights = 0;
  int kernels = 0;
  for (const models::Matmul& matmul : pass.matmuls) {
    if (is_weight(matmul)) {
      weights += static_cast<double>(matmul.n) * static_cast<double>(matmul.k) *
                 static_cast<double>(matmul.count);
      ++kernels;
    }
  }
  if (bytes > 0 && kernels > 0) {
    pass.memory_bound.push_back(pass_of(models::Part::kDequantise, bytes * weights, 2 * kernels));
  }
}

}  // namespace

AdapterElements adapter_elements(const Job& job, const ParameterSplit& split) {
  const Training& training = job.training;
  AdapterElements elements;
  if (training.trained > 0) {
    elements.dense_layer = elements.sparse_layer =
        training.trained / static_cast<double>(job.model.layers);
    return elements;
  }
  if (training.rank == 0) {
    return elements;
  }
  const auto tensor = static_cast<double>(split.tensor);
  elements.dense_layer = elements_of(training, layers_of(job, false), tensor);
  if (job.model.moe) {
    elements.sparse_layer = elements_of(training, layers_of(job, true), tensor);
    elements.experts = experts_of(job, split);
  }
  if ((training.targets & kTargetHead) != 0) {
    elements.head =
        static_cast<double>(training.rank) *
        (static_cast<double>(job.model.hidden) + static_cast<double>(job.model.vocab) / tensor);
  }
  return elements;
}

bool is_kept_beside_frozen(const Training& training, models::Kept item) {
  if (training.keeps_inputs) {
    return true;
  }
  const auto read_by = [&](unsigned targets) {
    return training.adapter_dropout == 0 && (training.targets & targets) != 0 && training.rank > 0;
  };
  if (item == models::Kept::kAttentionNormOutput) {
    return read_by(kTargetQuery | kTargetKey | kTargetValue);
  }
  if (item == models::Kept::kMlpNormOutput || item == models::Kept::kExpertInput) {
    return read_by(kTargetGate | kTargetUp);
  }
  if (item == models::Kept::kAttentionOutputCopy) {
    return read_by(kTargetOutput);
  }
  if (item == models::Kept::kMlpDownInput || item == models::Kept::kExpertDownInput ||
      item == models::Kept::kSharedDownInput) {
    return read_by(kTargetDown);
  }
  return true;
}

namespace {

// What dropout wrote, in 16 bits for the product, and its mask; the rank's product. `column` ranks
// share the input of layers whose output is split.
double kept_a_row(const Training& training, const std::vector<Linear>& layers, double tensor,
                  double column = 1) {
  double bytes = 0;
  for (const Linear& one : layers) {
    const double input = one.input / (one.row_parallel ? tensor : column);
    bytes +=
        (training.adapter_dropout > 0 ? 3 * input : 0) + 2 * static_cast<double>(training.rank);
  }
  return bytes;
}

// What is multiplied: each linear layer's result, and what a norm written out in PyTorch made of
// its input (LitGPT adapter_v2.py AdapterV2Linear, adapter_filter; rmsnorm.py).
double scaled_a_row(const Job& job, const std::vector<Linear>& layers, double tensor) {
  const bool written_out = job.model.norm == models::Norm::kRmsNorm;
  double elements = written_out ? 2 * static_cast<double>(job.model.hidden) : 0;
  for (const Linear& one : layers) {
    elements += one.output / (one.row_parallel ? 1 : tensor);
  }
  return 2 * elements;
}

}  // namespace

double adapter_kept_bytes(const Job& job, const Plan& plan, bool sparse) {
  const auto tensor = static_cast<double>(plan.tensor);
  if (job.training.scales_outputs) {
    return scaled_a_row(job, all_layers(job, sparse), tensor);
  }
  if (job.training.rank == 0) {
    return 0;
  }
  // Megatron's read what the norm left on the rank, and gather the thin product (ms-swift's
  // LoraParallelLinear, Megatron-Bridge's adapters); others read what was gathered.
  const bool split = plan.sequence_parallel &&
                     job.framework.implementation == models::Implementation::kTransformerEngine;
  return kept_a_row(job.training, layers_of(job, sparse), tensor, split ? tensor : 1);
}

double expert_adapter_kept_bytes(const Job& job, const Plan& plan, const models::KeptItem& item) {
  if (job.training.rank == 0 || item.kept != models::Kept::kExpertDownInput) {
    return 0;
  }
  const auto ways = static_cast<double>(plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor);
  const double rows = static_cast<double>(item.bytes.value) * ways /
                      (2 * static_cast<double>(job.model.moe->expert_ffn));
  return rows * kept_a_row(job.training, expert_layers(job), ways);
}

namespace {

// Of the lowest layer's backward this project leaves out what is below its lowest adapter.
void end_early(const Training& training, models::PassWork& backward) {
  using models::Part;
  const std::pair<unsigned, std::vector<Part>> below[] = {
      {0, {Part::kQkv, Part::kAttentionNorm}},
      {kTargetQuery | kTargetKey | kTargetValue,
       {Part::kAttentionOutput, Part::kRotary, Part::kHeadNorm, Part::kQkvBias}},
      {kTargetOutput, {Part::kMlpUp, Part::kMlpNorm}},
      {kTargetGate | kTargetUp, {Part::kMlpDown, Part::kActivation, Part::kMlpBias}}};
  unsigned seen = 0;
  for (const auto& [targets, parts] : below) {
    seen |= targets;
    if ((training.targets & seen) != 0) {
      return;
    }
    const auto is_below = [&, &gone = parts](const auto& work) {
      return std::find(gone.begin(), gone.end(), work.part) != gone.end();
    };
    std::erase_if(backward.matmuls, is_below);
    std::erase_if(backward.memory_bound, is_below);
    if (targets != 0) {
      backward.attention.clear();
    }
  }
}

}  // namespace

bool ends_early(const Job& job, std::int64_t layer) {
  return job.training.rank > 0 && layer == job.training.frozen_layers &&
         job.framework.implementation == models::Implementation::kTrireme &&
         !job.model.parallel_block;
}

void freeze_layer(const Job& job, const Plan& plan, std::int64_t layer, models::LayerWork& work) {
  const bool below = layer < job.training.frozen_layers;
  if (job.training.has_adapters()) {
    work.weight_gradient = {};
    add_dequantisation(job, work.forward);
    add_dequantisation(job, work.input_gradient);
  }
  if (below) {
    work.input_gradient = work.weight_gradient = {};
  }
  if (job.training.rank == 0 || below) {
    return;
  }
  if (ends_early(job, layer)) {
    end_early(job.training, work.input_gradient);
  }
  const std::int64_t tokens = plan.micro_batch * timed_sequence(job, plan) / plan.context;
  const std::vector<Linear> layers = layers_of(job, models::is_moe_layer(job.model, layer));
  if (job.framework.implementation == models::Implementation::kTrireme) {
    add_own_adapters(job, tokens, layers, plan.tensor, work);
  } else {
    add_adapter_work(job, static_cast<double>(tokens), layers, static_cast<double>(plan.tensor),
                     work);
  }
}

bool trains_table(const Training& training) {
  return training.frozen_layers == 0 && (!training.has_adapters() || training.embeddings);
}

void freeze_ends(const Job& job, models::LayerWork& embedding, models::LayerWork& head) {
  if (trains_table(job.training)) {
    return;
  }
  embedding.input_gradient = embedding.weight_gradient = {};
  if (job.training.has_adapters() || job.model.tied_embeddings) {  // the head's is frozen too
    head.weight_gradient = {};
  }
}

}  // namespace trireme::planner
