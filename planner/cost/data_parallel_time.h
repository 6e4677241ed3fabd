// Gradient reduction, parameter gathers and the optimizer step of one rank: what they take and what
// stays exposed beside compute, as each framework overlaps them (training_systems 2.2 to 2.4, 3.3).
#pragma once

#include <array>
#include <cstdint>

#include "planner/cost/behaviour_fit.h"
#include "planner/cost/collectives.h"
#include "planner/cost/flat_map.h"
#include "planner/cost/unit_copies.h"
#include "planner/cost/unit_walk.h"
#include "planner/cost/walked_passes.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "planner/plan/shape.h"
#include "topologies/op_cost.h"

namespace trireme::planner {

// The stage that the data-parallel time is taken for.
struct DataParallelInput {
  double dense_parameters = 0;  // on this rank, before sharding over data
  double expert_parameters = 0;
  double root_parameters = 0;       // of them, embedding, head and final norm: FSDP's root unit
  double embedding_parameters = 0;  // of the root's
  double tied_head_parameters = 0;  // of the embedding's: its table, when the head here uses it too
  double trained_share = 1;         // of dense parameters: what is reduced and stepped
  double trained_expert_share = 1;
  // The same of one unit, by UnitKind; of layers that backward goes through, for all `units` alike.
  std::array<double, 3> trained_of_unit = {1, 1, 1};
  double trained_experts_of_unit = 1;
  double frozen_units = 0;     // of `units`: backward does not reach them
  double gathered_share = 1;   // bytes of a gathered element over parameter_bytes
  double weight_gradient = 0;  // of one micro-batch's backward
  std::int64_t rank = 0;       // of the pipeline
  double units = 1;            // FSDP units (layers over --fsdp-unit) on this rank
  double unit_share = 1;       // of its layers that a whole unit holds
  double forward = 0;          // one micro-batch through this rank
  double backward = 0;         // recompute included
  double kernel_share = 1;     // of both: kernels, which run slower beside a collective
  double embedding_compute = 0, embedding_backward = 0;  // of them, at the ends
  double head_forward = 0, head_backward = 0, head_input_gradient = 0;
  // Of a backward without its ends: what comes before the first gradient of a layer, of all layers.
  double before_gradients = 0;
};

struct DataParallelTime {
  double exposed = 0;  // once a step
  double late = 0;     // of it and compute_once: what the last backward takes longer
  double hidden = 0;
  double per_micro_batch_forward = 0;  // added to every micro-batch's forward (exposed gathers)
  double per_micro_batch_backward = 0;
  // Copies and casts before gathers, copies and sums before scatters, among the other compute.
  double compute_forward = 0, compute_backward = 0;  // of a micro-batch
  double compute_once = 0;                           // of a step
};

class DataParallelTimer {
 public:
  // `memory_rate`: bytes per second that streaming kernels reach.
  DataParallelTimer(const Job& job, const BehaviourFit& fit, Collectives& collectives,
                    double memory_rate)
      : job_(job), fit_(fit), collectives_(collectives), memory_rate_(memory_rate) {}

  struct Groups {
    topologies::GroupShape shard, replica, expert_shard, expert_replica;
  };
  // A unit that was timed.
  struct KnownUnit {
    double parameters = 0, experts = 0;
    bool of_this_plan = false;  // else of one with the same axes
    UnitSeconds seconds;        // but for compute
  };
  // What a unit's time depends on beside its parameters and the axes of the plan.
  struct UnitTerms {
    std::int64_t micro_batches = 0;
    std::array<double, 3> trained = {1, 1, 1};
    double trained_experts = 1, gathered_share = 1;
    friend bool operator==(const UnitTerms&, const UnitTerms&) = default;
  };
  // What the stages of a plan share. Most have the same units: the last of each kind is kept.
  struct OfPlan {
    Groups groups;
    RunSharding run;
    UnitCopies copies, expert_copies;
    double reduce_bytes = 4;  // on the wire, of an element
    UnitTerms terms;
    std::array<KnownUnit, 3> units;  // by UnitKind, under those terms
  };
  // Depends on the plan's axes, their order and what is sharded, and on nothing else of it.
  [[nodiscard]] OfPlan of_plan(const Plan& plan) const;
  // `message`: seconds that one takes beside the compute of chunks in turn.
  DataParallelTime measure(const Plan& plan, const DataParallelInput& in, double message,
                           OfPlan& of);

 private:
  [[nodiscard]] double expert_sums(const Plan& plan, const DataParallelInput& in) const;
  // Of a unit, what is gathered, cast before it is, and reduced.
  struct Elements {
    double gathered = 0, cast = 0, reduced = 0;
  };
  // A stage of a plan.
  struct Case {
    const Plan& plan;
    const DataParallelInput& in;
    double message;
    OfPlan& of;
  };
  // Of a stage's layers so many units, and its ends.
  struct Units {
    double count;
    const UnitSeconds &layers, &embedding, &head;
  };
  // What is walked of stages alike.
  struct Walked {
    WalkedPasses passes;
    UnitSchedule schedule;
  };
  struct WalkedKey {
    PassPattern pattern;
    UnitShape shape;  // with it words of a hash
    friend bool operator==(const WalkedKey&, const WalkedKey&) = default;
  };
  [[nodiscard]] Groups groups_of(const Plan& plan) const;
  // Gradients reduced after the last micro-batch, and after each.
  [[nodiscard]] DataParallelTime reduced_once(const Case& at) const;
  [[nodiscard]] DataParallelTime reduced_each(const Case& at);
  const Walked& walked_of(const PassPattern& pattern, const UnitStage& stage);
  void add_first_gathers(const Case& at, const Units& of, DataParallelTime& time) const;
  [[nodiscard]] const UnitSeconds& unit_of(const Case& at, UnitKind kind, double parameters,
                                           double experts) const;
  [[nodiscard]] Units whole_units(const Case& at) const;
  [[nodiscard]] Elements elements_of(const Case& at, double parameters, double trained) const;
  [[nodiscard]] UnitSeconds timed_unit(const Case& at, const Elements& dense,
                                       const Elements& experts) const;
  [[nodiscard]] UnitStage walked_stage(const Case& at) const;

  const Job& job_;
  const BehaviourFit& fit_;
  Collectives& collectives_;
  double memory_rate_;
  FlatMap<WalkedKey, Walked> walked_;
  KnownWalks walks_;
};

// Bytes of a gradient on the wire of its reduction. PyTorch's DistributedDataParallel, where
// nothing is sharded, sums gradients in their own type, whatever its sharder would reduce in.
double reduce_bytes_of(const Job& job, bool sharded);

// Elements that a rank's optimizer steps over, and before sharding.
struct OptimizerElements {
  double local = 0, whole = 0;
};
// The optimizer's step: what goes through memory.
struct OptimizerWork {
  Bytes traffic;
  int kernels = 0;
};
OptimizerWork optimizer_work(const Job& job, const Plan& plan, const OptimizerElements& elements);

// Seconds of the optimizer step: bytes of the local shard's states and of the whole gradients
// through memory.
double optimizer_seconds(const Job& job, const Plan& plan, const OptimizerElements& elements,
                         const topologies::OpCost& cost);

// Bytes per second of passes over parameters and gradients: this project's cast where the profile
// measured it, else what streaming kernels reach.
double state_rate(const Job& job, const topologies::OpCost& cost);

}  // namespace trireme::planner
