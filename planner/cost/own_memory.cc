#include "planner/cost/own_memory.h"

#include <algorithm>
#include <initializer_list>

#include "core/units.h"
#include "planner/cost/in_flight.h"
#include "planner/cost/pipeline_time.h"
#include "planner/lower/shape.h"
#include "planner/stages.h"

namespace trireme::planner {

namespace {

constexpr double kCompute = 2;  // bytes of an element: bf16
constexpr double kMaster = 4;

double as_double(std::int64_t value) {
  return static_cast<double>(value);
}

// Bytes of the tensors of one micro-batch on one rank; names as in lower/layer_forward.cc.
struct Tensors {
  double stream = 0;    // residual stream, the own tokens
  double all = 0;       // of all tokens of the tensor group
  double gathered = 0;  // `all` under sequence parallelism, else nothing: a copy that only it needs
  double scattered = 0;  // `stream` under sequence parallelism, else nothing
  double norm = 0;       // one norm's statistics
  double qkv = 0, attention = 0, statistics = 0, up = 0, activation = 0;
  double logits = 0, loss_rows = 0;
};

Tensors tensors_of(const Job& job, const lowering::Shape& s) {
  const double tokens = as_double(s.tokens);
  Tensors t;
  t.stream = as_double(s.local_tokens * s.hidden) * kCompute;
  t.all = as_double(s.tokens * s.hidden) * kCompute;
  t.gathered = s.sequence_parallel ? t.all : 0;
  t.scattered = s.sequence_parallel ? t.stream : 0;
  const double parts = job.model.norm == models::Norm::kLayerNorm ? 2 : 1;
  t.norm = as_double(s.local_tokens) * kMaster * parts;
  t.qkv = tokens * as_double(s.qkv) * kCompute;
  if (job.model.qk_norm) {  // before and after the norms of heads
    t.qkv = 2 * t.qkv + tokens * as_double(s.heads + s.kv_heads) * kMaster;
  }
  t.attention = tokens * as_double(s.attention) * kCompute;
  t.statistics = tokens * as_double(s.heads) * kMaster;
  t.up = tokens * as_double(s.up) * kCompute;
  t.activation = tokens * as_double(s.ffn) * kCompute;
  t.logits = tokens * as_double(s.vocabulary_rows) * kCompute;
  t.loss_rows = 3 * tokens * kMaster;  // maximum and two sums
  return t;
}

// What one layer keeps from forward to backward, and the whole of what its backward reads.
struct LayerBytes {
  double whole = 0, kept = 0;
  double waiting = 0;  // between the halves of a split backward
  double peak =
      0;  // most of its backward's own buffers, over `whole` and the gradient that comes in
};

LayerBytes layer_bytes(const Job& job, const Plan& plan, const Tensors& t) {
  // Under sequence parallelism a layer keeps its own tokens of each product's input, or all when
  // they are not gathered again.
  const double input =
      t.gathered > 0 && !job.framework.regather_in_backward ? t.gathered : t.stream;
  LayerBytes bytes;
  bytes.whole = 2 * t.stream + 2 * input + 2 * t.norm + t.qkv + t.attention + t.statistics + t.up +
                t.activation;
  bytes.kept = bytes.whole;
  const auto recomputes = [&](int module) {
    return plan.recompute == Recompute::kSelective && (plan.recompute_modules & module) != 0;
  };
  if (recomputes(kLayerNorm | kTorchPerOp)) {
    bytes.kept -= 2 * input + 2 * t.norm;
  }
  if (recomputes(kCoreAttention)) {
    bytes.kept -= t.attention + t.statistics;
  }
  if (recomputes(kMlp | kTorchPerOp)) {
    bytes.kept -= t.up + t.activation;
  }
  // The three steps of the MLP's backward: input gradient of the second product, of the activation,
  // of the first.
  const double again = input == t.gathered ? 0 : t.gathered;
  bytes.peak = std::max({t.gathered + again + t.activation, again + t.up,
                         again + t.all + t.scattered - t.activation});
  const double out = t.gathered > 0 ? t.gathered : t.stream;
  const double plain_qkv = job.model.qk_norm ? (t.qkv) / 2 : t.qkv;
  bytes.waiting = 2 * out + t.up + plain_qkv + t.activation + 2 * input + t.attention;
  return bytes;
}

// Parameters of a stage in the units that lower/parameters.cc makes. Elements on this rank.
struct Units {
  double layer = 0, embedding = 0, head = 0;  // without padding
  double tied_table = 0;                      // a unit of its own, on an end that does not own it
};

Units units_of(const Job& job, const lowering::Shape& s) {
  const models::Transformer& m = job.model;
  const std::int64_t h = m.hidden;
  std::int64_t layer = s.qkv * h + s.attention * h + s.up * h + s.ffn * h;
  layer += m.qkv_bias ? s.qkv : 0;
  layer += m.mlp_bias ? s.up + h : 0;
  layer += m.attention_output_bias ? h : 0;
  layer += m.qk_norm ? 2 * m.head_dim : 0;
  const std::int64_t norm = m.norm == models::Norm::kLayerNorm ? 2 * h : h;
  layer += 2 * norm;
  const std::int64_t positions =
      m.position == models::Position::kLearned ? std::max(m.position_rows, job.sequence) * h : 0;
  Units units;
  units.layer = as_double(layer);
  units.embedding = as_double(s.vocabulary_rows * h + positions);
  units.head =
      as_double((m.tied_embeddings ? 0 : s.vocabulary_rows * h) + (m.final_norm ? norm : 0));
  units.tied_table = m.tied_embeddings ? as_double(s.vocabulary_rows * h) : 0;
  return units;
}

struct Stage {
  double layers = 0, last_chunk_layers = 0;
  bool embedding = false, head = false;
  double elements = 0;
  double kept = 0;     // of all micro-batches in flight
  double turned = 0;   // what a split backward adds to `kept` by its end, for one micro-batch
  double waiting = 0;  // micro-batches between the halves of a split backward
  Units units;
};

double kept_layers(const Plan& plan, const LayerBytes& layer, const Tensors& t, double layers) {
  if (plan.recompute != Recompute::kFull) {
    return layers * layer.kept;
  }
  const double again =
      plan.recompute_layers < 0 ? layers : std::min(layers, as_double(plan.recompute_layers));
  return again * t.stream + (layers - again) * layer.whole;
}

Stage stage_of(const Job& job, const Plan& plan, const lowering::Shape& shape, const Tensors& t,
               const LayerBytes& layer, std::int64_t rank) {
  Stage stage;
  stage.units = units_of(job, shape);
  const std::vector<Chunk> chunks = chunks_of(job, plan);
  for (std::int64_t c = 0; c < plan.virtual_pipeline; ++c) {
    const Chunk& chunk = chunks[static_cast<std::size_t>(c * plan.pipeline + rank)];
    stage.last_chunk_layers = as_double(chunk.last - chunk.first);
    stage.layers += stage.last_chunk_layers;
    stage.embedding = stage.embedding || chunk.embedding;
    stage.head = stage.head || chunk.head;
    const InFlight held = in_flight(plan, rank, c);
    const double flying = held.whole + held.weight_gradient;
    if (plan.schedule == Schedule::kZeroBubbleH1 && plan.pipeline > 1) {
      const double whole = std::min(flying, as_double(plan.pipeline - rank));
      const double one = kept_layers(plan, layer, t, stage.last_chunk_layers);
      const double after = stage.last_chunk_layers * layer.waiting;
      stage.kept += whole * one + (flying - whole) * after;
      stage.turned = (after - one) * (1 - 1 / std::max(1.0, stage.last_chunk_layers));
      stage.waiting = flying - whole;
    } else {
      stage.kept += flying * kept_layers(plan, layer, t, stage.last_chunk_layers);
    }
  }
  if (stage.head && !stage.embedding) {
    stage.units.head += stage.units.tied_table;
  }
  stage.elements = stage.layers * stage.units.layer +
                   (stage.embedding ? stage.units.embedding : 0) +
                   (stage.head ? stage.units.head : 0);
  return stage;
}

// Bytes that stay between steps.
void add_states(const Plan& plan, double elements, MemoryItems& items) {
  const double shards = plan.sharding == Sharding::kNone ? 1 : as_double(plan.sharded);
  const bool whole_gradients =
      plan.sharding == Sharding::kNone || plan.sharding == Sharding::kOptimizer;
  items.parameters = plan.sharding == Sharding::kFull ? 0 : kCompute * elements;
  items.gradients = kMaster * elements / (whole_gradients ? 1 : shards);
  items.optimizer = 3 * kMaster * elements / shards;
}

// Buffers of exchanges between stages that are alive in a backward: what the next action starts
// from, already received, and what the action before sent.
double exchange_bytes(const Job& job, const Plan& plan, const Tensors& t, std::int64_t rank) {
  const bool blocking = exchanges_block(job.framework, plan);
  if (plan.pipeline == 1) {
    return 0;
  }
  const bool wraps = plan.virtual_pipeline > 1;
  const double received = (rank > 0 || wraps) && !(blocking && !wraps) ? t.stream : 0;
  const double sent = (rank + 1 < plan.pipeline || wraps) && !blocking ? t.stream : 0;
  // With as many forwards as the warm-up has, no forward follows the first backward.
  const bool forward_follows =
      plan.schedule != Schedule::kGpipe && plan.micro_batches > plan.pipeline - rank;
  return (forward_follows ? received : 0) + sent;
}

// Whole parameters and gradients that sharding makes for a while.
struct Whole {
  double layer_parameters = 0,
         head_parameters = 0;  // gathered while a layer's or the head's backward runs
  double layer_gradient = 0, head_gradient = 0;  // one unit's
};

Whole whole_of(const Job& job, const Plan& plan, const Stage& stage) {
  Whole whole;
  const bool shards_gradients = plan.sharded > 1 && (plan.sharding == Sharding::kGradients ||
                                                     plan.sharding == Sharding::kFull);
  const double per_unit = plan.sharding != Sharding::kFull ? 1
                          : plan.fsdp_unit > 0             ? as_double(plan.fsdp_unit)
                                                           : stage.last_chunk_layers;
  const double unit = std::min(per_unit, stage.last_chunk_layers) * stage.units.layer;
  const double head = stage.units.head + (stage.embedding ? stage.units.tied_table : 0);
  if (shards_gradients || (job.framework.reduce_every_micro_batch && plan.data_parallel() > 1)) {
    whole.layer_gradient = kMaster * unit;
    whole.head_gradient = stage.head ? kMaster * head : 0;
  }
  if (plan.sharding != Sharding::kFull) {
    return whole;
  }
  const bool reshard = plan.reshard_after_forward && job.framework.reshard_after_forward;
  const double ahead = std::max(0, job.framework.prefetch_units);
  const double units =
      std::max(1.0, stage.last_chunk_layers * stage.units.layer / std::max(1.0, unit));
  if (!reshard) {
    whole.layer_parameters = kCompute * (stage.elements - (stage.head ? stage.units.head : 0));
    whole.head_parameters = kCompute * stage.elements;
    return whole;
  }
  const double next = ahead > 0 && units < 2 && stage.embedding ? stage.units.embedding : 0;
  whole.layer_parameters = kCompute * (unit * std::min(units, 1 + ahead) + next);
  whole.head_parameters = kCompute * (head + unit * std::min(units, ahead));
  return whole;
}

}  // namespace

bool counts_own_memory(const Job& job, const Plan& plan) {
  const models::Transformer& m = job.model;
  return job.framework.implementation == models::Implementation::kTrireme && plan.context == 1 &&
         plan.expert == 1 && !m.moe && !m.latent && !m.parallel_block && m.norms_per_layer == 2 &&
         m.position != models::Position::kAlibi && !m.embedding_norm && !m.attention_sinks &&
         (m.embedding_dim == 0 || m.embedding_dim == m.hidden) &&
         plan.schedule != Schedule::kZeroBubbleH2 &&
         job.precision == topologies::Precision::kBf16 && job.optimizer == Optimizer::kAdam &&
         job.attention == models::AttentionKernel::kFlash;
}

StageMemory own_stage_memory(const Job& job, const Plan& plan, std::int64_t rank) {
  const lowering::Shape shape = lowering::shape_of(job, plan);
  const Tensors t = tensors_of(job, shape);
  const LayerBytes layer = layer_bytes(job, plan, t);
  const Stage stage = stage_of(job, plan, shape, t, layer, rank);
  const Whole whole = whole_of(job, plan, stage);
  const double ids = (stage.embedding ? 1 : 0) + (stage.head ? 1 : 0);
  const double inputs = ids * 4 * as_double(plan.micro_batches * shape.tokens);
  MemoryItems states;
  add_states(plan, stage.elements, states);
  states.other = inputs;

  const double unit_layers = plan.sharding != Sharding::kFull ? 1
                             : plan.fsdp_unit > 0             ? as_double(plan.fsdp_unit)
                                                              : stage.last_chunk_layers;
  // A layer's backward: everything in flight, what it repeats, its own buffers and the gradient
  // coming in.
  const bool full = plan.recompute == Recompute::kFull && plan.recompute_layers != 0;
  const double repeated = full ? layer.whole - t.stream : layer.whole - layer.kept;
  MemoryItems in_layer = states;
  in_layer.activations =
      stage.kept + repeated + layer.peak + t.stream + std::max(0.0, stage.turned);
  in_layer.gathered_parameters = whole.layer_parameters;
  in_layer.communication = exchange_bytes(job, plan, t, rank);
  in_layer.gradients += whole.layer_gradient + whole.head_gradient;
  // Between its halves a micro-batch's whole gradients wait too: norms are written by the first,
  // products by the second.
  const bool split = plan.schedule == Schedule::kZeroBubbleH1 && plan.pipeline > 1;
  if (split && whole.layer_gradient > 0) {
    const double per_layer =
        whole.layer_gradient / std::max(1.0, std::min(stage.last_chunk_layers, unit_layers));
    in_layer.gradients += stage.last_chunk_layers * per_layer * (stage.waiting + 1) -
                          whole.layer_gradient + stage.waiting * whole.head_gradient;
  }
  // One unit later the head's gradient is reduced and the first unit's activations are free.
  MemoryItems later = in_layer;
  later.gradients += whole.layer_gradient - whole.head_gradient;
  const double per_unit = unit_layers;
  later.activations -= std::min(stage.last_chunk_layers, per_unit) * (full ? t.stream : layer.kept);
  if (!split && stage.last_chunk_layers > per_unit && later.total() > in_layer.total()) {
    in_layer = later;
  }
  MemoryItems peak = in_layer;
  if (stage.head) {
    // GPipe keeps every micro-batch's logits until its backward.
    // A split backward keeps them, as their gradient, until its second half.
    const double held = plan.schedule == Schedule::kGpipe ? as_double(plan.micro_batches)
                        : split                           ? stage.waiting + 1
                                                          : 1;
    const double norm = job.model.final_norm ? t.stream + t.norm : 0;
    const double one = t.stream + norm + t.loss_rows;
    const double other = split ? held : held - 1;
    peak.activations += other * (split ? t.stream : one);
    peak.logits = other * t.logits;
    MemoryItems in_head = states;
    in_head.activations = stage.kept + held * one + t.all + t.gathered + t.scattered;
    in_head.logits = held * t.logits;
    in_head.gathered_parameters = whole.head_parameters;
    in_head.gradients += whole.head_gradient;
    in_head.communication = exchange_bytes(job, plan, t, rank);
    if (in_head.total() > peak.total()) {
      peak = in_head;
    }
  }
  StageMemory memory;
  memory.phases.load = states.total() / kGiB;
  memory.phases.forward = (states.total() + stage.kept) / kGiB;
  memory.phases.backward = peak.total() / kGiB;
  memory.phases.first_optimizer_step = states.total() / kGiB;
  for (double* item : {&peak.parameters, &peak.gradients, &peak.optimizer, &peak.activations,
                       &peak.gathered_parameters, &peak.logits, &peak.communication, &peak.other}) {
    *item /= kGiB;
  }
  memory.items = peak;
  return memory;
}

}  // namespace trireme::planner
