// From a printed row to a job and a plan: defaults of the row format, and candidates for what the
// row leaves open.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "planner/calibrate/published.h"
#include "planner/calibrate/published_candidates.h"
#include "planner/calibrate/published_model.h"
#include "planner/calibrate/published_recompute.h"
#include "planner/calibrate/row_words.h"
#include "planner/cost/memory.h"
#include "planner/plan/job_check.h"
#include "planner/plan/rules.h"
#include "topologies/compose.h"

namespace trireme::planner {

namespace {

Sharding sharding_of(const PublishedRow& row, const Framework& framework,
                     std::vector<std::string>& assumed) {
  if (row.sharding == "none") {
    return Sharding::kNone;
  }
  if (row.sharding == "optimizer") {
    return Sharding::kOptimizer;
  }
  if (row.sharding == "gradients") {
    return Sharding::kGradients;
  }
  if (row.sharding == "full") {
    return Sharding::kFull;
  }
  const bool whole = is_torch(framework) || framework.sharder == Sharder::kMegatronFsdp;
  assumed.emplace_back(whole ? "sharding=full" : "sharding=optimizer");
  return whole ? Sharding::kFull : Sharding::kOptimizer;
}

bool sequence_parallel_of(const PublishedRow& row, const Job& job, const Plan& plan,
                          std::vector<std::string>& assumed) {
  if (row.sequence_parallel || plan.tensor == 1) {
    return plan.tensor > 1 && row.sequence_parallel.value_or(false);
  }
  const bool on = job.framework.implementation != models::Implementation::kClassicMegatron;
  assumed.emplace_back(on ? "sequence_parallel=true" : "sequence_parallel=false");
  return on;
}

// Names what a candidate chose, in the words of the row format.
void name_choices(const PublishedRow& row, const Job& job, const Plan& plan,
                  std::vector<std::string>& assumed) {
  const auto name = [&](bool given, const char* key, std::int64_t value) {
    if (!given) {
      assumed.push_back(fmt::format("{}={}", key, value));
    }
  };
  name(row.tp.has_value(), "tp", plan.tensor);
  name(row.pp.has_value(), "pp", plan.pipeline);
  name(row.micro_batch.has_value(), "micro_batch", plan.micro_batch);
  name(row.vpp.has_value() || plan.pipeline == 1, "vpp", plan.virtual_pipeline);
  name(row.global_batch.has_value(), "global_batch", job.global_batch);
  if (row.recompute.empty()) {
    assumed.push_back(fmt::format("recompute={}", to_string(plan.recompute)));
  }
}

void check_case(const PublishedCase& found) {
  const Plan& plan = found.plan;
  if (plan.gpus() != found.job.cluster.gpus) {
    throw Skip{fmt::format("tp {} x pp {} x cp {} x data_parallel {} is not gpus {}", plan.tensor,
                           plan.pipeline, plan.context, plan.data_parallel(),
                           found.job.cluster.gpus)};
  }
  if (plan.pipeline * plan.virtual_pipeline > found.job.model.layers + 2 &&
      plan.stage_layers.empty()) {
    throw Skip{"more pipeline chunks than layers"};
  }
  std::int64_t layers = 0;
  for (const std::int64_t stage : plan.stage_layers) {
    layers += stage;
  }
  const auto stages = static_cast<std::int64_t>(plan.stage_layers.size());
  if (stages > 0 &&
      (layers != found.job.model.layers ||
       (stages != plan.pipeline && stages != plan.pipeline * plan.virtual_pipeline))) {
    throw Skip{"settings.stage_layers does not add up to layers over pp * vpp chunks"};
  }
}

// The first plan that fits, or at least may; candidates are in order of what usually runs fastest.
std::size_t first_that_fits(const Job& job, const std::vector<Plan>& candidates) {
  MemoryModel model(job);
  MemoryEstimate estimate;
  for (const Fit wanted : {Fit::kFits, Fit::kAtRisk}) {
    for (std::size_t candidate = 0; candidate < candidates.size(); ++candidate) {
      model.estimate(candidates[candidate], estimate);
      if (estimate.fit == wanted) {
        return candidate;
      }
    }
  }
  return candidates.size() - 1;
}

// Keeps the candidates that obey the framework's rules, when there are any.
void keep_legal(const Job& job, std::vector<Plan>& candidates) {
  std::vector<Plan> legal;
  for (const Plan& plan : candidates) {
    if (!check_plan(job, plan)) {
      legal.push_back(plan);
    }
  }
  if (!legal.empty()) {
    candidates = std::move(legal);
  }
}

// The degrees that the row gives, and its GPU count; a degree of 0 or without end would divide by
// nothing, or multiply beyond 64 bits, in what follows.
std::int64_t fill_degrees(const PublishedRow& row, const Job& job, Plan& plan,
                          std::vector<std::string>& assumed) {
  constexpr std::int64_t kLargestDegree = 100'000;
  constexpr std::int64_t kMostGpus = 100'000'000;
  const auto degree = [&](const char* key, const std::optional<std::int64_t>& value) {
    if (value && (*value < 1 || *value > kLargestDegree)) {
      throw Skip{fmt::format("{} is {}; it must be between 1 and {}", key, *value, kLargestDegree)};
    }
    return value.value_or(1);
  };
  plan.tensor = degree("tp", row.tp);
  plan.pipeline = degree("pp", row.pp);
  plan.virtual_pipeline = degree("vpp", row.vpp);
  plan.context = degree("cp", row.cp);
  plan.micro_batch = degree("micro_batch", row.micro_batch);
  plan.expert = job.model.moe ? degree("ep", row.ep) : 1;
  plan.expert_tensor = row.etp.value_or(0) == 0 ? 0 : degree("etp", row.etp);
  const std::int64_t replicas = degree("data_parallel", row.data_parallel);
  if (plan.pipeline * plan.virtual_pipeline > job.model.layers + 2 && row.stage_layers.empty()) {
    throw Skip{"more pipeline chunks than layers"};
  }
  const std::int64_t model_ranks = plan.tensor * plan.pipeline * plan.context;
  std::int64_t gpus = row.gpus.value_or(0);
  if (gpus == 0 && row.data_parallel) {
    if (model_ranks > kMostGpus / replicas) {
      throw Skip{fmt::format("tp * pp * cp * data_parallel is more than {} GPUs", kMostGpus)};
    }
    gpus = model_ranks * replicas;
  }
  if (gpus <= 0) {
    throw Skip{"gpus is missing"};
  }
  if (gpus % model_ranks != 0) {
    throw Skip{fmt::format("tp * pp * cp = {} does not divide gpus = {}", model_ranks, gpus)};
  }
  if (!row.etp && plan.expert > 1 && gpus % (plan.tensor * plan.expert * plan.pipeline) != 0) {
    plan.expert_tensor = 1;  // the expert grid does not hold a whole tensor-parallel group
    assumed.emplace_back("etp=1");
  }
  return gpus;
}

// A row that measured memory can be predicted without its card; what fits on it is then a guess.
std::string gpu_of(const PublishedRow& row, std::vector<std::string>& assumed) {
  const bool named = !row.gpu.empty() && row.gpu != "unknown" && !contains(row.gpu, "not named");
  if (named) {
    return row.gpu;
  }
  if (!(row.finetune || row.offload) || !row.peak_memory_gib) {
    throw Skip{"gpu is missing"};
  }
  assumed.emplace_back("gpu=A100-80GB");
  return "A100-80GB";
}

// GPUs that hold a model's layers in turn are a pipeline of one micro-batch.
bool holds_layers_in_turn(const PublishedRow& row) {
  return row.finetune && row.finetune->library.layers_in_turn;
}

// "activation CPU offload of 40 layers", "activation checkpointing, checkpoints on host"
void set_activation_offload(const PublishedRow& row, Job& job) {
  const std::int64_t layers =
      contains(row.recompute_detail, "checkpoints on host")
          ? job.model.layers
          : number_after(row.recompute_detail, "activation CPU offload of ");
  if (layers > 0) {
    job.offload.activations = OffloadTo::kHost;
    job.offload.activation_share =
        std::min(1.0, static_cast<double>(layers) / static_cast<double>(job.model.layers));
  }
}

void fill_case(const PublishedRow& row, const PlanChooser& choose, PublishedCase& found) {
  Job& job = found.job;
  job.model = model_of(row, found.assumed);
  job.profile = topologies::shipped_profile();
  job.framework = framework_of(row, job.model, found.assumed);
  job.sequence = *row.seq;
  job.precision = precision_of(row);
  job.attention = attention_of(row, job.framework, found.assumed);
  if (row.finetune) {
    set_finetune(row, job, found.assumed);
  }
  if (row.offload) {
    set_offload(row, job);
  } else {
    set_activation_offload(row, job);
  }
  job.global_batch = row.global_batch.value_or(0);
  Plan plan;
  const std::int64_t gpus = fill_degrees(row, job, plan, found.assumed);
  if (holds_layers_in_turn(row)) {
    plan.pipeline = gpus;
  }
  check_job(job);
  plan.sharding = sharding_of(row, job.framework, found.assumed);
  plan.reshard_after_forward = job.framework.reshard_after_forward &&
                               (job.framework.reshard_with_pipeline || plan.pipeline == 1);
  plan.stage_layers = row.stage_layers;
  plan.sequence_parallel = sequence_parallel_of(row, job, plan, found.assumed);
  fill_recompute(row, job, plan, found.assumed);
  job.cluster = topologies::compose_cluster(
      gpu_of(row, found.assumed),
      static_cast<int>(std::min<std::int64_t>(row.gpus_per_node.value_or(0), 1024)), gpus,
      row.cluster, row.id);
  // Racks of 72 are handed out in powers of two: 16 of the 18 trays.
  topologies::Node& node = job.cluster.node;
  if (node.gpus == 72 && gpus % 72 != 0) {
    node.nics = node.nics * 64 / 72;
    node.gpus = 64;
    node.nvlink_domain = 64;
    job.cluster.nodes = (gpus + 63) / 64;
  }

  std::vector<Plan> candidates = candidates_of(row, job, plan, gpus);
  if (candidates.empty()) {
    throw Skip{"no value of the missing layout fields obeys the batch and the layers"};
  }
  std::size_t chosen = 0;
  if (candidates.size() > 1) {
    keep_legal(job, candidates);
    chosen = choose ? choose(job, candidates) : first_that_fits(job, candidates);
  }
  found.plan = candidates.at(std::min(chosen, candidates.size() - 1));
  if (holds_layers_in_turn(row)) {
    found.plan.micro_batches = 1;
  }
  if (job.global_batch == 0) {
    job.global_batch =
        found.plan.micro_batch * found.plan.micro_batches * found.plan.data_parallel();
  }
  check_job(job);
  name_choices(row, job, found.plan, found.assumed);
  check_case(found);
}

// A row with what it leaves out of the sequence and the states filled in, and what that assumed.
struct CompletedRow {
  PublishedRow row;
  std::vector<std::string> assumed;
};

PublishedCase case_of(const CompletedRow& completed, const PlanChooser& choose) {
  PublishedCase found;
  found.assumed = completed.assumed;
  try {
    if (!completed.row.unreadable.empty()) {
      throw Skip{completed.row.unreadable};
    }
    fill_case(completed.row, choose, found);
  } catch (const Skip& skip) {
    found.skipped = skip.reason;
  } catch (const Error& error) {
    found.skipped = error.what();
  }
  return found;
}

CompletedRow with_sequence(const PublishedRow& row, std::int64_t sequence) {
  CompletedRow completed{row, {}};
  complete_offload_row(completed.row, sequence, completed.assumed);
  return completed;
}

Fit fit_of(const PublishedCase& found) {
  if (!found.skipped.empty()) {
    return Fit::kNo;
  }
  MemoryEstimate estimate;
  MemoryModel(found.job).estimate(found.plan, estimate);
  return estimate.fit;
}

// Other readings of a row that ran and would not fit under the usual one, which hold where they fit
// beyond doubt: BERT's length instead of GPT-2's where none is printed; PyTorch's states in 16 bits
// where none of them is.
std::vector<CompletedRow> other_readings(const PublishedRow& row, const Job& usual) {
  constexpr std::int64_t kShorter = 512;
  std::vector<CompletedRow> readings;
  if (lacks_sequence(row)) {
    readings.push_back(with_sequence(row, kShorter));
  }
  const bool says_type = std::ranges::any_of(row.settings, [](const auto& setting) {
    return setting.first == "parameter_dtype" || setting.first == "optimizer_dtype";
  });
  if (usual.framework.states == StateLayout::kTorch && !row.finetune && !row.offload &&
      !says_type) {
    CompletedRow narrow{row, {"settings.parameter_dtype=bf16", "settings.optimizer_dtype=bf16"}};
    narrow.row.settings.emplace_back("parameter_dtype", "bf16");
    narrow.row.settings.emplace_back("optimizer_dtype", "bf16");
    readings.push_back(std::move(narrow));
  }
  return readings;
}

}  // namespace

PublishedCase row_to_case(const PublishedRow& row, const PlanChooser& choose) {
  constexpr std::int64_t kUsualSequence = 1024;
  PublishedCase found = case_of(with_sequence(row, kUsualSequence), choose);
  if (!row.outcome.empty() || !found.skipped.empty() || fit_of(found) != Fit::kNo) {
    return found;
  }
  for (const CompletedRow& reading : other_readings(row, found.job)) {
    PublishedCase other = case_of(reading, choose);
    if (fit_of(other) == Fit::kFits) {
      return other;
    }
  }
  return found;
}

}  // namespace trireme::planner
