#include "runtime/cuda/backend.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "core/check.h"
#include "runtime/cuda/backend_state.h"
#include "runtime/cuda/exchange.h"
#include "runtime/cuda/expert_products.h"
#include "runtime/cuda/random_fill.h"
#include "runtime/cuda/run_kernel.h"

namespace trireme::runtime::cuda {
namespace {

constexpr std::int64_t kArenaAlignment = 256;

// What a stream's kernels need besides their operands.
struct StreamWork {
  bool multiplies = false;
  std::size_t scratch = 0;
};

std::vector<StreamWork> stream_work(const Program& role) {
  std::vector<StreamWork> needs(role.streams.size());
  for (const Op& op : role.ops) {
    const auto* compute = std::get_if<Compute>(&op.kind);
    if (compute == nullptr) {
      continue;
    }
    const Work& work = role.works[compute->work];
    StreamWork& need = needs[index_of(op.stream)];
    need.multiplies =
        need.multiplies || work.kernel == Kernel::kMatmul || work.kernel == Kernel::kExpertMatmul ||
        work.kernel == Kernel::kNarrowMatmul || work.kernel == Kernel::kExpertNarrowMatmul ||
        work.kernel == Kernel::kContextAttentionForward ||
        work.kernel == Kernel::kContextAttentionBackward ||
        work.kernel == Kernel::kAttentionForward || work.kernel == Kernel::kAttentionBackward;
    need.scratch = std::max(need.scratch, scratch_bytes_of(work));
  }
  return needs;
}

// Ops that another stream waits for.
std::vector<bool> awaited_ops(const Program& role, const MemoryPlan& plan) {
  std::vector<bool> awaited(role.ops.size());
  for (std::uint32_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    for (std::uint32_t k = op.waits.first; k < op.waits.first + op.waits.count; ++k) {
      const std::uint32_t earlier = index_of(role.waits[k]);
      awaited[earlier] = awaited[earlier] || role.ops[earlier].stream != op.stream;
    }
    for (const OpId earlier : plan.extra_waits[i]) {
      awaited[index_of(earlier)] = true;
    }
  }
  return awaited;
}

}  // namespace

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string device_name(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "GPU");
  return static_cast<const char*>(properties.name);
}

void CudaBackend::State::place_persistent() {
  persistent_offsets.assign(role->buffers.size(), -1);
  for (std::size_t i = 0; i < role->buffers.size(); ++i) {
    if (role->buffers[i].persistent) {
      std::int64_t& bytes = role->buffers[i].host ? host_bytes : persistent_bytes;
      persistent_offsets[i] = bytes;
      const std::int64_t size = size_of(*program, role->buffers[i]).value;
      bytes += (size + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    }
  }
  pinned = PinnedBytes(static_cast<std::size_t>(host_bytes), "optimizer states on the host");
  persistent = DeviceBytes(static_cast<std::size_t>(persistent_bytes), "model state");
  arena =
      DeviceBytes(static_cast<std::size_t>(plan.arena_bytes), "activations and temporary buffers");
}

View CudaBackend::State::planned_view(const Operand& operand) const {
  const std::size_t index = index_of(operand.buffer);
  const Buffer& buffer = role->buffers[index];
  std::byte* start = buffer.host         ? pinned.data() + persistent_offsets[index]
                     : buffer.persistent ? persistent.data() + persistent_offsets[index]
                                         : arena.data() + plan.offsets[index];
  return {start + resolved_offset(*program, operand, rank) * width_of(program->widths, buffer.type),
          operand.count, buffer.type, operand.buffer};
}

// Runs every distinct piece of work once on whatever the memory holds: kernels are loaded,
// algorithms chosen and scratch allocated before a step begins. Any of these may wait for the whole
// device, and in a step the device may be waiting for a peer that waits for us.
void CudaBackend::State::rehearse() {
  check(cudaMemset(persistent.data(), 0, persistent.bytes()), "rehearsal");
  check(cudaMemset(arena.data(), 0, arena.bytes()), "rehearsal");
  std::vector<bool> done_work(role->works.size());
  for (const Op& op : role->ops) {
    const auto* compute = std::get_if<Compute>(&op.kind);
    if (compute == nullptr || done_work[compute->work]) {
      continue;
    }
    done_work[compute->work] = true;
    std::vector<View> views;
    for (std::uint32_t k = op.operands.first; k < op.operands.first + op.operands.count; ++k) {
      views.push_back(planned_view(role->operands[k]));
    }
    const std::size_t at = index_of(op.stream);
    for (const View& view : views) {
      if (view.type == ElementType::kToken) {  // kernels index by what is there
        check(cudaDeviceSynchronize(), "rehearsal");
        check(cudaMemset(view.data, 0, bytes_of(view)), "rehearsal");
      }
    }
    run_kernel({program, rank, &settings, matmuls.get(), attention.get(), streams[at].raw(),
                workspaces[at].data(), scratches[at].data(), scratches[at].bytes()},
               role->works[compute->work], views);
  }
  check(cudaDeviceSynchronize(), "rehearsal");
}

CudaBackend::CudaBackend(const StepProgram& program, Rank rank, int device,
                         const BroadcastBlob& broadcast, Seconds timeout, bool deterministic)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.program = &program;
  s.role = &program.roles[index_of(role_of(program, rank))];
  s.rank = rank;
  s.device = device;
  check(cudaSetDevice(device), "GPU");
  s.plan = plan_memory(program, *s.role);
  s.place_persistent();
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "stream priorities");
  const std::vector<StreamWork> needs = stream_work(*s.role);
  for (const StreamWork& need : needs) {
    s.streams.emplace_back(need.multiplies ? lowest : highest);  // communication overtakes compute
    s.workspaces.emplace_back(need.multiplies ? MatmulLibrary::kWorkspaceBytes : 0,
                              "matrix workspace");
    s.scratches.emplace_back(need.scratch, "kernel scratch");
  }
  const std::vector<bool> awaited = awaited_ops(*s.role, s.plan);
  s.done.resize(awaited.size());
  for (std::size_t i = 0; i < awaited.size(); ++i) {
    if (awaited[i]) {
      s.done[i].emplace(static_cast<unsigned int>(cudaEventDisableTiming));
    }
  }
  s.begin.emplace(static_cast<unsigned int>(cudaEventDefault));
  s.counts = std::make_unique<HostCounts>(*s.role);
  s.lanes = std::make_unique<Lanes>();
  s.matmuls = std::make_unique<MatmulLibrary>();
  s.attention = std::make_unique<AttentionLibrary>(*s.matmuls, deterministic);
  constexpr double kLongerThanTheTimeout = 1.25;  // the time-outs that name their cause go first
  s.watchdog = std::make_unique<Watchdog>(timeout * kLongerThanTheTimeout, [&s] {
    return "rank " + std::to_string(index_of(s.rank)) +
           ": no progress within the time-out; last issued " +
           describe_op(*s.role, s.last_issued.load());
  });
  s.rehearse();
  s.communicators = std::make_unique<Communicators>(program, rank, broadcast, timeout);
}

