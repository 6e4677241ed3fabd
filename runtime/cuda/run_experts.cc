#include "runtime/cuda/call.h"
#include "runtime/cuda/expert_products.h"
#include "runtime/cuda/experts.h"

namespace trireme::runtime::cuda {
namespace {

void run_choice(const Call& c) {
  if (c.work.kernel == Kernel::kExpertPlaces) {
    if (c.dim(0) >= std::int64_t{1} << 24) {
      throw Error("expert_places", std::to_string(c.dim(0)) +
                                       " choices of experts in one micro-batch are too many; use a "
                                       "smaller micro-batch");
    }
    expert_places(c.stream(), c.dim(0), c.dim(1), c.tokens(0), c.tokens(1), c.tokens(2));
    return;
  }
  if (c.dim(1) > 1024) {
    throw Error("routing", std::to_string(c.dim(1)) + " experts; at most 1024 run on a GPU");
  }
  const Arithmetic& a = c.arithmetic();
  if (a.router_groups > 32) {
    throw Error("routing",
                std::to_string(a.router_groups) + " groups of experts; at most 32 run on a GPU");
  }
  const Route route{c.dim(0),
                    c.dim(1),
                    c.dim(2),
                    c.flag(3),
                    a.router_normalises,
                    static_cast<float>(a.router_scale),
                    static_cast<int>(a.router_groups),
                    static_cast<int>(a.router_groups_chosen),
                    a.router_groups_by_two};
  if (c.work.kernel == Kernel::kRouteForward) {
    route_forward(c.stream(), route, c.master(0), c.flag(4) ? c.compute(1) : nullptr, c.master(2),
                  c.tokens(3));
  } else {
    route_backward(c.stream(), route, c.master(0), c.master(1), c.tokens(2), c.master(3),
                   c.compute(4));
  }
}

void run_expert_rows(const Call& c) {
  if (c.work.kernel == Kernel::kRegroupRows) {
    need_vectors(c, c.dim(1));
    regroup_rows(c.stream(), c.dim(2), c.dim(3), c.dim(1), c.tokens(1), c.compute(0), c.compute(2),
                 c.flag(4));
    return;
  }
  need_vectors(c, c.dim(2));
  const ExpertRows rows{c.dim(0), c.dim(1), c.dim(2)};
  if (c.work.kernel == Kernel::kPermuteRows) {
    permute_rows(c.stream(), rows, c.compute(0), c.tokens(1), c.compute(2));
  } else if (c.work.kernel == Kernel::kCombineRows) {
    combine_rows(c.stream(), rows, c.compute(0), c.tokens(1), c.flag(3) ? c.master(2) : nullptr,
                 c.compute(3));
  } else {
    combine_backward(c.stream(), rows, c.compute(0), c.compute(1), c.tokens(2), c.master(3),
                     c.compute(4), c.master(5));
  }
}

void run_expert_products(const Call& c) {
  if (multiplies_grouped(c.work, c.operands)) {
    grouped_expert_products(c.work, c.operands, c.context.matmul_workspace, c.stream());
    return;
  }
  if (c.context.counts == nullptr) {
    rehearse_expert_products(c.work, c.operands, *c.context.matmuls, c.context.matmul_workspace,
                             c.stream());
    return;
  }
  expert_products(c.work, c.operands, c.context.counts->read(c.operands[3]), *c.context.matmuls,
                  c.context.matmul_workspace, c.stream());
}

}  // namespace

void run_experts(const Call& call) {
  const Kernel kernel = call.work.kernel;
  if (kernel == Kernel::kRouteForward || kernel == Kernel::kRouteBackward ||
      kernel == Kernel::kExpertPlaces) {
    run_choice(call);
  } else if (kernel == Kernel::kExpertMatmul) {
    run_expert_products(call);
  } else {
    run_expert_rows(call);
  }
}

}  // namespace trireme::runtime::cuda
