// The textbook formulas F1 to F20 by number, as given: what `explain` prints beside the detailed
// model, which alone ranks plans. F21 to F27, the rules of deciding, are in
// planner/search/decide.h.
#pragma once

#include <cstdint>
#include <vector>

#include "core/units.h"

namespace trireme::planner {

// What the formulas are functions of. Counts of elements and of things, never bytes, unless the
// name says so.
struct Symbols {
  double parameters = 0;          // d
  double element_bytes = 2;       // s
  double devices = 1;             // P
  double tensor = 1;              // P_t
  double pipeline = 1;            // P_p
  double layers = 1;              // L
  double hidden = 1;              // h
  double activations = 0;         // A
  double micro_batches = 1;       // m
  double micro_batch_tokens = 1;  // B: micro-batch size x sequence length
  double gathered_share = 0;      // tau: share of the model that is gathered at one moment
  double activation_ratio = 0;    // alpha of F6: non-parameter over parameter memory
};

double f1_shard(const Symbols& s);  // d/P
// F1 in practice: what padding to equal shards adds, elements on all devices together. `units` are
// flattened sizes.
double f1_padding(const std::vector<std::int64_t>& units, std::int64_t devices);
double f2_forward_peak(double activations, double temporary, double owned);
double f3_fsdp_memory(const Symbols& s);        // 4d/P + A + d tau, elements
double f4_megatron_memory(const Symbols& s);    // 4d/(P_t P_p) + A/P_t, elements
double f5_ratio(const Symbols& s);              // F3/F4 with P = P_t P_p for Megatron's state
double f5_limit_activations(const Symbols& s);  // A >> d/P: P_t
double f5_limit_state(const Symbols& s);        // d/P >> A: 1 + P tau / 4
double f6_memory_reduction(const Symbols& s);   // P (1 + alpha) / (1 + alpha P)
double f7_hybrid_state(double parameters, double sharded, double tensor);  // d/(P_fsdp P_t)

double f9_fsdp_volume(const Symbols& s);            // 2 d s log2 P, bytes a step
double f9_gather_optimal(const Symbols& s);         // d s (P-1)/P, bytes a rank of one all-gather
double f10_data_parallel_volume(const Symbols& s);  // d s log2 P
double f10_all_reduce_optimal(const Symbols& s);    // 2 d s (P-1)/P
double f11_tensor_volume(const Symbols& s);         // (2+1) h^2 s log2 P_t, bytes a layer
double f11_tensor_activations(
    const Symbols& s);  // what moves: 4 all-reduces of B h s a layer and micro-batch
double f12_pipeline_volume(const Symbols& s);  // 2 B h s, bytes a stage boundary
double f12_megatron_volume(const Symbols& s);  // L 3 h^2 s log2 P_t + 2 B h s P_p
double f13_ratio(const Symbols& s);       // 2 log2 P / (3 log2 P_t + 2 B h P_p/(L h^2)), d = L h^2
double f13_ratio_real(const Symbols& s);  // the same with the real d in the numerator
double f13_limit(const Symbols& s);       // 2 log2 P / (3 log2 P_t)
Seconds f14_log_collective(double devices, Seconds latency, Bytes size, BytesPerSecond bandwidth);

// F15: the tensor degree of least communication time, and the bound by the width of a shard.
struct TensorOption {
  double tensor = 1;
  double bytes = 0;          // C_total(P_t)
  BytesPerSecond bandwidth;  // B_eff(P_t)
};
double f15_tensor_degree(const std::vector<TensorOption>& options, double hidden,
                         double columns_min);
// F16: bytes on the wire of gradient reduction in a step, deferred to the last micro-batch or after
// each.
double f16_reduction_volume(const Symbols& s, bool deferred);

// F17: three quantities are called "bubble"; each under its own name.
struct Bubbles {
  double as_given = 0;    // (P_p-1)/(P_p m)
  double over_ideal = 0;  // (P_p-1)/(v m)
  double over_total = 0;  // (P_p-1)/(v m + P_p-1)
};
Bubbles f17_bubbles(double pipeline, double micro_batches, double virtual_pipeline);
double f17_micro_batches_for_90_percent(double pipeline);  // 10 (P_p-1)/P_p
// F18: (max T_i - min T_i) / mean T; balanced when at most eps (0.1 unless said).
double f18_imbalance(const std::vector<double>& stage_times);
constexpr double kF18Epsilon = 0.1;
constexpr double kF15MinimumColumns = 1024;

double f19_fsdp_time(double compute, double communication, double devices);
struct MegatronTime {
  double compute = 0, tensor = 0, pipeline = 0, bubble = 0;
};
double f19_megatron_time(const MegatronTime& t, double tensor_degree, double pipeline_degree);

// F20: L(P_t,P_p) = a/(P_t P_p) + b log2 P_t + g P_p + e P_p/m.
struct Objective {
  double a = 0, b = 0, g = 0, e = 0;
};
double f20_objective(const Objective& o, double tensor, double pipeline, double micro_batches);
double f20_slope_tensor(const Objective& o, double tensor, double pipeline);
double f20_slope_pipeline(const Objective& o, double tensor, double pipeline, double micro_batches);
double f20_tensor_optimum(const Objective& o, double pipeline);  // a ln2/(b P_p)
double f20_pipeline_optimum(const Objective& o, double tensor, double micro_batches);
// Under P = P_t P_p: P ln2 (g + e/m)/b.
double f20_constrained_tensor(const Objective& o, double devices, double micro_batches);
// Least squares over measured points (non-negative by clamping). Requires: at least one point.
struct ObjectivePoint {
  double tensor = 1, pipeline = 1, micro_batches = 1, seconds = 0;
};
Objective f20_fit(const std::vector<ObjectivePoint>& points);

}  // namespace trireme::planner
