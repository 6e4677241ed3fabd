// How the ranks of a run agree outside the step program: barriers, and small blobs gathered to or
// sent from rank 0. Threads of one process use runtime/cpu/threads.h, processes the store of
// runtime/tcp_store.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.h"

namespace trireme::runtime {

class Coordinator {
 public:
  virtual ~Coordinator() = default;
  Coordinator() = default;
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  Coordinator(Coordinator&&) = delete;
  Coordinator& operator=(Coordinator&&) = delete;

  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual std::int64_t ranks() const = 0;
  // Each throws Error when another rank failed or did not come within the run's time-out.
  virtual void barrier() = 0;
  // On rank 0 the blobs of all ranks in order; empty elsewhere.
  virtual std::vector<std::string> gather(const std::string& blob) = 0;
  // Rank 0's blob, on every rank.
  virtual std::string broadcast(const std::string& blob) = 0;
  // Why another rank ended, or empty. Cheap enough to ask every tenth of a second.
  virtual std::string failure() = 0;
};

}  // namespace trireme::runtime
