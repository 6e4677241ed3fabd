// A Backend on one GPU of one process: the program's streams and waits become CUDA streams and
// events one to one, groups become NCCL communicators, transient buffers lie in one arena planned
// from their lifetimes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/program.h"
#include "core/units.h"
#include "runtime/backend.h"
#include "runtime/cuda/communicators.h"

namespace trireme::runtime::cuda {

// GPUs that this process sees; 0 without a driver.
int device_count();
// "NVIDIA H100 80GB HBM3".
std::string device_name(int device);

// Memory that the device gave this backend, beyond the buffers: arena padding, workspaces, scratch.
struct DeviceMemory {
  Bytes buffers, arena, workspaces;
  Bytes device_in_use;  // of the whole device, other processes included
};

class CudaBackend : public Backend {
 public:
  // Collective over the ranks of the program when they communicate. Throws Error: no such device,
  // out of memory (with what was asked for), a peer that does not come within `timeout`.
  // `deterministic`: the same bits in every run (AttentionLibrary).
  CudaBackend(const StepProgram& program, Rank rank, int device, const BroadcastBlob& broadcast,
              Seconds timeout, bool deterministic = false);
  ~CudaBackend() override;
  // Called with every op as it is issued.
  void set_observer(std::function<void(OpId)> observer);
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;
  CudaBackend(CudaBackend&&) = delete;
  CudaBackend& operator=(CudaBackend&&) = delete;

  void* allocate(BufferId buffer) override;
  void release(BufferId buffer) override;
  [[nodiscard]] MemoryUse memory() const override;
  [[nodiscard]] DeviceMemory device_memory() const;
  void write(const View& view, std::span<const double> values) override;
  void read(const View& view, std::span<double> values) override;
  bool fill_normal(const View& view, const NormalFill& fill) override;
  void write_tokens(const View& view, std::span<const std::int32_t> tokens) override;
  void begin_step(const StepSettings& settings) override;
  void wait(StreamId stream, OpId earlier) override;
  void compute(OpId op, StreamId stream, const Work& work, std::span<const View> operands) override;
  void all_reduce(OpId op, StreamId stream, GroupId group, Reduction reduction, const View& input,
                  const View& output) override;
  void all_gather(OpId op, StreamId stream, GroupId group, const View& input,
                  const View& output) override;
  void reduce_scatter(OpId op, StreamId stream, GroupId group, const View& input,
                      const View& output) override;
  void all_to_all(OpId op, StreamId stream, const AllToAll& kind,
                  std::span<const View> operands) override;
  void broadcast(OpId op, StreamId stream, GroupId group, std::uint32_t root, const View& input,
                 const View& output) override;
  void shift(OpId op, StreamId stream, GroupId group, const View& input,
             const View& output) override;
  void send(OpId op, StreamId stream, const Send& message, const View& view) override;
  void receive(OpId op, StreamId stream, const Recv& message, const View& view) override;
  void copy(OpId op, StreamId stream, const View& from, const View& to) override;
  std::vector<OpTimes> end_step(Seconds timeout) override;

 private:
  struct State;
  template <typename Launch>
  void queue(OpId op, StreamId stream, const Launch& launch);
  std::unique_ptr<State> state_;
};

}  // namespace trireme::runtime::cuda
