// Seconds of one micro-batch through one layer, the embedding and the head on one rank: kernels,
// host and the collectives inside a layer, before pipeline and data parallelism. Work comes from
// models/work.h, kernel times from topologies/op_cost.h.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/cost/behaviour_fit.h"
#include "planner/cost/collectives.h"
#include "planner/cost/flat_map.h"
#include "planner/plan/host_counts.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "topologies/op_cost.h"

namespace trireme::planner {

// One direction. `kernels` is GPU time; the collectives are what is left exposed beside it;
// `hidden` what is not.
struct PassTimes {
  double kernels = 0;
  double tensor = 0, context = 0, expert = 0;
  double hidden = 0;  // communication beside kernels
  double host = 0;    // time to issue it all
  [[nodiscard]] double gpu() const { return kernels + tensor + context + expert; }
  PassTimes& operator+=(const PassTimes& other) {
    kernels += other.kernels;
    tensor += other.tensor;
    context += other.context;
    expert += other.expert;
    hidden += other.hidden;
    host += other.host;
    return *this;
  }
};

// Whether input and weight gradients are apart (zero-bubble schedules).
bool splits_backward(const Plan& plan);
// Whether every rank's last passes are weight gradients, so that all ranks end together.
bool ends_with_weights(const Plan& plan);
// What casts in 8 bits depend on (narrow_casts.h) and nothing else of a layer does.
std::int64_t casts_key(const Job& job, const Plan& plan);

struct LayerTimes {
  PassTimes forward;
  PassTimes input_gradient;  // whole backward without the weight gradient's kernels
  double weight_gradient = 0;
  double weight_host = 0;    // of input_gradient.host: the weight gradients
  double kernels_host = 0;   // of input_gradient.host: without what collectives add
  double weight_tensor = 0;  // of input_gradient.tensor: with the weight gradients when split off
  PassTimes
      recompute;  // what the plan's recompute mode repeats of this layer when it recomputes it
  double forward_flop = 0;  // computed, half of causal scores
  double recompute_flop = 0;
};

// All that a plan's (tensor, context, expert, micro-batch, sequence-parallel, recompute) fixes.
struct LayerSet {
  std::vector<LayerTimes> kinds;  // one a layer kind: see LayerKinds
  LayerTimes embedding, head;
};

// Layers that do the same work are one kind.
struct LayerKinds {
  std::vector<std::int64_t> first_layer;  // a layer of each kind
  std::vector<std::vector<std::int64_t>>
      up_to;  // up_to[kind][l]: layers of the kind before layer l
  std::vector<double> dense_parameters, expert_parameters;  // of one layer, whole
};
LayerKinds layer_kinds(const Job& job);

class LayerTimer {
 public:
  LayerTimer(const Job& job, const BehaviourFit& fit, Collectives& collectives);
  LayerSet measure(const Plan& plan, const LayerKinds& kinds);

