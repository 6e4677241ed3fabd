#include "planner/cost/own_parts.h"

#include <algorithm>
#include <initializer_list>

#include "planner/cost/adapters.h"
#include "planner/cost/in_flight.h"
#include "planner/plan/moved_offload.h"
#include "planner/plan/narrow.h"
#include "planner/plan/stages.h"

namespace trireme::planner::own {
Tensors tensors_of(const Job& job, const Shape& s) {
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
  // Exchanged heads leave attention's output twice: of this rank's heads, and of its tokens.
  t.attention = (s.exchanges_heads ? 2 : 1) * tokens * as_double(s.attention) * kCompute;
  t.statistics = tokens * as_double(s.heads) * kMaster;
  t.up = tokens * as_double(s.up) * kCompute;
  t.activation = tokens * as_double(s.ffn) * kCompute;
  t.logits = tokens * as_double(s.vocabulary_rows) * kCompute;
  t.loss_rows = 3 * tokens * kMaster;  // maximum and two sums
  return t;
}

Units units_of(const Job& job, const Shape& s) {
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

Units trained_units(const Job& job, const Shape& shape, const Units& units) {
  if (job.training.has_adapters()) {
    const ParameterSplit split{.tensor = shape.tensor, .expert = 1, .expert_tensor = shape.tensor};
    return {adapter_elements(job, split).dense_layer, 0, 0, 0};
  }
  if (job.training.frozen_layers > 0) {  // the embedding with them, and a head that shares it
    return {units.layer, 0, units.head, 0};
  }
  return units;
}

Reads reads_of(const Job& job, const Shape& s) {
  const Training& training = job.training;
  Reads reads;
  reads.head_input = training.frozen_layers == 0 || !job.model.tied_embeddings;
  if (!training.has_adapters()) {
    return reads;
  }
  const unsigned up = job.model.gated_mlp ? kTargetGate | kTargetUp : kTargetUp;
  reads.head_input = false;
  reads.qkv_input = (training.targets & (kTargetQuery | kTargetKey | kTargetValue)) != 0;
  reads.up_input = (training.targets & up) != 0;
  reads.activation = (training.targets & kTargetDown) != 0;
  const double adapters = (reads.qkv_input ? 1 : 0) + (reads.up_input ? 1 : 0) +
                          (reads.activation ? 1 : 0) +
                          ((training.targets & kTargetOutput) != 0 ? 1 : 0);
  reads.low = adapters * kCompute * as_double(s.tokens * training.rank);
  return reads;
}

namespace {

// Of a backward of the MLP in 8 bits: the gradients' codes and their transposes, which stay until
// the weight's gradient, and the weights' transposes. `again`: the second product's input, gathered
// once more; `activation`: what is kept of it, in 16 bits or as codes.
double narrow_peak(const Job& job, const Plan& plan, const Tensors& t, double activation,
                   double again) {
  const double codes = kept_codes(job, plan).down ? 0 : t.activation / 2;
  const Shape s = shape_of(job, plan);
  const double down = as_double(s.ffn * s.hidden);
  const double up = as_double(s.up * s.hidden);
  return again + std::max({t.gathered + t.all, t.all + down + t.activation,
                           t.all / 2 + codes + t.activation, t.up + t.activation - activation,
                           up + t.all - activation, t.all + t.scattered - t.up / 2 - activation});
}

}  // namespace

LayerBytes layer_bytes(const Job& job, const Plan& plan, const Tensors& t, const Reads& reads) {
  // Under sequence parallelism a layer keeps its own tokens of each product's input, or all when
  // they are not gathered again.
  const double input =
      t.gathered > 0 && !job.framework.regather_in_backward ? t.gathered : t.stream;
  const KeptCodes codes = kept_codes(job, plan);
  const double as_codes = bytes_of_code(job) / kCompute;
  const double inputs = (reads.qkv_input ? input : 0) * (codes.qkv ? as_codes : 1) +
                        (reads.up_input ? input : 0) * (codes.up ? as_codes : 1);
  const double activation = (reads.activation ? t.activation : 0) * (codes.down ? as_codes : 1);
  LayerBytes bytes;
  bytes.whole = 2 * t.stream + inputs + 2 * t.norm + t.qkv + t.attention + t.statistics + t.up +
                activation + reads.low;
  bytes.kept = bytes.whole;
  const auto recomputes = [&](int module) {
    return plan.recompute == Recompute::kSelective && (plan.recompute_modules & module) != 0;
  };
  if (recomputes(kLayerNorm | kTorchPerOp)) {
    bytes.kept -= inputs + 2 * t.norm;
  }
  if (recomputes(kCoreAttention)) {
    bytes.kept -= t.attention + t.statistics;
  }
  if (recomputes(kMlp | kTorchPerOp)) {
    bytes.kept -= t.up + activation;
    // What is repeated reads the norm's output, where that is not repeated too.
    const bool norms = recomputes(kLayerNorm | kTorchPerOp);
    bytes.kept += reads.up_input || norms ? 0 : input;
  }
  // The three steps of the MLP's backward: input gradient of the second product, of the activation,
  // of the first. What the second one reads is over by then, where it was kept.
  const double again = input == t.gathered || !reads.up_input ? 0 : t.gathered;
  bytes.peak =
      std::max({t.gathered + again + t.activation, again + t.up + t.activation - activation,
                again + t.all + t.scattered - activation});
  const bool narrow = multiplies_narrow(job);
  if (narrow) {
    bytes.peak = narrow_peak(job, plan, t, activation, again);
  }
  const double product = t.gathered > 0 ? t.stream + t.gathered : t.stream;
  bytes.forward = std::max({product + t.qkv, t.qkv + t.attention + t.statistics,
                            t.attention + t.all + t.scattered, product + t.up, t.up + t.activation,
                            t.activation + t.all + t.scattered});
  if (job.training.has_adapters()) {
    return bytes;  // their gradients wait for nothing
  }
  const double out = t.gathered > 0 ? t.gathered : t.stream;
  const double plain_qkv = job.model.qk_norm ? (t.qkv) / 2 : t.qkv;
  const double gradients = 2 * out + t.up + plain_qkv;
  bytes.waiting = (narrow ? gradients / 2 : gradients) + activation + inputs + t.attention;
  return bytes;
}

double kept_layers(const Plan& plan, const LayerBytes& layer, const Tensors& t, double layers,
                   double frozen) {
  if (plan.recompute != Recompute::kFull) {
    return layers * layer.kept;
  }
  const double again = plan.recompute_layers < 0
                           ? layers
                           : std::clamp(as_double(plan.recompute_layers) - frozen, 0.0, layers);
  return again * t.stream + (layers - again) * layer.whole;
}

namespace {

// In a V none waits for its weight gradients at the fullest moment; many do when no forward is to
// come, which is the fuller one where what backward repeats weighs more than what it starts from.
Held held_in_v(const Plan& plan, const std::vector<ChunkKept>& chunks, const LayerBytes& layer,
               std::int64_t rank) {
  const RankInFlight in_flight_here(plan, rank);
  double one = 0, after = 0, part = 1;  // of the last chunk
  double full = 0, late = 0, waiting = 0, whole = 0;
  for (std::int64_t c = 0; c < plan.virtual_pipeline; ++c) {
    const double here = chunks[static_cast<std::size_t>(c)].layers;
    one = chunks[static_cast<std::size_t>(c)].kept;
    after = here * layer.waiting;
    part = 1 / std::max(1.0, here);
    const InFlight at_end = in_flight_here.late(c);
    full += in_flight_here.at(c).whole * one;
    late += at_end.whole * one + at_end.weight_gradient * after;
    waiting += at_end.weight_gradient;
    whole += at_end.whole;
  }
  const double turning = (after - one) * (1 - part);
  Held stage;
  if (splits_every_backward(plan.schedule)) {
    late -= whole > 0 ? 0 : turning + after * part;  // else the next one turns
    stage.kept = std::max(full, late);
    stage.turned = turning;
    stage.waiting = late > full ? waiting : 0;
  } else {  // its first split backwards come before its last forward ahead, the last one turns
    stage.first_split = full - one + std::max(0.0, turning);
    stage.kept = std::max({full, stage.first_split, late - after * part});
  }
  return stage;
}

// `split`: every backward is.
Held held_in_turn(const Plan& plan, const std::vector<ChunkKept>& chunks, const LayerBytes& layer,
                  bool split, std::int64_t rank) {
  const RankInFlight in_flight_here(plan, rank);
  Held stage;
  std::int64_t place = 0;
  for (const auto& [here, one] : chunks) {
    const InFlight held = in_flight_here.at(place++);
    const double flying = held.whole + held.weight_gradient;
    if (split) {
      const double whole = std::min(flying, as_double(plan.pipeline - rank));
      const double after = here * layer.waiting;
      stage.kept += whole * one + (flying - whole) * after;
      stage.turned = (after - one) * (1 - 1 / std::max(1.0, here));
      stage.waiting = flying - whole;
    } else {
      stage.kept += flying * one;
    }
  }
  return stage;
}

}  // namespace

void keep_chunks(const Plan& plan, const std::vector<ChunkLayers>& split, const Tensors& t,
                 const LayerBytes& layer, std::int64_t rank, std::vector<ChunkKept>& chunks) {
  chunks.clear();
  for (std::int64_t c = 0; c < plan.virtual_pipeline; ++c) {
    const ChunkLayers& chunk = split[static_cast<std::size_t>(chunk_of_rank(plan, rank, c))];
    const double frozen = chunk.frozen_dense + chunk.frozen_sparse;
    chunks.push_back({chunk.trained(), kept_layers(plan, layer, t, chunk.trained(), frozen)});
  }
}

void hold_ranks(const Plan& plan, const std::vector<ChunkKept>& chunks, const LayerBytes& layer,
                std::int64_t first, std::int64_t end, std::vector<Held>& held) {
  const bool in_v = is_in_v(plan.schedule) && plan.pipeline > 1;
  const bool split = splits_every_backward(plan.schedule) && plan.pipeline > 1;
  for (std::int64_t rank = first; rank < end; ++rank) {
    held.push_back(in_v ? held_in_v(plan, chunks, layer, rank)
                        : held_in_turn(plan, chunks, layer, split, rank));
  }
}

Stage stage_of(const Plan& plan, const std::vector<ChunkLayers>& split, const Units& units,
               const Units& trained, std::int64_t rank) {
  Stage stage;
  stage.units = units;
  stage.trained = trained;
  for (std::int64_t c = 0; c < plan.virtual_pipeline; ++c) {
    const ChunkLayers& chunk = split[static_cast<std::size_t>(chunk_of_rank(plan, rank, c))];
    const double here = chunk.trained();
    stage.last_chunk_layers = here > 0 ? here : stage.last_chunk_layers;
    stage.layers += chunk.dense + chunk.sparse;
    stage.trained_layers += here;
    stage.embedding = stage.embedding || chunk.embedding;
    stage.head = stage.head || chunk.head;
  }
  if (stage.head && !stage.embedding) {
    stage.units.head += stage.units.tied_table;
    stage.trained.head += stage.trained.tied_table;
  }
  const auto ends = [&](const Units& of) {
    return (stage.embedding ? of.embedding : 0) + (stage.head ? of.head : 0);
  };
  stage.trained_elements = stage.trained_layers * trained.layer + ends(stage.trained);
  stage.elements = stage.layers * units.layer + ends(stage.units);
  if (trained.layer != units.layer) {  // adapters are beside the layers
    stage.elements += stage.trained_elements;
    stage.units.layer += trained.layer;
  }
  return stage;
}

double shards_of(const Plan& plan) {
  return plan.sharding == Sharding::kNone ? 1 : as_double(plan.sharded);
}

double streamed_bytes(const Plan& plan, const Stage& stage) {
  const Units& units = stage.trained;
  const double ends = (stage.embedding ? units.embedding : 0) + (stage.head ? units.head : 0);
  const double together = plan.sharding != Sharding::kFull ? 1
                          : plan.fsdp_unit > 0             ? as_double(plan.fsdp_unit)
                                                           : stage.last_chunk_layers;
  const double layers = std::min(stage.trained_layers, together);
  const double largest = std::max({ends, layers * units.layer, units.tied_table});
  return kStreamedPlaces * kStates * kMaster *
         std::min(largest / shards_of(plan), as_double(kStreamedElements));
}

void add_states(const Plan& plan, bool streams, const Stage& stage, MemoryItems& items) {
  const double shards = shards_of(plan);
  const double gathered = stage.elements - (streams ? 0 : stage.trained_elements);
  items.parameters =
      kCompute * (plan.sharding == Sharding::kFull ? gathered / shards : stage.elements);
  items.gradients = kept_gradient(plan, stage.trained_elements);
  items.optimizer = streams ? 0 : kStates * kMaster * stage.trained_elements / shards;
}

MemoryItems in_streamed_update(const Plan& plan, const Stage& stage, const MemoryItems& states) {
  MemoryItems items = states;
  items.gradients = kept_gradient(plan, stage.trained_elements);
  items.optimizer += streamed_bytes(plan, stage);
  return items;
}

double kept_gradient(const Plan& plan, double elements) {
  const bool whole = plan.sharding == Sharding::kNone || plan.sharding == Sharding::kOptimizer;
  return kMaster * elements / (whole ? 1 : as_double(plan.sharded));
}

Whole whole_of(const Job& job, const Plan& plan, const Stage& stage) {
  Whole whole;
  const bool shards_gradients = plan.sharded > 1 && (plan.sharding == Sharding::kGradients ||
                                                     plan.sharding == Sharding::kFull);
  const double per_unit = plan.sharding != Sharding::kFull ? 1
                          : plan.fsdp_unit > 0             ? as_double(plan.fsdp_unit)
                                                           : stage.last_chunk_layers;
  const double last = stage.trained_layers > 0 ? stage.last_chunk_layers : stage.layers;
  const double layers = std::min(per_unit, last);
  // Over one rank what is frozen is kept as it is used.
  const double element = plan.sharded > 1 ? stage.units.layer : stage.trained.layer;
  const double unit = layers * element;
  const double head = stage.trained.head + (stage.embedding ? stage.trained.tied_table : 0);
  // A shared table is a unit of its own, over when the head's gradient begins; an own one waits for
  // the final norm beside it. One that is frozen has none, and the input's gradient reads it.
  const double table =
      stage.trained.tied_table > 0 || plan.sharded <= 1 ? 0 : stage.units.tied_table;
  const double beside = !stage.head ? 0 : stage.units.tied_table == 0 ? stage.units.head : table;
  if (shards_gradients || (job.framework.reduce_every_micro_batch && plan.data_parallel() > 1)) {
    whole.layer_gradient = kMaster * layers * stage.trained.layer;
    whole.head_gradient = stage.head ? kMaster * head : 0;
    whole.embedding_gradient = stage.embedding ? kMaster * stage.trained.embedding : 0;
  }
  if (plan.sharding != Sharding::kFull) {
    return whole;
  }
  const bool reshard = plan.reshard_after_forward && job.framework.reshard_after_forward;
  whole.stays = !reshard;
  const double ahead = whole.ahead = std::max(0, job.framework.prefetch_units);
  const double units = std::max(1.0, last * element / std::max(1.0, unit));
  if (!reshard && stage.trained_layers > 0) {
    // The embedding's backward reads no weights: its copy ends with the forward, or with the head
    // that shares it.
    whole.layer_parameters = kCompute * stage.trained_layers * element;
    // Others than the last micro-batch leave a shared table for the next one's embedding.
    const bool shared = stage.embedding && stage.head && plan.micro_batches > 1 &&
                        (plan.sharded > 1 || stage.trained.tied_table > 0);
    whole.head_parameters = whole.layer_parameters +
                            kCompute * (shared ? std::max(beside, stage.units.tied_table) : beside);
    return whole;
  }
  const bool goes_on = stage.embedding && stage.trained.embedding > 0;
  const double next = ahead > 0 && units < 2 && goes_on ? stage.units.embedding : 0;
  // Of chunks in turn the next unit is another chunk's, however few this one has.
  const double together = plan.virtual_pipeline > 1 ? 1 + ahead : std::min(units, 1 + ahead);
  whole.next_embedding = kCompute * next;
  whole.layer_parameters = kCompute * unit * together + whole.next_embedding;
  whole.head_parameters = kCompute * (beside + unit * std::min(units, ahead));
  return whole;
}

}  // namespace trireme::planner::own
