// Parts of the memory of Trireme's own runtime: what tensors, layers, stages and units hold,
// counted as planner/lower writes them. Elements and bytes of one rank.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/stage_memory.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "planner/plan/shape.h"

namespace trireme::planner::own {

inline constexpr double kCompute = 2;  // bytes of an element: bf16
inline constexpr double kMaster = 4;
inline constexpr double kStates = 3;  // of the optimizer: the master and two moments

inline double as_double(std::int64_t value) {
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

Tensors tensors_of(const Job& job, const Shape& shape);

// What of a job's model backward goes through and reads; all of it unless something is frozen.
struct Reads {
  bool qkv_input = true, up_input = true, activation = true, head_input = true;
  double low = 0;  // bytes that a layer's adapters keep of their own: their products with the rank
};
Reads reads_of(const Job& job, const Shape& shape);

// What one layer keeps from forward to backward, and the whole of what its backward reads.
struct LayerBytes {
  double whole = 0, kept = 0;
  double waiting = 0;  // between the halves of a split backward
  double forward = 0;  // most of a forward that no backward follows, beside the stream
  double peak =
      0;  // most of its backward's own buffers, over `whole` and the gradient that comes in
};

LayerBytes layer_bytes(const Job& job, const Plan& plan, const Tensors& t, const Reads& reads);

// Parameters of a stage in the units that lower/parameters.cc makes. Elements on this rank.
struct Units {
  double layer = 0, embedding = 0, head = 0;  // without padding
  double tied_table = 0;                      // a unit of its own, on an end that does not own it
};

struct Stage {
  double layers = 0, last_chunk_layers = 0;  // of the last chunk: those that backward goes through
  double trained_layers = 0;
  bool embedding = false, head = false;
  double elements = 0, trained_elements = 0;
  Units units, trained;
};

// What of a stage depends on its place in the pipeline.
struct Held {
  double kept = 0;       // of all micro-batches in flight
  double turned = 0;     // what a split backward adds to `kept` by its end, for one micro-batch
  double waiting = 0;    // micro-batches between the halves of a split backward
  double exchanges = 0;  // buffers of messages that are alive in a backward
  // DualPipeV: what is kept when its first gradients come, whose backwards are split.
  double first_split = 0;
};

Units units_of(const Job& job, const Shape& shape);
// Of each unit what is trained; beside frozen layers the adapters'.
Units trained_units(const Job& job, const Shape& shape, const Units& units);

// `split`: chunk_layers of the plan. What is sharded over whom makes no difference.
Stage stage_of(const Plan& plan, const std::vector<ChunkLayers>& split, const Units& units,
               const Units& trained, std::int64_t rank);
// A chunk's trained layers, and bytes that it keeps of a micro-batch.
struct ChunkKept {
  double layers = 0, kept = 0;
};
// Of each chunk of a rank, in place of what `chunks` held.
void keep_chunks(const Plan& plan, const std::vector<ChunkLayers>& split, const Tensors& t,
                 const LayerBytes& layer, std::int64_t rank, std::vector<ChunkKept>& chunks);
// Adds what ranks [first, end) hold, which have the same `chunks`: all but `exchanges`.
void hold_ranks(const Plan& plan, const std::vector<ChunkKept>& chunks, const LayerBytes& layer,
                std::int64_t first, std::int64_t end, std::vector<Held>& held);
// Bytes that so many layers above `frozen` ones keep for one micro-batch. Where some layers are
// repeated, they are the first of all.
double kept_layers(const Plan& plan, const LayerBytes& layer, const Tensors& t, double layers,
                   double frozen);

// Ranks that share a state.
double shards_of(const Plan& plan);

// What the update has on the device of states that lie on the host (lower/state_stream.h): as many
// elements as the largest unit has at most.
double streamed_bytes(const Plan& plan, const Stage& stage);

// Bytes that stay between steps; `streams`: the optimizer's are not among them.
void add_states(const Plan& plan, bool streams, const Stage& stage, MemoryItems& items);
// The update of streamed states, beside what else stays.
MemoryItems in_streamed_update(const Plan& plan, const Stage& stage, const MemoryItems& states);

// Bytes of the gradients that a step ends with.
double kept_gradient(const Plan& plan, double elements);

// Whole parameters and gradients that sharding makes for a while.
struct Whole {
  double layer_parameters = 0,
         head_parameters = 0;  // gathered while a layer's or the head's backward runs
  double layer_gradient = 0, head_gradient = 0, embedding_gradient = 0;  // one unit's
  double next_embedding = 0;  // of layer_parameters: the embedding, gathered ahead
  bool stays = false;         // gathered from forward to backward
  double ahead = 0;           // units gathered beside the one in use
};

Whole whole_of(const Job& job, const Plan& plan, const Stage& stage);

}  // namespace trireme::planner::own
