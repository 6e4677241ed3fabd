// How long one op takes alone on this hardware: the one place that estimate, walk and simulate ask. Every number comes
// from the profile (measured) or the datasheet (scaled by a fitted efficiency); `source` says which.
#pragma once

#include <cstdint>

#include "core/units.h"
#include "topologies/cluster.h"
#include "topologies/profile.h"

namespace trireme::topologies {

struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0, count = 1;
};
struct AttentionShape {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, query_length = 0, key_length = 0, qk_dim = 0, v_dim = 0;
  bool causal = true;
  bool flash = true;
};
enum class Pass { kForward, kBackward };

// Looks its constants up once, then answers in tens of nanoseconds. Cheap to copy; not shared between threads.
class OpCost {
 public:
  OpCost(const Cluster& cluster, const Profile& profile);
  [[nodiscard]] Seconds matmul(const MatmulShape& shape, Precision precision) const;
  [[nodiscard]] Seconds attention(const AttentionShape& shape, Precision precision, Pass pass) const;
  [[nodiscard]] Seconds memory_bound(Bytes traffic, int kernels) const;
  [[nodiscard]] Seconds launch(int kernels) const;  // host time to issue kernels

 private:
  Gpu gpu_;
  GpuFit fit_;
};

}  // namespace trireme::topologies
