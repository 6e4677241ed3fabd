// What a device must do for the executor: memory, streams, events, kernels and communication of one
// rank. The executor calls in issue order from one host thread; every call but end_step, read,
// write and the constructors only enqueues. CPU: runtime/cpu/backend.h; CUDA with NCCL:
// runtime/cuda.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/program.h"
#include "core/units.h"

namespace trireme::runtime {

// An operand with its address. `data` is the device's pointer to the first of `count` elements.
struct View {
  void* data = nullptr;
  std::int64_t count = 0;
  ElementType type = ElementType::kCompute;
  BufferId buffer{};
};

// What the optimizer kernels of one step read (core/kernels.h: "the run's").
struct StepSettings {
  double learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0;
  double max_norm = 0;    // gradient clipping; 0 = none
  std::int64_t step = 1;  // 1-based, for Adam's bias correction
  bool timed = false;     // measure every op; end_step then returns times
  double began = 0;       // on the host's steady clock, seconds; set by the executor
};

// Of one op, in seconds since the step began on this rank; core/trace.h says what each means.
struct OpTimes {
  double ready = 0, start = 0, end = 0;
};

struct MemoryUse {
  Bytes allocated_peak;  // bytes of live buffers at the worst moment, in issue order
  Bytes reserved_peak;   // what the device handed out for them
};

// Part of a matrix of normal values, from `flat_begin` on in rows of `column_count`: element
// (row, column) of the whole is deviation * random_normal(key, row * columns + column).
struct NormalFill {
  std::uint64_t key = 0;
  double deviation = 0;
  std::int64_t row_begin = 0, column_begin = 0, column_count = 1, columns = 1, flat_begin = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  Backend(Backend&&) = delete;
  Backend& operator=(Backend&&) = delete;

  // ---- memory. A persistent buffer is zeroed; a transient one has no defined content.
  virtual void* allocate(BufferId buffer) = 0;
  // The buffer's last op has been issued; its memory may serve other buffers once that op has
  // ended.
  virtual void release(BufferId buffer) = 0;
  [[nodiscard]] virtual MemoryUse memory() const = 0;

  // ---- data, between steps; the view's type says how values are stored.
  virtual void write(const View& view, std::span<const double> values) = 0;
  virtual void read(const View& view, std::span<double> values) = 0;
  // Draws the values where they lie; false when the device cannot, and the caller writes them.
  virtual bool fill_normal(const View& /*view*/, const NormalFill& /*fill*/) { return false; }
  virtual void write_tokens(const View& view, std::span<const std::int32_t> tokens) = 0;

  // ---- one step
  virtual void begin_step(const StepSettings& settings) = 0;
  // What is issued next on `stream` starts after op `earlier` (on another stream) has ended.
  virtual void wait(StreamId stream, OpId earlier) = 0;
  virtual void compute(OpId op, StreamId stream, const Work& work,
                       std::span<const View> operands) = 0;
  virtual void all_reduce(OpId op, StreamId stream, GroupId group, Reduction reduction,
                          const View& input, const View& output) = 0;
  virtual void all_gather(OpId op, StreamId stream, GroupId group, const View& input,
                          const View& output) = 0;
  virtual void reduce_scatter(OpId op, StreamId stream, GroupId group, const View& input,
                              const View& output) = 0;
  virtual void all_to_all(OpId op, StreamId stream, const AllToAll& kind,
                          std::span<const View> operands) = 0;
  virtual void broadcast(OpId op, StreamId stream, GroupId group, std::uint32_t root,
                         const View& input, const View& output) = 0;
  virtual void shift(OpId op, StreamId stream, GroupId group, const View& input,
                     const View& output) = 0;
  virtual void send(OpId op, StreamId stream, const Send& message, const View& view) = 0;
  virtual void receive(OpId op, StreamId stream, const Recv& message, const View& view) = 0;
  virtual void copy(OpId op, StreamId stream, const View& from, const View& to) = 0;
  // Waits until every op has ended. Throws Error when the device or a peer failed or `timeout` has
  // passed, naming the op this rank was in. With timed settings returns one entry an op, else
  // nothing.
  virtual std::vector<OpTimes> end_step(Seconds timeout) = 0;
};

// The op that a rank is in, for messages: its label, kind and stream.
std::string describe_op(const Program& role, OpId op);

}  // namespace trireme::runtime
