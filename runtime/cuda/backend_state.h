// What a CudaBackend holds, and how it issues an op: between backend.cc, which plans memory,
// computes and copies, and backend_exchanges.cc, which speaks to other ranks.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cuda/attention.h"
#include "runtime/cuda/backend.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device_objects.h"
#include "runtime/cuda/host_counts.h"
#include "runtime/cuda/lanes.h"
#include "runtime/cuda/matmul.h"
#include "runtime/cuda/memory_plan.h"
#include "runtime/cuda/watchdog.h"

namespace trireme::runtime::cuda {

struct CudaBackend::State {
  const StepProgram* program = nullptr;
  const Program* role = nullptr;
  Rank rank{};
  int device = 0;
  MemoryPlan plan;
  std::vector<std::int64_t> persistent_offsets;  // by buffer, in `persistent` or `pinned`
  std::int64_t persistent_bytes = 0, host_bytes = 0;
  PinnedBytes pinned;
  DeviceBytes persistent, arena;
  std::vector<Stream> streams;
  std::vector<DeviceBytes> workspaces, scratches;  // by stream
  std::vector<std::optional<Event>> done;          // by op: what another stream waits for
  std::vector<Event> before, after;                // by op, when timed
  std::optional<Event> begin;
  std::unique_ptr<HostCounts> counts;
  std::unique_ptr<Lanes> lanes;
  std::unique_ptr<MatmulLibrary> matmuls;
  std::unique_ptr<AttentionLibrary> attention;
  std::unique_ptr<Communicators> communicators;
  StepSettings settings;
  std::atomic<OpId> last_issued{OpId{}};  // the watchdog's thread reads it
  std::function<void(OpId)> observer;
  std::unique_ptr<Watchdog> watchdog;

  void place_persistent();
  void rehearse();
  [[nodiscard]] View planned_view(const Operand& operand) const;
  void wait_until_idle(Seconds limit);
  [[nodiscard]] cudaStream_t stream(StreamId id) const { return streams[index_of(id)].raw(); }
};

template <typename Launch>
void CudaBackend::queue(OpId op, StreamId stream, const Launch& launch) {
  State& s = *state_;
  const std::size_t index = index_of(op);
  const cudaStream_t raw = s.stream(stream);
  for (const OpId earlier : s.plan.extra_waits[index]) {
    wait(stream, earlier);
  }
  if (s.settings.timed) {
    check(cudaEventRecord(s.before[index].raw(), raw), "timing");
  }
  launch(raw);
  if (s.settings.timed) {
    check(cudaEventRecord(s.after[index].raw(), raw), "timing");
  }
  if (s.done[index].has_value()) {
    check(cudaEventRecord(s.done[index]->raw(), raw), "event");
  }
  s.last_issued = op;
  s.watchdog->beat();
  if (s.observer) {
    s.observer(op);
  }
}

}  // namespace trireme::runtime::cuda
