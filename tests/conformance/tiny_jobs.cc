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
  model.moe_layers = {false, true, true, true};
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
