#include "planner/search/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/error.h"
#include "planner/search/counts.h"
#include "planner/search/orders.h"
#include "planner/search/splits.h"

namespace trireme::planner {
namespace {

constexpr std::int64_t kLayoutsMost = 60'000'000;

// Walks the levels; what breaks a rule is noted with the rule.
class Enumerator {
 public:
  Enumerator(const Job& job, const std::vector<Constraint>& constraints, const FixedChoices& fixed,
             Space& space)
      : job_(job), constraints_(constraints), fixed_(fixed), space_(space), splits_(job, fixed) {
    for (std::size_t active = 0; active < space.orders.size(); ++active) {
      space.orders[active] = legal_orders(job, active);
      space.usual[active] = {space.orders[active].front()};
    }
  }

  void run() {
    const std::int64_t gpus = job_.cluster.gpus;
    for (const std::int64_t tensor : divisors_of(gpus)) {
      for (const std::int64_t pipeline : divisors_of(gpus / tensor)) {
        for (const std::int64_t context :
             context_degrees(job_, gpus / tensor / pipeline, names(ConstraintAxis::kContext))) {
          Plan plan;
          plan.tensor = tensor;
          plan.pipeline = pipeline;
          plan.context = context;
          plan.replicas = gpus / tensor / pipeline / context;
          add_experts(plan);
        }
      }
    }
    for (auto& [key, rejection] : rejections_) {
      space_.rejections.push_back(std::move(rejection));
    }
  }

 private:
  [[nodiscard]] bool wanted(const Plan& plan, std::initializer_list<ConstraintAxis> axes) const {
    return std::all_of(constraints_.begin(), constraints_.end(), [&](const Constraint& c) {
      return std::find(axes.begin(), axes.end(), c.axis) == axes.end() || satisfies(c, plan);
    });
  }
  [[nodiscard]] bool names(ConstraintAxis axis) const {
    return std::any_of(constraints_.begin(), constraints_.end(),
                       [&](const Constraint& c) { return c.axis == axis; });
  }

  // True when the plan breaks no rule; else notes the rule.
  bool legal(const Plan& plan) {
    std::optional<Violation> violation = check_plan(job_, plan);
    if (violation) {
      note(RejectedBy::kRule, violation->rule, plan, [&] { return std::move(violation->detail); });
    }
    return !violation;
  }

  template <typename Detail>
  void note(RejectedBy by, Rule rule, const Plan& example, const Detail& detail) {
    Rejection& rejection = rejections_[{by, rule}];
    if (rejection.count++ == 0) {
      rejection.by = by;
      rejection.rule = rule;
      rejection.example = example;
      rejection.detail = detail();
    }
  }

  void note_refused(RejectedBy by, const Plan& plan) {
    note(by, Rule::kFrameworkFeature, plan, [&] { return space_.accepts.refusal(plan); });
  }

  void add_experts(Plan plan) {
    plan.sequence_parallel = plan.tensor > 1 && fixed_.sequence_parallel.value_or(true) &&
                             job_.sequence / plan.context % plan.tensor == 0;
    plan.micro_batches = std::max<std::int64_t>(1, job_.global_batch / plan.replicas);
    plan.fsdp_unit = fixed_.fsdp_unit.value_or(1);
    plan.recompute_modules = fixed_.recompute_modules.value_or(
        job_.framework.recompute_per_op ? kTorchPerOp : kCoreAttention);
    std::vector<std::int64_t> expert_degrees = {1};
    if (job_.model.moe) {
      expert_degrees = divisors_of(job_.model.moe->experts);
    }
    for (const std::int64_t expert : expert_degrees) {
      plan.expert = expert;
      plan.expert_tensor = 0;  // etp = tp
      add_degrees(plan);
      if (job_.model.moe && plan.tensor > 1) {
        plan.expert_tensor = 1;
        add_degrees(plan);
      }
    }
  }

  void add_degrees(Plan plan) {
    using A = ConstraintAxis;
    if (!wanted(plan, {A::kTensor, A::kPipeline, A::kContext, A::kExpert, A::kExpertTensor,
                       A::kDataParallel}) ||
        !legal(base_of(plan))) {
      return;
    }
    Degrees degrees;
    degrees.base = plan;
    refused_.clear();
    add_shardings(degrees);
    if (degrees.shardings.empty() && !refused_.empty() && plan.sequence_parallel &&
        !fixed_.sequence_parallel) {
      plan.sequence_parallel = false;
      add_degrees(std::move(plan));
      return;
    }
    for (const Plan& refused : refused_) {
      note_refused(RejectedBy::kProgramOfDegrees, refused);
    }
    if (degrees.shardings.empty()) {
      return;
    }
    for (const ShardingChoice& choice : degrees.shardings) {
      degrees.layouts += static_cast<std::int64_t>(choice.orders->size());
    }
    const std::size_t before = space_.nodes.size();
    space_.degrees.push_back(std::move(degrees));
    add_pipelines(plan);
    space_.layouts +=
        static_cast<std::int64_t>(space_.nodes.size() - before) * space_.degrees.back().layouts;
    refuse_too_many();
    if (space_.nodes.size() == before) {
      space_.degrees.pop_back();
    }
  }