CudaBackend::~CudaBackend() = default;

void CudaBackend::set_observer(std::function<void(OpId)> observer) {
  state_->observer = std::move(observer);
}

void* CudaBackend::allocate(BufferId buffer) {
  const State& s = *state_;
  const std::size_t index = index_of(buffer);
  if (s.role->buffers[index].host) {
    std::byte* data = s.pinned.data() + s.persistent_offsets[index];
    std::memset(data, 0,
                static_cast<std::size_t>(size_of(*s.program, s.role->buffers[index]).value));
    return data;
  }
  if (!s.role->buffers[index].persistent) {
    TRIREME_CHECK(s.plan.offsets[index] >= 0);
    return s.arena.data() + s.plan.offsets[index];
  }
  std::byte* data = s.persistent.data() + s.persistent_offsets[index];
  check(cudaMemset(data, 0,
                   static_cast<std::size_t>(size_of(*s.program, s.role->buffers[index]).value)),
        "persistent buffer");
  return data;
}

// The arena's plan already knows when the buffer ends.
void CudaBackend::release(BufferId /*buffer*/) {}

MemoryUse CudaBackend::memory() const {
  const DeviceMemory use = device_memory();
  return {use.buffers + use.workspaces,
          Bytes(state_->persistent_bytes) + use.arena + use.workspaces};
}

DeviceMemory CudaBackend::device_memory() const {
  const State& s = *state_;
  std::size_t workspaces = s.attention->scratch_bytes();
  for (std::size_t i = 0; i < s.streams.size(); ++i) {
    workspaces += s.workspaces[i].bytes() + s.scratches[i].bytes();
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "device memory");
  return {Bytes(s.persistent_bytes + s.plan.live_peak_bytes), Bytes(s.plan.arena_bytes),
          Bytes(static_cast<std::int64_t>(workspaces)),
          Bytes(static_cast<std::int64_t>(total_bytes - free_bytes))};
}

void CudaBackend::write(const View& view, std::span<const double> values) {
  TRIREME_CHECK(static_cast<std::int64_t>(values.size()) == view.count);
  if (view.type == ElementType::kCompute) {
    std::vector<__nv_bfloat16> converted(values.size());
    std::ranges::transform(values, converted.begin(),
                           [](double v) { return __float2bfloat16(static_cast<float>(v)); });
    check(cudaMemcpy(view.data, converted.data(), bytes_of(view), cudaMemcpyDefault), "write");
  } else {
    std::vector<float> converted(values.begin(), values.end());
    check(cudaMemcpy(view.data, converted.data(), bytes_of(view), cudaMemcpyDefault), "write");
  }
}

