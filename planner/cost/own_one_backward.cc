#include "planner/cost/own_one_backward.h"

#include <algorithm>
#include <cmath>

namespace trireme::planner::own {
namespace {

class OneBackward {
 public:
  explicit OneBackward(const OneBackwardParts& parts)
      : plan_(parts.plan),
        stage_(parts.stage),
        held_(parts.kept),
        t_(parts.tensors),
        layer_(parts.layer),
        whole_(parts.whole) {
    const Plan& plan = parts.plan;
    const Stage& stage = parts.stage;
    layers_per_unit_ = plan.sharding != Sharding::kFull ? 1
                       : plan.fsdp_unit > 0             ? static_cast<double>(plan.fsdp_unit)
                                                        : stage.trained_layers;
    layers_per_unit_ = std::min(layers_per_unit_, stage.trained_layers);
    units_ = std::ceil(stage.trained_layers / std::max(1.0, layers_per_unit_));
  }

  // Without gradients: `in_head` and `in_layer` of the first backward, `states` of any moment.
  [[nodiscard]] MemoryItems peak(MemoryItems in_head, const MemoryItems& in_layer,
                                 const MemoryItems& states) const {
    in_head.gradients = head();
    MemoryItems worst = in_head;
    const auto consider = [&](const MemoryItems& moment) {
      worst = moment.total() > worst.total() ? moment : worst;
    };
    for (const double unit : {0.0, 1.0, units_ - 2, units_ - 1}) {
      if (unit >= 0 && unit < units_) {
        consider(in_unit(unit, in_layer));
      }
    }
    if (stage_.trained.embedding == 0) {
      return worst;
    }
    MemoryItems in_embedding = states;
    in_embedding.activations = t_.stream + t_.gathered;
    in_embedding.gathered_parameters =
        plan_.sharding == Sharding::kFull && !whole_.stays ? kCompute * stage_.units.embedding : 0;
    const double table = stage_.units.embedding;
    in_embedding.gradients = kept(stage_.elements - (transient() ? table : 0)) +
                             (transient() ? kMaster * (table + trained_of(units_ - 1)) : 0);
    consider(in_embedding);
    MemoryItems in_last_reduction = in_embedding;
    in_last_reduction.activations = 0;
    in_last_reduction.gradients += transient() ? kept(table) : 0;
    consider(in_last_reduction);
    return worst;
  }

 private:
  [[nodiscard]] bool transient() const { return whole_.layer_gradient > 0; }
  [[nodiscard]] double kept(double elements) const { return kept_gradient(plan_, elements); }
  // Elements of the unit `unit` units below the top, and layers above it.
  [[nodiscard]] double layers_above(double unit) const {
    const double top = stage_.trained_layers - (units_ - 1) * layers_per_unit_;
    return unit > 0 ? top + (unit - 1) * layers_per_unit_ : 0;
  }
  [[nodiscard]] double layers_of(double unit) const {
    return layers_above(unit + 1) - layers_above(unit);
  }
  [[nodiscard]] double trained_of(double unit) const {
    return layers_of(unit) * stage_.trained.layer;
  }

  // Of the head's backward: its own and the table it shares.
  [[nodiscard]] double head() const {
    return transient() ? whole_.head_gradient
                       : kept(stage_.trained.head + stage_.trained.tied_table);
  }

  [[nodiscard]] MemoryItems in_unit(double unit, MemoryItems moment) const {
    const double above = layers_above(unit);
    moment.activations += kept_layers(plan_, layer_, t_, stage_.trained_layers - above,
                                      stage_.layers - stage_.trained_layers) -
                          held_;
    if (whole_.stays) {
      moment.gathered_parameters -= kCompute * above * stage_.units.layer;
    } else if (unit + 1 == units_ && plan_.sharding == Sharding::kFull) {
      moment.gathered_parameters =
          kCompute *
          (layers_of(unit) * stage_.units.layer +
           (whole_.ahead > 0 && stage_.trained.embedding > 0 ? stage_.units.embedding : 0));
    }
    const double table = stage_.trained.tied_table;
    moment.gradients = kept(stage_.trained.head + above * stage_.trained.layer);
    moment.gradients += transient() ? kMaster * (trained_of(unit) + table) : kept(table);
    if (!transient()) {
      moment.gradients += kept(trained_of(unit));
    } else {  // the unit before is still being reduced
      moment.gradients += kMaster * (unit > 0 ? trained_of(unit - 1) : stage_.trained.head);
    }
    return moment;
  }

  const Plan& plan_;
  const Stage& stage_;
  double held_;  // by all micro-batches in flight
  const Tensors& t_;
  const LayerBytes& layer_;
  const Whole& whole_;
  double layers_per_unit_ = 1, units_ = 1;
};

}  // namespace

MemoryItems worst_of_one_backward(const OneBackwardParts& parts, MemoryItems in_head,
                                  const MemoryItems& in_layer, const MemoryItems& states) {
  return OneBackward(parts).peak(in_head, in_layer, states);
}

}  // namespace trireme::planner::own