  // Counts with many divisors, above all with experts: minutes of search where seconds are
  // expected.
  void refuse_too_many() const {
    if (space_.layouts > kLayoutsMost) {
      throw Error(
          "--gpus",
          fmt::format("more than {} layouts of {} GPUs and {} sequences are legal, which no "
                      "search ends soon; fix an axis (--tp 8, --constraint 'pp<=16') or "
                      "give fewer GPUs",
                      kLayoutsMost, job_.cluster.gpus, job_.global_batch));
    }
  }

  // The plan with a split of its layers and the sharding asked for, which rules hold for too.
  [[nodiscard]] Plan base_of(Plan plan) {
    plan.stage_layers = fixed_.stage_layers;
    const auto count = static_cast<std::int64_t>(plan.stage_layers.size());
    if (count > plan.pipeline && count % plan.pipeline == 0 && plan.pipeline > 1) {
      plan.virtual_pipeline = count / plan.pipeline;
      plan.schedule =
          fixed_.schedule && is_in_v(*fixed_.schedule) ? *fixed_.schedule : Schedule::kInterleaved;
    }
    if (count == 0 && takes_any_split(job_) && !splits_evenly(job_, plan)) {
      plan.stage_layers = splits_.balanced(plan);
    }
    plan.sharding = fixed_.sharding.value_or(Sharding::kNone);
    return plan;
  }

  void add_sharding(Degrees& degrees, ShardingChoice choice) {
    const Plan plan = with_sharding(base_of(degrees.base), choice);
    if (!wanted(plan, {ConstraintAxis::kSharded, ConstraintAxis::kReplicas}) || !legal(plan)) {
      return;
    }
    if (!can_be_told(plan)) {
      refused_.push_back(plan);
      return;
    }
    choice.orders = &(takes_any_order(plan) ? space_.orders : space_.usual)[active_axes(plan)];
    choice.placements = placements_of(degrees_of(plan), *choice.orders);
    degrees.shardings.push_back(std::move(choice));
  }

  // The closed form prices an expert's group over neighbouring ranks, which other orders pull
  // apart.
  [[nodiscard]] bool takes_any_order(const Plan& plan) const {
    return !job_.model.moe ||
           (is_megatron(job_.framework) ? may_put_stages_inside(plan) : plan.expert == 1);
  }

  // Some programs take no more than one micro-batch, all of them one or many.
  [[nodiscard]] bool can_be_told(Plan plan) const {
    if (space_.accepts.takes(plan)) {
      return true;
    }
    plan.micro_batch *= plan.micro_batches;
    plan.micro_batches = 1;
    return space_.accepts.takes(plan);
  }

  void add_shardings(Degrees& degrees) {
    const std::int64_t ranks = degrees.base.replicas;
    const auto allowed = [&](Sharding sharding) {
      return !fixed_.sharding || *fixed_.sharding == sharding;
    };
    // One data-parallel rank shards over its context ranks, where the framework does.
    const bool context_alone =
        ranks == 1 && degrees.base.context > 1 && job_.framework.shard_over_context;
    if (allowed(Sharding::kNone) || (ranks == 1 && !context_alone)) {
      add_sharding(degrees, {.sharded = 1, .replicas = ranks});
    }
    for (const Sharding sharding : {Sharding::kOptimizer, Sharding::kGradients, Sharding::kFull}) {
      for (const std::int64_t sharded : divisors_of(ranks)) {
        if ((sharded == 1 && !context_alone) || !allowed(sharding)) {
          continue;
        }
        ShardingChoice choice{sharding, sharded, ranks / sharded};
        choice.reshard_after_forward = job_.framework.reshard_after_forward;
        add_sharding(degrees, choice);
        if (sharding == Sharding::kFull && choice.reshard_after_forward) {
          choice.reshard_after_forward = false;
          add_sharding(degrees, choice);
        }
      }
    }
  }

  void add_pipelines(Plan plan) {
    const auto allowed = [&](Schedule schedule) {
      return !fixed_.schedule || *fixed_.schedule == schedule;
    };
    if (plan.pipeline == 1) {
      if (wanted(plan, {ConstraintAxis::kVirtual})) {
        add_micro_batches(plan);
      }
      return;
    }
    const bool split_backward = job_.framework.sharder == Sharder::kTrireme;
    // The frameworks' launch files have neither H1 nor H2 as their paper draws them, and H2 doubles
    // activations: both only when asked for.
    const auto offered = [&](Schedule schedule) {
      return fixed_.schedule == schedule ||
             (schedule == Schedule::kZeroBubbleH1 && split_backward) ||
             schedule == Schedule::kOneForwardOneBackward || schedule == Schedule::kGpipe;
    };
    for (const Schedule schedule : {Schedule::kOneForwardOneBackward, Schedule::kGpipe,
                                    Schedule::kZeroBubbleH1, Schedule::kZeroBubbleH2}) {
      plan.schedule = schedule;
      if (allowed(schedule) && offered(schedule) && wanted(plan, {ConstraintAxis::kVirtual})) {
        add_splits(plan);
      }
    }
    // In a V only when asked for: PyTorch's own need layers that are not compiled.
    if (fixed_.schedule && is_in_v(*fixed_.schedule)) {
      plan.schedule = *fixed_.schedule;
      plan.virtual_pipeline = kChunksInV;
      if (wanted(plan, {ConstraintAxis::kVirtual})) {
        add_splits(plan);
      }
    }
    plan.schedule = Schedule::kInterleaved;
    if (allowed(plan.schedule)) {
      const bool all = names(ConstraintAxis::kVirtual) || !fixed_.stage_layers.empty();
      for (const std::int64_t chunks : chunk_counts(job_, plan.pipeline, all)) {
        plan.virtual_pipeline = chunks;
        if (wanted(plan, {ConstraintAxis::kVirtual})) {
          add_splits(plan);
        }
      }
    }
  }

