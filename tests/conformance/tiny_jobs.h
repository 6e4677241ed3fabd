// Small models and jobs that the conformance tests lower.
#pragma once

#include <cstdint>
#include <string>

#include "models/transformer.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::tests {

// A Llama shape of `layers` layers: rotary, RMS norm, SwiGLU, grouped queries, untied.
models::Transformer llama_shape(std::int64_t layers = 4);
// A GPT shape: learned positions, layer norm, GELU, biases, tied.
models::Transformer gpt_shape();
// A Qwen3 shape: norms of heads, tied.
models::Transformer qwen_shape();
// The Llama shape with a first dense layer and experts in the others: softmax scores, or sigmoids
// with a bias that chooses; beside them a shared expert.
models::Transformer expert_shape(bool sigmoid);
// Every number that a function can have beside a plain Llama's, four norms a layer and windows.
models::Transformer scaled_shape();
// Attention and MLP side by side, behind one norm or two.
models::Transformer parallel_shape(bool one_norm);
models::Transformer post_norm_shape();
// Latent attention: of DeepSeek V3's kind with its router, or without a query latent.
models::Transformer latent_shape(bool experts);

// Under framework trireme with the settings "key=value key=value" applied.
planner::Job job_of(const models::Transformer& model, std::int64_t sequence,
                    std::int64_t global_batch, const std::string& settings = "");
// The short form with its micro-batches filled from the global batch.
planner::Plan plan_of(const std::string& short_form, std::int64_t global_batch,
                      std::int64_t micro_batch = 1);

}  // namespace trireme::tests
