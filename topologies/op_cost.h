// How long one op takes alone on this hardware: the one place that estimate, walk and simulate ask.
// Every number comes from the profile (measured) or the datasheet (scaled by a fitted efficiency);
// `source` says which.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/kernels.h"
#include "core/units.h"
#include "topologies/cluster.h"
#include "topologies/gpu_fit.h"
#include "topologies/profile.h"

namespace trireme::topologies {

struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0, count = 1;
  // Its operands' rows are m and n long, of other products k and n.
  bool weight_gradient = false;
  double result_bytes = 2;  // that an element of the result moves
  // All `count` in one launch of this project's runtime, of experts that have m rows on average; of
  // a weight gradient k.
  bool grouped = false;
};
struct AttentionShape {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, query_length = 0, key_length = 0, qk_dim = 0,
               v_dim = 0;
  bool causal = true;
  bool flash = true;
  // FlashAttention-2 as PyTorch ships it, written for Ampere; on later cards the vendor's kernel
  // (cuDNN, FlashAttention-3) runs at about twice its rate.
  bool portable = false;
};
enum class Pass { kForward, kBackward };

// Looks its constants up once, then answers in tens of nanoseconds. Cheap to copy; not shared
// between threads.
class OpCost {
 public:
  OpCost(const Cluster& cluster, const Profile& profile);
  [[nodiscard]] Seconds matmul(const MatmulShape& shape, Precision precision) const;
  [[nodiscard]] Seconds attention(const AttentionShape& shape, Precision precision,
                                  Pass pass) const;
  [[nodiscard]] Seconds memory_bound(Bytes traffic, int kernels) const;
  // A memory-bound kernel of this project's runtime by its own measurement; `kernels` beyond one
  // are small ones beside it, 0: its bytes without its fixed cost. None: not measured.
  [[nodiscard]] std::optional<Seconds> own_kernel(Kernel kernel, Bytes traffic,
                                                  int kernels = 1) const;
  [[nodiscard]] Seconds launch(int kernels) const;  // host time to issue kernels
  // FLOP/s that large products reach: peak of the precision times the fitted efficiency.
  [[nodiscard]] FlopPerSecond sustained(Precision precision) const;
  // Bytes/s that a long streaming kernel reaches.
  [[nodiscard]] BytesPerSecond memory_rate() const;
  [[nodiscard]] const std::string& source() const { return source_; }

 private:
  struct Anchor {
    double log_m, log_n, log_k, log_ratio;  // measured over modelled time
  };
  [[nodiscard]] static double table_correction(const std::vector<Anchor>& anchors,
                                               const MatmulShape& shape);
  [[nodiscard]] double peak(Precision precision) const;
  [[nodiscard]] double model_matmul(const MatmulShape& shape, Precision precision) const;
  [[nodiscard]] double model_grouped(const MatmulShape& shape, Precision precision) const;
  [[nodiscard]] double model_flash(const AttentionShape& shape, Precision precision,
                                   Pass pass) const;
  [[nodiscard]] double attention_correction(const AttentionShape& shape, Pass pass) const;
  void add_matmul_anchors(const GpuFit& fit);
  void add_grouped_anchors(const GpuFit& fit);
  void add_attention_anchors(const GpuFit& fit);

  std::array<double, 6> peak_ = {};  // by Precision, after fall-back to what the card has
  double matmul_efficiency_ = 0, fp8_efficiency_ = 0, half_k_ = 0, attention_efficiency_ = 0,
         portable_efficiency_ = 0, memory_rate_ = 0, kernel_seconds_ = 0, launch_seconds_ = 0;
  double multiprocessors_ = 0;
  std::int64_t aligned_bytes_ = 64;             // of rows of operands that the widest loads need
  bool tensor_memory_ = false;                  // loads by descriptor, of rows of whole 16 bytes
  std::array<std::vector<Anchor>, 3> anchors_;  // by MatmulPrecision
  std::array<std::vector<Anchor>, 3> grouped_anchors_;      // by grouped_table
  std::array<std::optional<MatmulPrecision>, 6> table_of_;  // by Precision: whose anchors answer
  struct AttentionAnchor {
    double log_sequence, log_head_size, log_rows;  // rows: batch times heads
    double log_forward, log_backward;              // measured over modelled time; NaN: not measured
    bool portable;
  };
  std::vector<AttentionAnchor> attention_anchors_;
  std::array<std::optional<KernelFit>, kKernelCount> own_kernels_;
  double compute_correction_ = 1;  // measured over predicted time of whole runs
  std::string source_;
};

}  // namespace trireme::topologies