  void add_splits(Plan plan) {
    for (ChunkSplit& split : splits_.of(plan)) {
      plan.stage_layers = std::move(split.layers);
      plan.prediction_apart = split.prediction_apart;
      if (!legal(plan)) {
        return;  // a balanced split breaks no rule that the framework's own one, before it, holds
      }
      add_micro_batches(plan);
    }
  }

  void add_micro_batches(Plan plan) {
    const std::int64_t ranks = plan.replicas;
    ++space_.pipelines;
    const std::size_t before = space_.nodes.size();
    for (const std::int64_t size : divisors_of(job_.global_batch / ranks)) {
      plan.micro_batch = size;
      plan.micro_batches = job_.global_batch / ranks / size;
      if (wanted(plan, {ConstraintAxis::kMicroBatch, ConstraintAxis::kMicroBatches}) &&
          legal(plan)) {
        add_recompute(plan);
      }
      if (space_.nodes.size() > before && !space_.nodes[before].leanest) {
        mark_leanest(before);
      }
    }
  }

  void mark_leanest(std::size_t first) {
    const auto recomputes_all = [](const SpaceNode& node) {
      return node.plan.recompute == Recompute::kFull && node.plan.recompute_layers < 0;
    };
    const auto begin = space_.nodes.begin() + static_cast<std::ptrdiff_t>(first);
    const auto found = std::find_if(begin, space_.nodes.end(), recomputes_all);
    std::iter_swap(begin, found == space_.nodes.end() ? begin : found);
    begin->leanest = true;
  }

  // Whether the program can start it with one of its shardings; else notes it.
  bool startable(const Plan& plan) {
    if (!space_.accepts.layout) {
      return true;
    }
    const std::vector<ShardingChoice>& shardings = space_.degrees.back().shardings;
    Plan sharded = plan;
    for (const ShardingChoice& choice : shardings) {
      set_sharding(choice, sharded);
      if (space_.accepts.layout(sharded)) {
        return true;
      }
    }
    note_refused(RejectedBy::kProgramOfPipeline, sharded);
    return false;
  }

  void add_node(const Plan& plan) {
    if (!startable(plan)) {
      return;
    }
    space_.nodes.push_back({space_.degrees.size() - 1, space_.pipelines - 1, plan, false});
  }

  void add_recompute(Plan plan) {
    const auto allowed = [&](Recompute recompute) {
      return (!fixed_.recompute || *fixed_.recompute == recompute) &&
             (!fixed_.recompute_layers || recompute == Recompute::kFull) &&
             (!fixed_.recompute_modules || recompute == Recompute::kSelective);
    };
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective}) {
      plan.recompute = recompute;
      if (allowed(recompute)) {
        add_node(plan);
      }
    }
    plan.recompute = Recompute::kFull;
    if (!allowed(plan.recompute)) {
      return;
    }
    if (fixed_.recompute_layers) {
      plan.recompute_layers = *fixed_.recompute_layers;
      add_node(plan);
      return;
    }
    add_node(plan);
    for (const std::int64_t count : partly_recomputed(job_, plan)) {
      plan.recompute_layers = count;
      add_node(plan);
    }
  }

  const Job& job_;
  const std::vector<Constraint>& constraints_;
  const FixedChoices& fixed_;
  Space& space_;
  std::map<std::pair<RejectedBy, Rule>, Rejection> rejections_;
  std::vector<Plan> refused_;  // of the degrees at hand
  StageSplits splits_;
};

}  // namespace

void set_sharding(const ShardingChoice& choice, Plan& plan) {
  plan.sharding = choice.sharding;
  plan.sharded = choice.sharded;
  plan.replicas = choice.replicas;
  plan.reshard_after_forward = choice.reshard_after_forward;
}

Plan with_sharding(const Plan& plan, const ShardingChoice& choice) {
  Plan changed = plan;
  set_sharding(choice, changed);
  return changed;
}

void enumerate(const Job& job, const std::vector<Constraint>& constraints,
               const FixedChoices& fixed, Space& space, const Accepts& accepts) {
  if (accepts) {
    space.accepts = accepts(job);
  }
  Enumerator(job, constraints, fixed, space).run();
}

}  // namespace trireme::planner
