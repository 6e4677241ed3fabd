#include "tools/request.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "models/presets.h"
#include "planner/plan/framework_versions.h"
#include "planner/plan/job_check.h"
#include "planner/plan/names.h"
#include "planner/plan/rules.h"
#include "planner/plan/stages.h"
#include "tools/plan_file.h"
#include "tools/sample_options.h"
#include "topologies/cluster.h"
#include "topologies/profile.h"

namespace trireme::tools {
namespace {

using planner::Job;
using planner::Plan;
using planner::Sharding;

// The precision asked for, or the best that the GPU trains in.
void settle_precision(Job& job, const std::string& name) {
  const auto& peaks = job.cluster.gpu.peak_dense;
  if (name.empty()) {
    job.precision = peaks.contains(topologies::Precision::kBf16) ? topologies::Precision::kBf16
                                                                 : topologies::Precision::kFp16;
    return;
  }
  if (!peaks.contains(job.precision)) {
    throw Error("--precision",
                fmt::format("{} does not compute in {}; choose one of bf16, fp16, fp32 that it has",
                            job.cluster.gpu.name, name));
  }
}

// The value of an option whose words were checked when it was parsed; `otherwise` where none
// stands.
template <typename Names, typename Value>
Value chosen(const Names& names, const std::string& word, Value otherwise) {
  return names.value_of(word).value_or(otherwise);
}

// A layout being put together, and which of its degrees were given.
struct Draft {
  Plan plan;
  bool tensor = false, pipeline = false, replicas = false, sharded = false, sharding = false;
};

void set(std::int64_t& degree, const std::optional<std::int64_t>& value) {
  degree = value.value_or(degree);
}

[[noreturn]] void refuse_two(const char* option, std::string_view given, std::string_view layout) {
  throw Error(
      fmt::format("--{}", option),
      fmt::format("is {}, but --layout says {}; one of them would be right", given, layout));
}

// What --layout and its own flag give differently.
void check_choices_agree(const Plan& layout, const LayoutOptions& options) {
  const auto differs = [](const std::string& given, std::string_view said, std::string_view usual) {
    return !given.empty() && said != usual && given != said;
  };
  const std::string_view recompute = to_string(layout.recompute);
  const std::string given = options.recompute_layers             ? "full"
                            : !options.recompute_modules.empty() ? "selective"
                                                                 : options.recompute;
  if (differs(given, recompute, "none")) {
    refuse_two("recompute", given, recompute);
  }
  const bool says_sharding = options.layout.find("zero") != std::string::npos;
  if (says_sharding && differs(options.sharding, to_string(layout.sharding), "none")) {
    refuse_two("sharding", options.sharding, to_string(layout.sharding));
  }
  const bool interleaves = layout.virtual_pipeline > 1;
  if (differs(options.schedule, to_string(layout.schedule), interleaves ? "interleaved" : "1f1b")) {
    refuse_two("schedule", options.schedule, to_string(layout.schedule));
  }
}

void check_degrees_agree(const Plan& layout, const LayoutOptions& options) {
  const std::tuple<const char*, std::int64_t, std::optional<std::int64_t>> degrees[] = {
      {"tp", layout.tensor, options.tensor},
      {"pp", layout.pipeline, options.pipeline},
      {"cp", layout.context, options.context},
      {"ep", layout.expert, options.expert},
      {"fsdp", layout.sharded, options.sharded},
      {"dp", layout.replicas, options.replicas},
      {"vpp", layout.virtual_pipeline, options.virtual_pipeline},
      {"micro-batch", layout.micro_batch, options.micro_batch}};
  for (const auto& [name, said, given] : degrees) {
    if (said > 1 && given && *given != said) {
      refuse_two(name, std::to_string(*given), fmt::format("{}{}", name, said));
    }
  }
}

void apply_degrees(Draft& draft, const LayoutOptions& options) {
  Plan& plan = draft.plan;
  set(plan.tensor, options.tensor);
  set(plan.pipeline, options.pipeline);
  set(plan.virtual_pipeline, options.virtual_pipeline);
  set(plan.replicas, options.replicas);
  set(plan.sharded, options.sharded);
  set(plan.context, options.context);
  set(plan.expert, options.expert);
  set(plan.expert_tensor, options.expert_tensor);
  set(plan.micro_batch, options.micro_batch);
  draft.tensor = options.tensor || plan.tensor > 1;
  draft.pipeline = options.pipeline || plan.pipeline > 1;
  draft.replicas = options.replicas || plan.replicas > 1;
  draft.sharded = options.sharded || plan.sharded > 1;
}

void apply_recompute(Plan& plan, const LayoutOptions& options) {
  using planner::Recompute;
  check_recompute_options(options.recompute, options.recompute_layers.has_value(),
                          !options.recompute_modules.empty());
  if (options.recompute_layers) {
    plan.recompute = Recompute::kFull;
    plan.recompute_layers = *options.recompute_layers;
  }
  if (!options.recompute_modules.empty()) {
    plan.recompute = Recompute::kSelective;
    plan.recompute_modules = 0;
    std::string names = options.recompute_modules + ",";
    for (std::size_t cut = names.find(','); cut != std::string::npos; cut = names.find(',')) {
      plan.recompute_modules = static_cast<std::uint16_t>(
          plan.recompute_modules | planner::recompute_module_of(names.substr(0, cut)));
      names.erase(0, cut + 1);
    }
  }
  if (!options.recompute.empty()) {
    plan.recompute = chosen(planner::kRecomputeNames, options.recompute, plan.recompute);
  }
}

void apply_choices(Draft& draft, const LayoutOptions& options) {
  Plan& plan = draft.plan;
  draft.sharding = !options.sharding.empty() || plan.sharding != Sharding::kNone;
  if (!options.sharding.empty()) {
    plan.sharding = chosen(planner::kShardingNames, options.sharding, Sharding::kNone);
  } else if (plan.sharding == Sharding::kNone && plan.sharded > 1) {
    plan.sharding = Sharding::kFull;
  }
  apply_recompute(plan, options);
  if (!options.schedule.empty()) {
    plan.schedule = chosen(planner::kScheduleNames, options.schedule,
                           planner::Schedule::kOneForwardOneBackward);
    const bool said = options.virtual_pipeline || plan.virtual_pipeline > 1;
    if (planner::is_in_v(plan.schedule) && plan.pipeline > 1 && !said) {
      plan.virtual_pipeline = planner::kChunksInV;
    }
  } else if (plan.virtual_pipeline > 1 && !planner::is_in_v(plan.schedule)) {
    plan.schedule = planner::Schedule::kInterleaved;
  }
  if (!options.stage_layers.empty()) {
    plan.stage_layers = parse_counts(options.stage_layers, "--stage-layers");
  }
  if (!options.fsdp_unit.empty()) {
    plan.fsdp_unit = options.fsdp_unit == "block"   ? 1
                     : options.fsdp_unit == "model" ? 0
                                                    : parse_count(options.fsdp_unit, "--fsdp-unit");
  }
}

// --data-parallel N sets fsdp x dp.
void apply_data_parallel(Draft& draft, std::int64_t ranks) {
  Plan& plan = draft.plan;
  const bool shards = plan.sharding != Sharding::kNone;
  const std::int64_t given =
      (draft.sharded ? plan.sharded : 1) * (draft.replicas ? plan.replicas : 1);
  const bool both = (draft.sharded || !shards) && draft.replicas;
  if (ranks % given != 0 || (both && given != ranks)) {
    throw Error("--data-parallel",
                fmt::format("{} is not fsdp {} x dp {}", ranks, plan.sharded, plan.replicas));
  }
  if (shards && !draft.sharded) {
    plan.sharded = ranks / given;
  } else if (!draft.replicas) {
    plan.replicas = ranks / given;
  }
  draft.sharded = draft.replicas = true;
}

// GPUs that the given degrees leave over.
void fill_from_gpus(Draft& draft, std::int64_t gpus) {
  Plan& plan = draft.plan;
  const std::int64_t used = plan.gpus();
  const std::string product =
      fmt::format("tp {} x pp {} x cp {} x fsdp {} x dp {} = {}", plan.tensor, plan.pipeline,
                  plan.context, plan.sharded, plan.replicas, used);
  if (gpus % used != 0) {
    throw Error(
        "layout",
        fmt::format("{} does not divide the {} GPUs; choose degrees whose product does, or --gpus",
                    product, gpus));
  }
  const std::int64_t left = gpus / used;
  if (left == 1) {
    return;
  }
  if (plan.sharding != Sharding::kNone && !draft.sharded) {
    plan.sharded = left;
  } else if (!draft.replicas) {
    plan.replicas = left;
  } else if (draft.tensor != draft.pipeline) {
    (draft.tensor ? plan.pipeline : plan.tensor) = left;
  } else {
    throw Error(
        "layout",
        fmt::format("{}, but {} GPUs are given; give --gpus {}, or degrees whose product is {}",
                    product, gpus, used, gpus));
  }
}

// The framework asked for, with the recipes that hold for the model, the precision and the card,
// then what `--set` overrides.
void settle_framework(const JobOptions& options, Job& job) {
  job.framework = planner::find_framework(options.framework.empty() ? "trireme" : options.framework,
                                          planner::recipe_case_of(job));
  for (const std::string& setting : options.settings) {
    const auto cut = setting.find('=');
    if (cut == std::string::npos) {
      throw Error("--set", fmt::format("'{}' has no '='; KEY=VALUE is expected", setting));
    }
    planner::apply_setting(job.framework, setting.substr(0, cut), setting.substr(cut + 1));
  }
  planner::leave_out_prediction(job);
}

}  // namespace

Job make_job_without_cluster(const JobOptions& options) {
  if (options.model.empty()) {
    throw Error("--model", "is missing; give a preset (see 'trireme models') or a config.json");
  }
  Job job;
  job.model = models::load_model(options.model);
  job.profile = options.calibration.empty() ? topologies::shipped_profile()
                                            : topologies::load_profile(options.calibration);
  const std::int64_t longest = job.model.max_sequence > 0 ? job.model.max_sequence : 4096;
  job.sequence = options.sequence.value_or(std::min<std::int64_t>(4096, longest));
  job.global_batch = options.global_batch.value_or(0);
  job.precision = chosen(planner::kPrecisionNames, options.precision, topologies::Precision::kBf16);
  job.optimizer = chosen(planner::kOptimizerNames, options.optimizer, planner::Optimizer::kAdam);
  job.attention =
      chosen(planner::kAttentionNames, options.attention, models::AttentionKernel::kFlash);
  settle_framework(options, job);
  apply_training(options, job);
  return job;
}

Job make_job(const JobOptions& options) {
  if (options.cluster.empty()) {
    throw Error(
        "--cluster",
        "is missing; give a preset with a node count (dgx-h100x8, see 'trireme clusters') or a "
        "topology file");
  }
  Job job = make_job_without_cluster(options);
  job.cluster = topologies::load_cluster(options.cluster);
  if (options.gpus) {
    job.cluster = topologies::narrowed(std::move(job.cluster), *options.gpus);
  }
  settle_precision(job, options.precision);
  settle_framework(options, job);
  return job;
}

Plan make_plan(const LayoutOptions& options, std::optional<std::int64_t> gpus, const Plan& base) {
  Draft draft;
  draft.plan = base;
  if (!options.layout.empty()) {
    draft.plan = planner::parse_short_form(options.layout);
    check_degrees_agree(draft.plan, options);
    check_choices_agree(draft.plan, options);
  }
  apply_degrees(draft, options);
  apply_choices(draft, options);
  // The order of a plan file was chosen for its own degrees.
  if (options.layout.empty() && (options.tensor || options.pipeline || options.context ||
                                 options.sharded || options.replicas || options.data_parallel)) {
    draft.plan.order = Plan{}.order;
  }
  if (options.data_parallel) {
    apply_data_parallel(draft, *options.data_parallel);
  }
  if (gpus) {
    fill_from_gpus(draft, *gpus);
  }
  Plan& plan = draft.plan;
  // What a layout or a plan file says of it holds; a degree that came from a flag switches it on.
  const bool said =
      plan.tensor == 1 || options.tensor || (base == Plan{} && options.layout.empty());
  plan.sequence_parallel =
      plan.tensor > 1 && options.sequence_parallel.value_or(said || plan.sequence_parallel);
  return plan;
}

void refuse_absent_modules(const models::Transformer& model, const Plan& plan) {
  const std::tuple<std::uint16_t, bool, const char*> needed[] = {
      {planner::kMoe, model.moe.has_value(), "experts"},
      {planner::kMoeActivation, model.moe.has_value(), "experts"},
      {planner::kSharedExperts, model.moe && model.moe->shared_ffn > 0, "shared experts"},
      {planner::kMlaUpProjection, model.latent.has_value(), "latent attention"}};
  for (const auto& [module, has, what] : needed) {
    if (plan.recompute == planner::Recompute::kSelective && !has &&
        (plan.recompute_modules & module) != 0) {
      throw Error("--recompute-modules",
                  fmt::format("{} has no {}: {} is nothing to recompute; core_attn, layernorm or "
                              "mlp would be right",
                              model.name, what, planner::module_names(module)));
    }
  }
}

void complete(Job& job, Plan& plan) {
  refuse_absent_modules(job.model, plan);
  if (!job.framework.reshard_after_forward) {
    plan.reshard_after_forward = false;
  }
  const std::int64_t together = plan.data_parallel() * plan.micro_batch;
  if (job.global_batch == 0) {
    job.global_batch = together;
  }
  plan.micro_batches = std::max<std::int64_t>(1, job.global_batch / together);
  planner::check_job(job);
  if (const auto violation = planner::check_plan(job, plan)) {
    throw Error(std::string(planner::to_string(violation->rule)), violation->detail);
  }
}

Request make_request(const std::string& plan_file, const JobOptions& job,
                     const LayoutOptions& layout) {
  Request request;
  request.options = job;
  Plan base;
  if (!plan_file.empty()) {
    PlanFile file = read_plan_file(plan_file);
    request.options = merged(std::move(file.options), job);
    base = std::move(file.plan);
  }
  request.job = make_job(request.options);
  request.plan = make_plan(layout, request.job.cluster.gpus, base);
  const bool names_modules = !layout.recompute_modules.empty() || !plan_file.empty();
  if (request.job.framework.recompute_per_op && !names_modules) {
    request.plan.recompute_modules = planner::kTorchPerOp;  // as plan's search takes it
  }
  complete(request.job, request.plan);
  return request;
}

}  // namespace trireme::tools
