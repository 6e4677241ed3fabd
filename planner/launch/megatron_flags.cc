// Flags that Megatron-LM's parser would refuse (it takes no abbreviations), and what they were
// probably meant to be.
#include <algorithm>
#include <map>
#include <vector>

#include "planner/launch/megatron_settings.h"

namespace trireme::planner {
namespace {

// What other programs call the same thing.
const std::map<std::string_view, std::string_view>& other_names() {
  static const std::map<std::string_view, std::string_view> kNames = {
      {"tp", "tensor_model_parallel_size"},
      {"tp_size", "tensor_model_parallel_size"},
      {"tensor_parallel", "tensor_model_parallel_size"},
      {"tensor_parallel_degree", "tensor_model_parallel_size"},
      {"pp", "pipeline_model_parallel_size"},
      {"pp_size", "pipeline_model_parallel_size"},
      {"pipeline_parallel", "pipeline_model_parallel_size"},
      {"pipeline_parallel_degree", "pipeline_model_parallel_size"},
      {"vp", "num_virtual_stages_per_pipeline_rank"},
      {"vpp", "num_virtual_stages_per_pipeline_rank"},
      {"cp", "context_parallel_size"},
      {"cp_size", "context_parallel_size"},
      {"context_parallel", "context_parallel_size"},
      {"ep", "expert_model_parallel_size"},
      {"ep_size", "expert_model_parallel_size"},
      {"expert_parallel", "expert_model_parallel_size"},
      {"etp", "expert_tensor_parallel_size"},
      {"sp", "sequence_parallel"},
      {"mbs", "micro_batch_size"},
      {"micro_batch", "micro_batch_size"},
      {"micro_bs", "micro_batch_size"},
      {"gbs", "global_batch_size"},
      {"global_batch", "global_batch_size"},
      {"global_bs", "global_batch_size"},
      {"seq", "seq_length"},
      {"seq_len", "seq_length"},
      {"seqlen", "seq_length"},
      {"sequence_length", "seq_length"},
      {"max_seq_len", "max_position_embeddings"},
      {"num_hidden_layers", "num_layers"},
      {"n_layers", "num_layers"},
      {"n_layer", "num_layers"},
      {"layers", "num_layers"},
      {"hidden_dim", "hidden_size"},
      {"num_heads", "num_attention_heads"},
      {"n_heads", "num_attention_heads"},
      {"attention_heads", "num_attention_heads"},
      {"num_kv_heads", "num_query_groups"},
      {"num_key_value_heads", "num_query_groups"},
      {"kv_heads", "num_query_groups"},
      {"intermediate_size", "ffn_hidden_size"},
      {"ffn_size", "ffn_hidden_size"},
      {"head_dim", "kv_channels"},
      {"use_bf16", "bf16"},
      {"bfloat16", "bf16"},
      {"use_fp16", "fp16"},
      {"distributed_optimizer", "use_distributed_optimizer"},
      {"use_dist_optimizer", "use_distributed_optimizer"},
      {"gradient_checkpointing", "recompute_granularity"},
      {"activation_checkpointing", "recompute_granularity"},
      {"flash_attn", "use_flash_attn"},
      {"rope_theta", "rotary_base"}};
  return kNames;
}

// Flags of the parser that this program does not read and that are near to ones it does.
constexpr std::string_view kReal[] = {
    "decoder_seq_length", "decoder_num_layers", "fp4_format",           "fp4_param_gather",
    "fp4_recipe",         "fp8_param",          "init_method",          "masked_softmax_fusion",
    "persist_layer_norm", "no_batch_p2p_comm",  "no_align_param_gather"};

std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::vector<std::string_view> parts_of(std::string_view key) {
  std::vector<std::string_view> parts;
  while (!key.empty()) {
    const std::size_t cut = std::min(key.find('_'), key.size());
    parts.push_back(key.substr(0, cut));
    key.remove_prefix(std::min(cut + 1, key.size()));
  }
  return parts;
}

// tensor_parallel_size of tensor_model_parallel_size
bool leaves_words_out(std::string_view key, std::string_view whole) {
  const auto few = parts_of(key);
  const auto all = parts_of(whole);
  std::size_t at = 0;
  for (const std::string_view part : all) {
    at += at < few.size() && part == few[at] ? 1U : 0U;
  }
  return few.size() >= 2 && at == few.size();
}

}  // namespace

std::string near_megatron_flag(std::string_view key) {
  if (std::find(std::begin(kReal), std::end(kReal), key) != std::end(kReal)) {
    return {};
  }
  if (const auto found = other_names().find(key); found != other_names().end()) {
    return std::string(found->second);
  }
  const std::size_t most = key.size() < 8 ? 1 : key.size() < 16 ? 2 : 3;
  std::string_view best;
  std::size_t fewest = most + 1;
  std::string_view longer;
  for (const std::string_view name : megatron_settings_read()) {
    const std::size_t edits = key.size() > 64 ? most + 1 : edits_between(key, name);
    if (edits < fewest) {
      fewest = edits;
      best = name;
    }
    const bool starts = key.size() >= 6 && name.starts_with(key);
    if ((starts || leaves_words_out(key, name)) &&
        (longer.empty() || name.size() < longer.size())) {
      longer = name;
    }
  }
  return std::string(best.empty() ? longer : best);
}

}  // namespace trireme::planner
