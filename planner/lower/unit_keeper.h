// Pass 5: weights and gradients of a stage's units while its ops are written: gathers ahead of use,
// reductions behind the backward, each sharding its own way. See lower.h for the rules.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "planner/cost/unit_copies.h"
#include "planner/lower/builder.h"
#include "planner/lower/parameters.h"
#include "planner/lower/place_ranks.h"
#include "planner/lower/visits.h"

namespace trireme::planner::lowering {

// Where a kernel writes a gradient, and whether something is there already.
struct GradientTarget {
  Operand operand;
  std::int64_t accumulate = 0;
};

class UnitKeeper {
 public:
  UnitKeeper(const Job& job, const Plan& plan, const Shape& shape, const Groups& groups,
             const StepProgram& step, const StageParameters& stage, const HeldMemory& held,
             const std::vector<Action>& actions, const std::vector<Visit>& visits,
             ProgramBuilder& builder, Program& program);

  // Issues the gathers that the start of the step brings.
  void begin_step();
  // Around the ops of a visit.
  void begin_visit(std::uint32_t visit);
  void end_visit(std::uint32_t visit);
  // Issues the reductions that were left for the end.
  void end_step();

  [[nodiscard]] Operand weight(const Slot& slot) const;
  [[nodiscard]] bool is_trained(const Slot& slot) const;
  // Of a weight in 8 bits, which changes once a step: its scale, once it was found. Count 0: not
  // yet.
  [[nodiscard]] Operand& narrow_scale(const Slot& slot) {
    return narrow_scales_[{slot.unit, slot.offset}];
  }
  // For the next kernel that writes this gradient. Marks it as written. Of what is frozen: room for
  // a kernel that has to write it beside something else, read by no one.
  GradientTarget gradient(const Slot& slot);

 private:
  struct TensorGradient {
    std::int64_t offset = 0;  // its slot's
    Operand operand;
  };
  // Whole gradients, of one micro-batch when they are transient (a split backward has several on
  // the way).
  struct WholeGradients {
    Operand operand;                      // count 0: none yet
    std::vector<std::int64_t> written;    // offsets
    std::vector<TensorGradient> tensors;  // of a unit whose gradients come apart, instead
  };
  struct UnitState {
    Operand weights;                        // whole; count 0: not gathered
    std::vector<WholeGradients> gradients;  // by micro-batch when transient, else one
    bool transient =
        false;  // whole gradients live for one micro-batch, and are reduced into what is kept
    bool kept_filled = false;  // the kept gradients hold earlier micro-batches
    // Other frameworks' sharded units: backward makes 16-bit gradients, a tensor each, which are
    // copied into the reduction's input or, where it waits for the last micro-batch, added up.
    bool apart = false;
    Operand unreduced;  // the sum of micro-batches that wait; count 0: none
  };

  [[nodiscard]] WholeGradients& whole_gradients(std::uint32_t unit);
  [[nodiscard]] bool is_own() const;
  // Weights in the compute type, a shard a rank: what is frozen, and what has its masters on the
  // host.
  [[nodiscard]] bool is_kept_as_gathered(std::uint32_t unit) const;
  [[nodiscard]] UnitCopies copies_of(std::uint32_t unit) const;
  [[nodiscard]] Bytes bytes_of(double each, std::uint32_t unit) const;

  [[nodiscard]] Operand reduced_buffer(std::string_view name, std::uint32_t unit);
  [[nodiscard]] const StateStorage& storage(std::uint32_t unit, State state) const;
  void gather(std::uint32_t unit);
  [[nodiscard]] std::vector<LetGo> let_go() const;
  [[nodiscard]] std::size_t visits_ahead() const;
  [[nodiscard]] std::uint32_t issue_of(std::size_t start) const;
  void wait_for_second_last_visit();
  void wait_for_earlier_visits();
  GradientTarget tensor_gradient(const Slot& slot);
  Operand reduction_input(std::uint32_t unit);
  void keep_unreduced(std::uint32_t unit);
  void reduce_apart(std::uint32_t unit, bool last_micro_batch);
  void note_reduction(std::uint32_t unit, OpId op);
  void zero_padding(std::uint32_t unit, const Operand& whole);
  void finish_gradient(std::uint32_t unit, bool last_micro_batch);
  void sum_over_tensor(std::uint32_t unit, const Operand& whole);
  void reduce_whole(std::uint32_t unit);
  void reduce_transient(std::uint32_t unit);
  void reduce_replicas(std::uint32_t unit, Stream stream);
  void count_gradient_visits(const std::vector<Action>& actions);

  const Job& job_;
  const Plan& plan_;
  const Shape& shape_;
  const Groups& groups_;
  const StepProgram& step_;
  const StageParameters& stage_;
  const HeldMemory& held_;
  const std::vector<Action>& actions_;
  const std::vector<Visit>& visits_;
  ProgramBuilder& builder_;
  Program& program_;
  RunSharding run_;
  bool gathers_units_;  // when they are visited
  Stream gather_stream_;

  std::vector<UnitState> units_;
  std::map<std::pair<std::uint32_t, std::int64_t>, Operand> narrow_scales_;  // by unit and offset
  std::vector<GatherSpan> spans_;
  std::vector<std::uint32_t> starts_;  // visits at which spans begin
  std::size_t ahead_ = 0;              // starts
  std::size_t next_start_ = 0, next_span_ = 0, next_reduction_ = 0;
  std::uint32_t visit_ = 0;
  std::vector<std::vector<std::int32_t>>
      remaining_;                              // gradient visits to come, by unit and micro-batch
  std::vector<std::int64_t> remaining_total_;  // and of all micro-batches, by unit
  struct PastReduction {
    OpId op{};
    std::uint32_t visit = 0;
  };
  std::vector<PastReduction> reductions_;  // in order: the rate limit of transient gradients
  std::vector<std::uint32_t> unreduced_;   // units whose reduction waits for the end of the step
};

}  // namespace trireme::planner::lowering
