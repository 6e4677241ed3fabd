// Seconds of one matrix product as a framework runs it: what estimate, walk and simulate share.
#pragma once

#include <cstdint>

#include "models/work.h"
#include "planner/cost/behaviour_fit.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "topologies/op_cost.h"

namespace trireme::planner {

// What a product runs in: as its layer does, in 16 bits under fp8 and fp4 too (head, router), or in
// fp32 (experts that autocast does not reach). The program's ops hold it as a number.
enum class ProductWidth : std::uint8_t { kOfLayer, k16Bits, kFp32 };

struct ProductKind {
  ProductWidth width = ProductWidth::kOfLayer;
  bool weight_gradient = false;
  // Of this project's experts: to a gradient that is there, which the closed form counts with the
  // sums of gradients (data_parallel_time.cc).
  bool adds = false;
};

// Whether the plan's experts multiply in fp32 (Framework::experts_without_autocast).
bool has_fp32_experts(const Job& job, const Plan& plan);
// Of a product of the part, whatever the job's precision.
ProductWidth product_width(models::Part part, bool fp32_experts);

// Whether this project's runtime multiplies all of a rank's experts in one launch: on Hopper, in
// bf16 as it trains (runtime/cuda/grouped_products.h); and the launches of a product of so many.
bool groups_own_experts(const Job& job);
int own_expert_launches(const Job& job, std::int64_t experts);

// Under fp8 and fp4 products as wide as their layer also scan their activation operand for its
// largest value and cast it, where that is no pass of its own (narrow_casts.h). This project's
// runtime groups the products of a `count` (experts)
// or launches them one by one, each with few rows: what a gradient in fp32 reads and writes then
// takes as long as the product (two H200, 512 to 1,024 rows: 16 to 40 % of those gradients' time
// was missing). So it does in a grouped product that adds to the gradients' own buffers
// (Transformer Engine's on B200 with 128 to 1,024 rows an expert: SimuMax 4dcaae51 configs/system,
// group_matmul).
double product_seconds(const Job& job, const topologies::OpCost& cost, const BehaviourFit& fit,
                       topologies::MatmulShape shape, const ProductKind& kind);

}  // namespace trireme::planner
