// The dict `finetune` of a printed row: what it trains and how, and what that says of the library
// that did it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/plan/framework.h"
#include "planner/plan/job.h"

namespace trireme::planner {

struct PublishedRow;

// What the library that ran a row does otherwise than its framework (library_words.json).
struct FinetuneLibrary {
  std::string behaviour;       // the framework it stands on, when the row names none
  bool plain_modules = false;  // modules in plain PyTorch, one kernel an operation
  bool recomputes = false;     // whole layers, unless it is told not to
  bool foreach_optimizer = true;
  bool gathers_frozen = false;  // FSDP gathers the whole frozen model
  bool keeps_inputs = false;    // 4-bit products keep their inputs
  bool holds_graph = false;     // until the loop's next loss is there
  bool fp32_stream = false;
  bool expandable_segments = false;
  bool sorts_lengths = false;   // samples of a micro-batch are about as long as each other
  bool layers_in_turn = false;  // GPUs hold a model's layers in turn (transformers' device_map)
  double adapter_bytes = 2, adapter_dropout = 0;
  double logit_bytes = 0;         // a logit, at the loss's peak; 0: the framework's
  double kernel_logit_bytes = 8;  // the same with fused kernels
  double mean_tokens = 0;         // of a sample, when the row prints none; 0: full samples
  double bucket_elements = 0;     // of DeepSpeed's reductions; 0: "auto"
  double packed_tokens = 0;       // of a packed sample, attention within it; 0: across samples
};

struct FinetuneRow {
  FinetuneLibrary library;
  std::string method;  // full, lora, qlora, or another kind of adapter
  std::string base_dtype, targets, optimizer, config, variant, adapter;
  std::optional<double> rank, dropout, trainable_parameters, mean_tokens;
  bool packed = true, padding_free = false, fused_kernels = false, fused_loss = false,
       embeddings = false, optimizer_in_backward = false;
};

// Reads the dict; keys that no model reads are added to `unknown` as "finetune.KEY". Returns what
// is wrong with it, or nothing.
std::string read_finetune(const nlohmann::json& object, FinetuneRow& row,
                          std::set<std::string>& unknown);

// The framework whose behaviour a fine-tuning row has, when the row names none of ours.
std::string finetune_behaviour(const PublishedRow& row);
// Whether the row's library recomputes whole layers unless it is told not to.
bool recomputes_by_default(const PublishedRow& row);
// Fills job.training and what the row's library does otherwise than its framework. Throws Skip.
void set_finetune(const PublishedRow& row, Job& job, std::vector<std::string>& assumed);

}  // namespace trireme::planner