void CudaBackend::read(const View& view, std::span<double> values) {
  TRIREME_CHECK(static_cast<std::int64_t>(values.size()) == view.count);
  if (view.type == ElementType::kCompute) {
    std::vector<__nv_bfloat16> stored(values.size());
    check(cudaMemcpy(stored.data(), view.data, bytes_of(view), cudaMemcpyDefault), "read");
    std::ranges::transform(stored, values.begin(), [](__nv_bfloat16 v) {
      return static_cast<double>(__bfloat162float(v));
    });
  } else {
    std::vector<float> stored(values.size());
    check(cudaMemcpy(stored.data(), view.data, bytes_of(view), cudaMemcpyDefault), "read");
    std::ranges::copy(stored, values.begin());
  }
}

bool CudaBackend::fill_normal(const View& view, const NormalFill& fill) {
  cuda::fill_normal(state_->streams.front().raw(), view, fill);
  check(cudaStreamSynchronize(state_->streams.front().raw()), "initial values");
  return true;
}

void CudaBackend::write_tokens(const View& view, std::span<const std::int32_t> tokens) {
  TRIREME_CHECK(static_cast<std::int64_t>(tokens.size()) == view.count);
  check(cudaMemcpy(view.data, tokens.data(), tokens.size_bytes(), cudaMemcpyHostToDevice),
        "tokens");
}

void CudaBackend::begin_step(const StepSettings& settings) {
  State& s = *state_;
  s.settings = settings;
  s.watchdog->arm();
  if (settings.timed && s.before.empty()) {
    for (std::size_t i = 0; i < s.role->ops.size(); ++i) {
      s.before.emplace_back(static_cast<unsigned int>(cudaEventDefault));
      s.after.emplace_back(static_cast<unsigned int>(cudaEventDefault));
    }
  }
  // Every stream begins after the same event.
  check(cudaEventRecord(s.begin->raw(), s.streams.front().raw()), "step begin");
  for (const Stream& stream : s.streams) {
    check(cudaStreamWaitEvent(stream.raw(), s.begin->raw()), "step begin");
  }
}

void CudaBackend::wait(StreamId stream, OpId earlier) {
  const std::optional<Event>& event = state_->done[index_of(earlier)];
  TRIREME_CHECK(event.has_value());
  check(cudaStreamWaitEvent(state_->stream(stream), event->raw()), "wait");
}

void CudaBackend::compute(OpId op, StreamId stream, const Work& work,
                          std::span<const View> operands) {
  const State& s = *state_;
  const int counts = counts_of_product(work.kernel);
  const bool grouped = work.kernel == Kernel::kExpertMatmul && multiplies_grouped(work, operands);
  if (counts >= 0 && !grouped) {  // waits outside what is timed
    static_cast<void>(s.counts->read(operands[static_cast<std::size_t>(counts)]));
  }
  queue(op, stream, [&](cudaStream_t raw) {
    const std::size_t at = index_of(stream);
    run_kernel({s.program, s.rank, &s.settings, s.matmuls.get(), s.attention.get(), raw,
                s.workspaces[at].data(), s.scratches[at].data(), s.scratches[at].bytes(),
                s.counts.get(), s.lanes.get()},
               work, operands);
    if (work.kernel == Kernel::kExpertPlaces) {
      s.counts->mirror(operands[2], raw);
    }
  });
}

void CudaBackend::copy(OpId op, StreamId stream, const View& from, const View& to) {
  queue(op, stream, [&](cudaStream_t raw) {
    check(cudaMemcpyAsync(to.data, from.data, bytes_of(from), cudaMemcpyDefault, raw), "copy");
  });
}

void CudaBackend::State::wait_until_idle(Seconds limit) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit.value);
  for (const Stream& each : streams) {
    for (cudaError_t state = cudaStreamQuery(each.raw()); state != cudaSuccess;
         state = cudaStreamQuery(each.raw())) {
      std::string reason =
          state == cudaErrorNotReady ? communicators->failure() : cudaGetErrorString(state);
      if (reason.empty() && std::chrono::steady_clock::now() > until) {
        reason = "no end within the time-out";
      }
      if (!reason.empty()) {
        communicators->abort();
        throw Error("rank " + std::to_string(index_of(rank)),
                    reason + "; last issued " + describe_op(*role, last_issued.load()),
                    ErrorKind::kMissingMachine);
      }
      std::this_thread::yield();
    }
  }
}

std::vector<OpTimes> CudaBackend::end_step(Seconds timeout) {
  State& s = *state_;
  s.wait_until_idle(timeout);
  s.watchdog->disarm();
  check(cudaGetLastError(), "step");
  std::vector<OpTimes> times;
  if (!s.settings.timed) {
    return times;
  }
  for (std::size_t i = 0; i < s.role->ops.size(); ++i) {
    float started = 0;
    float ended = 0;
    check(cudaEventElapsedTime(&started, s.begin->raw(), s.before[i].raw()), "timing");
    check(cudaEventElapsedTime(&ended, s.begin->raw(), s.after[i].raw()), "timing");
    const double ready = static_cast<double>(started) * 1e-3;
    times.push_back({ready, ready, static_cast<double>(ended) * 1e-3});
  }
  return times;
}

}  // namespace trireme::runtime::cuda
