// Measurements of real training runs in the row format of the published corpus: read without ever
// refusing a file for one bad row, and turned into a job and a plan that the models can predict.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/transformer.h"
#include "planner/calibrate/published_finetune.h"
#include "planner/calibrate/published_offload.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// One row as printed. Absent = unknown.
struct PublishedRow {
  std::string id;
  std::string source;      // the file's stem: statistics are per source
  std::string unreadable;  // why the row could not be read; empty = it could

  // Shape.
  std::string model;
  std::optional<std::int64_t> layers, hidden, ffn, heads, kv_heads, head_dim, vocab, seq;
  std::optional<bool> gated_mlp, tied_embeddings;
  std::optional<models::MixtureOfExperts> moe;
  std::optional<models::LatentAttention> latent;
  std::int64_t moe_layers = 0;
  std::int64_t sliding_window = 0, sliding_layers = 0;
  bool pad_to_capacity = false;

  // Machine.
  std::string gpu, cluster;
  std::optional<std::int64_t> gpus, gpus_per_node;

  // Layout.
  std::optional<std::int64_t> tp, pp, vpp, cp, ep, etp, data_parallel, shard_degree;
  std::optional<bool> sequence_parallel;
  std::string sharding, schedule;
  std::vector<std::int64_t> stage_layers;

  // Mode.
  std::optional<std::int64_t> micro_batch, global_batch;
  std::optional<std::int64_t> micro_batches;  // a step, where micro_batch is not printed
  std::string precision, precision_detail, recompute, recompute_detail, attention, behaviour,
      framework;
  std::vector<std::pair<std::string, std::string>> settings;  // as `--set KEY=VALUE` spells them

  std::optional<FinetuneRow> finetune;
  std::optional<OffloadRow> offload;

  // Result.
  std::optional<double> seconds_per_step, tokens_per_s_per_gpu, tflops_per_gpu, mfu, hfu,
      peak_memory_gib, peak_reserved_gib;  // reserved: beside a peak of another kind
  std::string memory_kind, memory_scope, memory_detail, outcome, notes, date;
};

struct PublishedFile {
  std::string name;                       // stem
  std::vector<PublishedRow> rows;         // bad rows too, with `unreadable` set
  std::vector<std::string> unknown_keys;  // each named once
};

// A file, or every .json file of a folder in order of name. Throws Error: nothing there, or a file
// that is not JSON with an array of rows.
std::vector<PublishedFile> read_published(const std::string& file_or_folder);
// Rows of one parsed text. Throws Error as above.
PublishedFile parse_published(const std::string& text, const std::string& name);

// A row that the models can predict, or why not.
struct PublishedCase {
  Job job;
  Plan plan;
  std::vector<std::string> assumed;  // "micro_batch 2", in the words of the row format
  std::string skipped;               // empty = job and plan are filled in
};

// Picks one of the plans that fill what the row leaves open: the fastest that fits. Every candidate
// obeys the row.
using PlanChooser = std::function<std::size_t(const Job& job, const std::vector<Plan>& candidates)>;

// The job and plan of a row. Missing layout fields become candidates for `choose` (without one: the
// first, which has the smallest micro-batch and no recompute). Never throws for what a row says:
// `skipped` says it.
PublishedCase row_to_case(const PublishedRow& row, const PlanChooser& choose = nullptr);

}  // namespace trireme::planner
