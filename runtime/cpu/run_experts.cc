#include "runtime/cpu/run_experts.h"

#include "runtime/cpu/experts.h"

namespace trireme::runtime::cpu {
namespace {

template <typename T>
RouteShape route_shape(const Call<T>& c) {
  const trireme::Arithmetic& a = c.arithmetic();
  return {.tokens = c.dim("T"),
          .experts = c.dim("E"),
          .chosen = c.dim("k"),
          .sigmoid = c.dim("sigmoid") != 0,
          .normalises = a.router_normalises,
          .scale = a.router_scale,
          .groups = a.router_groups,
          .groups_chosen = a.router_groups_chosen,
          .groups_by_two = a.router_groups_by_two};
}

template <typename T>
void run_choice(const Call<T>& c, Kernel kernel) {
  if (kernel == Kernel::kExpertPlaces) {
    expert_places(c.dim("N"), c.dim("E"), c.tokens(0), c.tokens(1), c.tokens(2));
    return;
  }
  RouteShape s = route_shape(c);
  if (kernel == Kernel::kRouteForward) {
    s.biased = c.dim("biased") != 0;
    route_forward<T>(s, c.at(0), c.at(1), c.at(2), c.tokens(3));
  } else {
    route_backward<T>(s, c.at(0), c.at(1), c.tokens(2), c.at(3), c.at(4));
  }
}

template <typename T>
void run_rows(const Call<T>& c, Kernel kernel) {
  if (kernel == Kernel::kRegroupRows) {
    regroup_rows<T>({.senders = c.dim("P"), .experts = c.dim("E")}, c.dim("H"), c.tokens(1),
                    c.at(0), c.at(2), c.dim("inverse") != 0);
    return;
  }
  if (kernel == Kernel::kExpertMatmul) {
    expert_matmul<T>({.m = c.dim("m"),
                      .n = c.dim("n"),
                      .k = c.dim("k"),
                      .transpose_a = c.dim("transpose_a") != 0,
                      .transpose_b = c.dim("transpose_b") != 0},
                     {.senders = c.dim("P"), .experts = c.dim("E")}, c.tokens(3), c.at(0), c.at(1),
                     c.at(2), c.dim("accumulate") != 0);
    return;
  }
  const RowsShape s{.tokens = c.dim("T"), .chosen = c.dim("k"), .width = c.dim("H")};
  if (kernel == Kernel::kPermuteRows) {
    permute_rows<T>(s, c.at(0), c.tokens(1), c.at(2));
  } else if (kernel == Kernel::kCombineRows) {
    const bool weighted = c.dim("weighted") != 0;
    combine_rows<T>(s, c.at(0), c.tokens(1), weighted ? c.at(2) : nullptr, c.at(3));
  } else {
    combine_backward<T>(s, c.at(0), c.at(1), c.tokens(2), c.at(3), c.at(4), c.at(5));
  }
}

}  // namespace

template <typename T>
void run_experts(const Call<T>& c, Kernel kernel) {
  if (kernel == Kernel::kRouteForward || kernel == Kernel::kRouteBackward ||
      kernel == Kernel::kExpertPlaces) {
    run_choice(c, kernel);
  } else {
    run_rows(c, kernel);
  }
}

template void run_experts<float>(const Call<float>&, Kernel);
template void run_experts<double>(const Call<double>&, Kernel);

}  // namespace trireme::runtime::cpu
