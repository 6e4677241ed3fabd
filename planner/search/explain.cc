#include "planner/search/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/transformer.h"
#include "planner/cost/symbols.h"
#include "planner/cost/time_items.h"
#include "topologies/cluster.h"
#include "topologies/routes.h"

namespace trireme::planner {
namespace {

std::vector<std::int64_t> unit_sizes(const Job& job, const Plan& plan) {
  std::vector<std::int64_t> units;
  const std::int64_t step = plan.fsdp_unit > 0 ? plan.fsdp_unit : job.model.layers;
  for (std::int64_t layer = 0; layer < job.model.layers; layer += step) {
    std::int64_t size = 0;
    for (std::int64_t i = layer; i < std::min(layer + step, job.model.layers); ++i) {
      size += models::layer_parameter_count(job.model, i);
    }
    units.push_back(size);
  }
  units.push_back(models::embedding_parameter_count(job.model));
  return units;
}

void add_memory(const Job& job, const Estimate& chosen, const Symbols& s,
                std::vector<FormulaRow>& rows) {
  const Plan& plan = chosen.plan;
  const MemoryItems& items = chosen.memory.stages.at(chosen.memory.peak_stage).items;
  const double padding = f1_padding(unit_sizes(job, plan), std::max<std::int64_t>(plan.sharded, 1));
  rows.push_back({"F1", "shard d/P, elements", f1_shard(s),
                  fmt::format("padding to equal shards adds {:.0f} elements over fsdp {}", padding,
                              plan.sharded)});
  const double gathered = s.parameters * s.gathered_share;
  rows.push_back(
      {"F2", "forward peak, elements", f2_forward_peak(s.activations, s.parameters, f1_shard(s)),
       fmt::format("gathered at once is {:.3g} elements, not the whole model", gathered)});
  rows.push_back({"F3", "FSDP memory, elements", f3_fsdp_memory(s),
                  fmt::format("this layout: {:.1f} GiB state, {:.1f} activations, {:.1f} gathered",
                              items.parameters + items.gradients + items.optimizer,
                              items.activations, items.gathered_parameters)});
  rows.push_back({"F4", "Megatron memory, elements", f4_megatron_memory(s),
                  fmt::format("1F1B keeps min(m, P_p - i) micro-batches: stage 0 keeps {:.0f}",
                              std::min(s.micro_batches, s.pipeline))});
  rows.push_back({"F5", "eta = FSDP / Megatron", f5_ratio(s),
                  fmt::format("limits: {:.2f} when activations rule, {:.2f} when state does",
                              f5_limit_activations(s), f5_limit_state(s))});
  rows.push_back({"F6", "memory reduction R", f6_memory_reduction(s),
                  fmt::format("alpha = {:.3f} of this job", s.activation_ratio)});
  rows.push_back({"F7", "hybrid state, elements",
                  f7_hybrid_state(s.parameters, static_cast<double>(plan.sharded), s.tensor),
                  "model state only; the pipeline divides it again"});
  rows.push_back({"F8", "strategy", 0,
                  fmt::format("{} over {} ranks, {} replicas ({})", to_string(plan.sharding),
                              plan.sharded, plan.replicas, to_string(family_of(plan)))});
}

void add_communication(const Job& job, const Estimate& chosen, const Symbols& s,
                       std::vector<FormulaRow>& rows) {
  const Plan& plan = chosen.plan;
  const TimeItems& time = chosen.time.exposed;
  rows.push_back(
      {"F9", "FSDP volume 2 d s log2 P, bytes", f9_fsdp_volume(s),
       fmt::format("bandwidth-optimal gather: {:.3g} bytes a rank", f9_gather_optimal(s))});
  rows.push_back(
      {"F10", "DP volume d s log2 P, bytes", f10_data_parallel_volume(s),
       fmt::format("all-reduce moves {:.3g}; FSDP is {} times it, not 2", f10_all_reduce_optimal(s),
                   plan.reshard_after_forward ? "1.5" : "1.0")});
  rows.push_back(
      {"F11", "TP volume a layer, bytes", f11_tensor_volume(s),
       fmt::format("activations move: {:.3g} bytes a layer and micro-batch; exposed {:.3g} s",
                   f11_tensor_activations(s), time.tensor_parallel)});
  rows.push_back({"F12", "Megatron volume, bytes", f12_megatron_volume(s),
                  fmt::format("a boundary moves {:.3g} each way; exposed {:.3g} s",
                              f12_pipeline_volume(s) / 2, time.pipeline_p2p)});
  rows.push_back({"F13", "C_FSDP / C_Megatron with d = L h^2", f13_ratio(s),
                  fmt::format("with the real d: {:.2f}; {}", f13_ratio_real(s),
                              s.tensor > 1 ? fmt::format("limit {:.2f}", f13_limit(s))
                                           : "no limit without tensor parallelism")});
  const topologies::GroupShape group =
      topologies::group_shape(job.cluster, plan.data_parallel(), stride_of(plan, Axis::kSharded));
  const topologies::Route route = topologies::group_bottleneck(job.cluster, group);
  const Bytes shard(
      static_cast<std::int64_t>(s.parameters * s.element_bytes / (s.tensor * s.pipeline)));
  const double textbook = plan.data_parallel() > 1 && route.bottleneck.value > 0
                              ? f14_log_collective(static_cast<double>(plan.data_parallel()),
                                                   route.latency, shard, route.bottleneck)
                                    .value
                              : 0.0;
  rows.push_back({"F14", "log-P gradient collective, seconds", textbook,
                  fmt::format("family nccl, overlapped: exposed {:.3g} s", time.data_parallel)});
  std::vector<TensorOption> options;
  for (std::int64_t degree = 1; degree <= job.cluster.gpus && degree <= job.model.heads;
       degree *= 2) {
    Symbols t = s;
    t.tensor = static_cast<double>(degree);
    t.devices = s.devices / t.tensor;
    const auto shape = topologies::group_shape(job.cluster, std::max<std::int64_t>(degree, 2), 1);
    options.push_back(
        {t.tensor,
         f9_fsdp_volume(t) / t.tensor + s.layers * s.micro_batches * f11_tensor_activations(t),
         topologies::group_bottleneck(job.cluster, shape).bottleneck});
  }
  rows.push_back({"F15", "P_t of least communication",
                  f15_tensor_degree(options, s.hidden, kF15MinimumColumns),
                  fmt::format("this layout has tp {}", plan.tensor)});
  rows.push_back({"F16", "reduction deferred, bytes", f16_reduction_volume(s, true),
                  fmt::format("after each of {} micro-batches: {:.3g}; {} {}", plan.micro_batches,
                              f16_reduction_volume(s, false), job.framework.name,
                              job.framework.reduce_every_micro_batch ? "reduces each" : "defers")});
}

Objective fitted(const Estimate& chosen, const std::vector<Estimate>& rivals) {
  std::vector<ObjectivePoint> points;
  const auto add = [&](const Estimate& e) {
    points.push_back({static_cast<double>(e.plan.tensor), static_cast<double>(e.plan.pipeline),
                      static_cast<double>(e.plan.micro_batches), e.time.step_seconds});
  };
  add(chosen);
  std::for_each(rivals.begin(), rivals.end(), add);
  return f20_fit(points);
}

// P_t* of F20 at this layout's P_t P_p, which F22 asks too.
double tensor_optimum(const Objective& fit, const Symbols& s) {
  return fit.b > 0 ? f20_constrained_tensor(fit, s.tensor * s.pipeline, s.micro_batches) : s.tensor;
}

void add_scaling(const Estimate& chosen, const Symbols& s, const std::vector<double>& stages,
                 const Objective& fit, std::vector<FormulaRow>& rows) {
  const Plan& plan = chosen.plan;
  const TimeItems& time = chosen.time.exposed;
  const Bubbles bubbles =
      f17_bubbles(s.pipeline, s.micro_batches, static_cast<double>(plan.virtual_pipeline));
  rows.push_back(
      {"F17", "bubble as given (P_p-1)/(P_p m)", bubbles.as_given,
       fmt::format(
           "idle over ideal {:.4f}, over total {:.4f}; the model's: {:.4f} of the step; 90 % needs "
           "m >= {:.1f}",
           bubbles.over_ideal, bubbles.over_total, time.pipeline_bubble / chosen.time.step_seconds,
           f17_micro_batches_for_90_percent(s.pipeline))});
  const double imbalance = f18_imbalance(stages);
  rows.push_back(
      {"F18", "stage imbalance", imbalance,
       fmt::format("{} eps = {}", imbalance <= kF18Epsilon ? "within" : "above", kF18Epsilon)});
  const double compute = time.compute * s.tensor * s.pipeline;
  rows.push_back(
      {"F19", "Megatron time, seconds",
       f19_megatron_time({compute, s.tensor > 1 ? time.tensor_parallel / std::log2(s.tensor) : 0.0,
                          time.pipeline_p2p, time.pipeline_bubble},
                         s.tensor, s.pipeline),
       fmt::format("detailed step {:.4g} s", chosen.time.step_seconds)});
  const double constrained = tensor_optimum(fit, s);
  rows.push_back(
      {"F20", "continuous P_t* at this P_t P_p", constrained,
       fmt::format("fitted a {:.3g}, b {:.3g}, g {:.3g}, e {:.3g}; discrete optimum tp {}", fit.a,
                   fit.b, fit.g, fit.e, plan.tensor)});
  rows.push_back({"F25", "equivalence", 0,
                  "every layout computes the same gradient up to rounding; tested by the runtime"});
  rows.push_back(
      {"F26", "gradient variance 1/P under FSDP", f26_variance_fsdp(s.devices),
       fmt::format("Megatron as given: 1/P_t + eps = {:.3g}; measured by the runtime's tests",
                   f26_variance_megatron(s.tensor, 0))});
}

Verdict f21_verdict(const Job& job, const Estimate& chosen, const std::vector<Estimate>& rivals) {
  const UtilityWeights weights;
  double fastest = chosen.time.step_seconds;
  for (const Estimate& rival : rivals) {
    fastest = std::min(fastest, rival.time.step_seconds);
  }
  const auto utility = [&](const Estimate& e) {
    const RankedPlan plan{e.plan, e.time.step_seconds, 0, 0, e.memory.allocated_gib, e.memory.fit,
                          0};
    return utility_of(weights, plan, fastest, e.memory.capacity_gib);
  };
  const Estimate* best = &chosen;
  for (const Estimate& rival : rivals) {
    best = utility(rival) > utility(*best) ? &rival : best;
  }
  static_cast<void>(job);
  if (best == &chosen || best->plan == chosen.plan) {
    return {"F21", "no layout has a higher utility",
            fmt::format("U = {:.3f} (weights 1, 0.25, 0.05)", utility(chosen)), true};
  }
  const bool same_family = family_of(best->plan) == family_of(chosen.plan);
  return {"F21",
          fmt::format("utility prefers {}{}", short_form(best->plan),
                      same_family ? ", of the same family" : ""),
          fmt::format("U = {:.3f} against {:.3f} of this layout (weights 1, 0.25, 0.05)",
                      utility(*best), utility(chosen)),
          same_family};
}

bool is_irregular(const models::Transformer& model) {
  for (std::int64_t layer = 1; layer < model.layers; ++layer) {
    if (models::is_moe_layer(model, layer) != models::is_moe_layer(model, 0)) {
      return true;
    }
  }
  return false;
}

Verdict f22_verdict(const Job& job, const Estimate& chosen, const Symbols& s,
                    const Objective& fit) {
  F22Input in;
  in.tensor_optimum = tensor_optimum(fit, s);
  in.activations = s.activations;
  in.shard = f1_shard(s);
  in.micro_batches = s.micro_batches;
  in.pipeline = s.pipeline;
  in.irregular = is_irregular(job.model);
  const Favour favour = f22_favour(in);
  const Family family = family_of(chosen.plan);
  const bool sharded =
      family == Family::kFsdp || family == Family::kHybrid || family == Family::kDdp;
  const bool split = family == Family::kMegatron || family == Family::kHybrid;
  return {
      "F22",
      favour.fsdp && favour.megatron ? "both are favourable"
      : favour.fsdp                  ? "FSDP-favourable"
      : favour.megatron              ? "Megatron-favourable"
                                     : "neither is favoured",
      favour.why,
      (favour.fsdp && sharded) || (favour.megatron && split) || (!favour.fsdp && !favour.megatron)};
}

// What is sharded, by ZeRO's numbers; FSDP2 spells its second stage as parameters that stay
// gathered.
int zero_stage_of(const Plan& plan) {
  switch (plan.sharding) {
    case Sharding::kNone:
      return 0;
    case Sharding::kOptimizer:
      return 1;
    case Sharding::kGradients:
      return 2;
    case Sharding::kFull:
      return plan.reshard_after_forward ? 3 : 2;
  }
  return 0;
}

Verdict f23_verdict(const Job& job, const Estimate& chosen, const Symbols& s) {
  Estimator estimator(job);
  Plan plan = chosen.plan;
  plan.tensor = plan.pipeline = plan.virtual_pipeline = plan.context = plan.expert =
      plan.micro_batch = 1;
  plan.sequence_parallel = false;
  plan.schedule = Schedule::kOneForwardOneBackward;
  plan.stage_layers.clear();
  plan.sharded = 1;
  plan.replicas = job.cluster.gpus;
  plan.sharding = Sharding::kNone;
  plan.micro_batches = std::max<std::int64_t>(1, job.global_batch / job.cluster.gpus);
  MemoryEstimate memory;
  estimator.memory().estimate(plan, memory);
  F23Input in;
  in.parameters = s.parameters;
  in.gpus = s.devices;
  in.fits_one_gpu = memory.fit != Fit::kNo;
  in.batch_fits_one_pass = plan.micro_batches == 1;
  const Sharder sharder = job.framework.sharder;
  in.has_zero2 = sharder != Sharder::kBuffers;
  plan.sharding = sharder == Sharder::kBuffers ? Sharding::kOptimizer
                  : sharder == Sharder::kFsdp2 ? Sharding::kFull
                                               : Sharding::kGradients;
  plan.reshard_after_forward = sharder != Sharder::kFsdp2;
  plan.sharded = plan.replicas;
  plan.replicas = 1;
  estimator.memory().estimate(plan, memory);
  in.fits_zero2 = memory.fit != Fit::kNo;
  const Advice advice = f23_tree(in);
  const Family family = family_of(chosen.plan);
  const bool in_family =
      std::find(advice.families.begin(), advice.families.end(), family) != advice.families.end();
  const int stage = zero_stage_of(chosen.plan);
  const bool in_stage = advice.zero_stage == 0 || advice.zero_stage == stage;
  return {"F23", advice.strategy,
          in_family && !in_stage ? fmt::format("{}; this layout is ZeRO-{}", advice.why, stage)
                                 : advice.why,
          in_family && in_stage};
}

}  // namespace

Explanation explain(const Job& job, const Estimate& chosen, const std::vector<Estimate>& rivals) {
  Explanation explanation;
  const Symbols s = symbols_of(job, chosen.plan);
  const Objective fit = fitted(chosen, rivals);
  std::vector<double> stages;
  TimeModel model(job);
  for (const TimeModel::StageTimes& stage : model.stage_times(chosen.plan)) {
    stages.push_back(stage.forward + stage.input_gradient + stage.weight_gradient +
                     stage.recompute);
  }
  add_memory(job, chosen, s, explanation.formulas);
  add_communication(job, chosen, s, explanation.formulas);
  add_scaling(chosen, s, stages, fit, explanation.formulas);
  explanation.verdicts = {f21_verdict(job, chosen, rivals), f22_verdict(job, chosen, s, fit),
                          f23_verdict(job, chosen, s)};
  explanation.warnings = f24_warnings(job, chosen.plan);
  explanation.comparison = f27_comparison(job, chosen.plan);
  return explanation;
}

std::vector<Difference> differences(const TimeEstimate& chosen, const TimeEstimate& other) {
  std::vector<Difference> found;
  found.reserve(kTimeItems.size());
  for (const auto& [name, item] : kTimeItems) {
    found.push_back({name, other.exposed.*item - chosen.exposed.*item});
  }
  std::stable_sort(found.begin(), found.end(), [](const Difference& a, const Difference& b) {
    return std::abs(a.seconds) > std::abs(b.seconds);
  });
  return found;
}

}  // namespace trireme::planner
