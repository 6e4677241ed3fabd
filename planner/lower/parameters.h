// Pass 2: a stage's parameters in units that are gathered, reduced and stepped together, and the
// buffers that keep their states between steps.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/program.h"
#include "planner/lower/builder.h"
#include "planner/lower/held_memory.h"
#include "planner/lower/place_ranks.h"
#include "planner/lower/trained.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "planner/plan/shape.h"
#include "planner/plan/stages.h"

namespace trireme::planner::lowering {

// A run of elements in a unit: one parameter, or neighbours used as one matrix (q, k, v; gate, up).
// count 0: the model has none.
struct Slot {
  std::uint32_t unit = 0;
  std::int64_t offset = 0, count = 0;
};
inline constexpr std::uint32_t kNoUnit = 0xffffffffU;
struct NormSlots {
  Slot weight, bias;
};
// Latent attention's low-rank products, in the place of qkv; q_up reads the hidden state where
// there is no q_down. kv_down has the rows of the latent, then those of the rotary key.
struct LatentSlots {
  Slot q_down, q_up, kv_down, kv_up;
  NormSlots q_norm, kv_norm;
};
// Of an adapter beside a product: `down` reads the product's input, `up` gives its output.
struct AdapterSlots {
  Slot down, up;
};
// The products of a layer that may have one.
enum class Product : std::uint8_t { kQkv, kOutput, kUp, kDown };
inline constexpr std::size_t kProductCount = 4;
struct LayerSlots {
  Slot qkv, qkv_bias, q_norm, k_norm, output, output_bias, up, up_bias, down, down_bias;
  NormSlots attention_norm, mlp_norm;            // of what each half reads
  NormSlots attention_post_norm, mlp_post_norm;  // of what it gives
  LatentSlots latent;
  Slot router, router_bias, shared_up, shared_down, experts_up, experts_down;
  std::array<AdapterSlots, kProductCount> adapters;  // by Product
  Slot modelled, experts;                            // of a layer that is timed and not executed
};
struct UnitLayout {
  std::int32_t layer = -1;           // first layer; -1: embedding or head
  bool experts = false;              // of routed experts
  bool frozen = false;               // nothing of it is trained
  std::int64_t elements = 0;         // without padding
  std::int64_t replicated_from = 0;  // from here on tensor ranks hold the same
  std::int64_t head_norms_end =
      0;  // [replicated_from, here): gradients are partial sums even without SP (adapters' too)
  GroupId shard = kNoGroup, replica = kNoGroup;  // ranks that share it, and copies of those
  std::int64_t copies =
      1;  // ranks that hold the part before `replicated_from` alike (tied embeddings: 2)
};
struct StageParameters {
  Trained trained;
  std::vector<Chunk> chunks;        // on this stage, in model order
  std::vector<LayerSlots> layers;   // by layer, of the whole model; only the stage's are filled
  Slot embedding, positions, head;  // head is `embedding` when tied on one stage
  NormSlots final_norm;
  bool tied_across_stages =
      false;  // this stage's `embedding` or `head` has a copy on the other end
  // Units of the ends; kNoUnit: none. A tied table is a unit of its own (`embedding_unit` on either
  // end), so that both ends cut it alike.
  std::uint32_t embedding_unit = kNoUnit, positions_unit = kNoUnit, head_unit = kNoUnit;
  std::vector<std::uint32_t> experts_of_layer;   // kNoUnit: none
  std::vector<std::uint32_t> adapters_of_layer;  // kNoUnit: none
  std::vector<std::uint32_t> unit_of_layer;      // by layer, of the whole model
  std::vector<UnitLayout> units;
};

// Fills the program's parameters and units, with their persistent buffers.
StageParameters lay_out_parameters(const Job& job, const Plan& plan, const Groups& groups,
                                   const Shape& shape, const HeldMemory& held,
                                   const StepProgram& step, std::int64_t stage,
                                   ProgramBuilder& builder, Program& program);

}  // namespace trireme::planner::lowering