 private:
  // A layer without collectives and recompute, which plans of any recompute, schedule and placement
  // share.
  struct Bare {
    models::LayerWork work;
    LayerTimes times;
    double forward_products = 0;  // seconds of the matrix products
    // Of their backward, by half of the layer: what a tensor collective runs beside.
    struct Beside {
      double column_input = 0, column_weight = 0;  // of the column-parallel products
      double other_weight = 0;
    };
    std::array<Beside, 3> beside = {};  // by models::Half
  };
  struct BareSet {
    std::vector<Bare> kinds;
    LayerTimes embedding;
    Bare head;
  };
  const BareSet& bare_set(const Plan& plan, const LayerKinds& kinds);
  [[nodiscard]] Bare bare(models::LayerWork work, double attention) const;
  [[nodiscard]] double product(const models::Matmul& matmul, bool weight_gradient) const;
  [[nodiscard]] double products(const std::vector<models::Matmul>& matmuls,
                                bool weight_gradient = false) const;
  [[nodiscard]] double core_attention(const models::PassWork& work, topologies::Pass pass,
                                      double share) const;
  [[nodiscard]] double passes(const models::PassWork& work) const;
  [[nodiscard]] double host(const models::PassWork& work, bool backward) const;
  [[nodiscard]] LayerTimes time_of(const models::LayerWork& work, double attention) const;
  void add_tensor(const Plan& plan, const Bare& bare, bool moe, LayerTimes& times) const;
  void add_context(const Plan& plan, std::int64_t layer, const models::LayerWork& work,
                   LayerTimes& times) const;
  void exchange_heads(const Plan& plan, LayerTimes& times) const;
  // Whether this project's kernels run the layer's attention of shared sequences, with keys
  // gathered or passed on; and what that takes beside one attention of the same work, `whole`.
  [[nodiscard]] bool shares_attention(const Plan& plan, std::int64_t layer) const;
  [[nodiscard]] PassTimes shared_attention(const Plan& plan, const models::PassWork& whole,
                                           bool backward) const;
  [[nodiscard]] PassTimes gathered_attention(const Plan& plan, bool backward) const;
  [[nodiscard]] PassTimes ring_attention(const Plan& plan, const models::PassWork& whole,
                                         bool backward) const;
  [[nodiscard]] double ring_step(const Plan& plan, bool own, topologies::Pass pass) const;
  // Of one direction: tokens leave and come back, and are gathered and summed over the ranks that
  // share an expert. Whether this project's runtime does that, or a program that is only modelled.
  struct ExpertExchanges {
    double there = 0, back = 0, gather = 0, scatter = 0;
    bool of_runtime = false;
  };
  [[nodiscard]] ExpertExchanges expert_exchanges(const Plan& plan, std::int64_t layer) const;
  // Of this project's experts that every token visits: collectives over tensor ranks, products, and
  // what lies beside an exchange; of routed experts their weight gradients.
  struct SharedExperts {
    double gather = 0, scatter = 0;
    double input_gradients = 0, weights = 0;
    double forward = 0, backward = 0;
    double routed_weights = 0;
  };
  [[nodiscard]] SharedExperts shared_experts(const Plan& plan, const Bare& bare) const;
  void add_expert(const Plan& plan, std::int64_t layer, const Bare& bare, LayerTimes& times) const;
  void overlap_exchanges(double steady, LayerTimes& times) const;
  [[nodiscard]] double moved_keys(const Plan& plan) const;
  [[nodiscard]] double torch_steps(const Plan& plan, const models::PassWork& work,
                                   topologies::Pass pass) const;
  [[nodiscard]] double beside(double communication, double compute, PassTimes& pass) const;
  void add_sequence_tensor(const Plan& plan, const Bare& bare, bool moe, LayerTimes& times) const;
  [[nodiscard]] double input_share(models::Half half) const;
  void add_head_collectives(const Plan& plan, const Bare& bare, LayerTimes& embedding,
                            LayerTimes& head) const;
  void add_packed_samples(const Plan& plan, LayerTimes& times) const;
  void set_recompute(const Plan& plan, std::int64_t layer, const models::LayerWork& work,
                     LayerTimes& times) const;

  const Job& job_;
  const BehaviourFit& fit_;
  Collectives& collectives_;
  topologies::OpCost op_;
  bool portable_attention_;
  const HostCounts* counts_;   // nothing: kernels are counted
  bool fp32_experts_ = false;  // of the plan that is timed
  struct BareKey {
    std::int64_t tensor = 1, context = 1, expert = 1, expert_tensor = 0, micro_batch = 1;
    std::int64_t sequence_parallel = 0, fp32_experts = 0, kept_codes = 0;
    friend bool operator==(const BareKey&, const BareKey&) = default;
  };
  FlatMap<BareKey, BareSet> bare_;
  // Layers cut otherwise, and what a layer repeats, have many products in common.
  struct ProductKey {
    std::int64_t m = 0, n = 0, k = 0, count = 1, width = 0, weight_gradient = 0;
    friend bool operator==(const ProductKey&, const ProductKey&) = default;
  };
  mutable FlatMap<ProductKey, double> products_;  // seconds
};

}  // namespace trireme::planner
