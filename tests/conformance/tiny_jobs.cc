#include "tests/conformance/tiny_jobs.h"

#include <algorithm>

#include "planner/plan/framework.h"

namespace trireme::tests {

models::Transformer llama_shape(std::int64_t layers) {
  models::Transformer model;
  model.name = "tiny-llama";
  model.layers = layers;
  model.hidden = 16;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 4;
  model.ffn = 24;
  model.vocab = 50;
  model.max_sequence = 64;
  return model;
}

models::Transformer gpt_shape() {
  models::Transformer model = llama_shape();
  model.name = "tiny-gpt";
  model.kv_heads = 4;
  model.ffn = 32;
  model.position = models::Position::kLearned;
  model.position_rows = 12;
  model.norm = models::Norm::kLayerNorm;
  model.gated_mlp = false;
  model.function.activation = "gelu_tanh";
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  model.tied_embeddings = true;
  return model;
}

models::Transformer qwen_shape() {
  models::Transformer model = llama_shape();
  model.name = "tiny-qwen3";
  model.qk_norm = true;
  model.tied_embeddings = true;
  return model;
}

models::Transformer expert_shape(bool sigmoid) {
  models::Transformer model = llama_shape();
  model.name = sigmoid ? "tiny-sigmoid-experts" : "tiny-experts";
  model.moe = models::MixtureOfExperts{.experts = 8,
                                       .experts_per_token = sigmoid ? 3 : 2,
                                       .expert_ffn = 8,
                                       .shared_ffn = sigmoid ? 12 : 0,
                                       .router_bias = sigmoid};
  model.function.router_score = sigmoid ? "sigmoid" : "softmax";
  model.function.router_normalises = model.function.router_bias_selects = sigmoid;
  model.moe_layers = {false, true, true, true};
  return model;
}

models::Transformer scaled_shape() {
  models::Transformer model = qwen_shape();
  model.name = "tiny-scaled";
  model.norms_per_layer = 4;
  model.sliding_window = 3;
  model.sliding_layers = {true, false, true, false};
  models::Function& f = model.function;
  f.activation = "gelu_tanh";
  f.norm_epsilon = 1e-4;
  f.norm_plus_one = f.qk_norm_after_rotary = true;
  f.rotary_share = 0.5;
  f.rotary_base = 1e6;
  f.rotary_local_base = 100;
  f.no_rotary_layers = {3};
  f.attention_scale = 0.7;
  f.attention_cap = 2;
  f.embedding_multiplier = 4;
  f.residual_multiplier = 0.6;
  f.logit_multiplier = 3;
  f.logit_cap = 5;
  return model;
}

models::Transformer parallel_shape(bool one_norm) {
  models::Transformer model = gpt_shape();
  model.name = one_norm ? "tiny-falcon" : "tiny-neox";
  model.position = models::Position::kRotary;
  model.parallel_block = true;
  model.norms_per_layer = one_norm ? 1 : 2;
  model.function.activation = "gelu";
  model.function.rotary_interleaved = one_norm;
  return model;
}

models::Transformer post_norm_shape() {
  models::Transformer model = llama_shape();
  model.name = "tiny-post-norms";
  model.function.norm_after = true;
  return model;
}

models::Transformer latent_shape(bool experts) {
  models::Transformer model = experts ? expert_shape(true) : llama_shape();
  model.name = experts ? "tiny-latent-experts" : "tiny-latent";
  model.kv_heads = model.heads;
  model.latent = models::LatentAttention{
      .q_lora = experts ? 12 : 0, .kv_lora = 10, .qk_nope = 4, .qk_rope = 2, .v_head = 5};
  models::Function& f = model.function;
  f.rotary_interleaved = true;
  f.rotary_scaling = "yarn";
  f.rotary_factor = 4;
  f.rotary_trained = 4;
  f.rotary_mscale = f.rotary_mscale_all = 1;
  if (experts) {
    f.router_scale = 2.5;
    f.router_groups = 4;
    f.router_groups_chosen = 2;
  }
  return model;
}

planner::Job job_of(const models::Transformer& model, std::int64_t sequence,
                    std::int64_t global_batch, const std::string& settings) {
  planner::Job job;
  job.model = model;
  job.framework = planner::find_framework("trireme");
  job.sequence = sequence;
  job.global_batch = global_batch;
  std::size_t begin = 0;
  while (begin < settings.size()) {
    const std::size_t end = std::min(settings.find(' ', begin), settings.size());
    const std::string part = settings.substr(begin, end - begin);
    const std::size_t equal = part.find('=');
    planner::apply_setting(job.framework, part.substr(0, equal), part.substr(equal + 1));
    begin = end + 1;
  }
  return job;
}

planner::Plan plan_of(const std::string& short_form, std::int64_t global_batch,
                      std::int64_t micro_batch) {
  planner::Plan plan = planner::parse_short_form(short_form);
  plan.micro_batch = micro_batch;
  plan.micro_batches = global_batch / (plan.data_parallel() * micro_batch);
  return plan;
}

}  // namespace trireme::tests
