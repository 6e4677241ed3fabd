#include "planner/lower/builder.h"

#include <algorithm>

#include "core/check.h"
#include "core/kernel_work.h"

namespace trireme::planner::lowering {
namespace {

constexpr std::array<std::string_view, kStreamCount> kStreamNames = {"compute",
                                                                     "tensor",
                                                                     "gather",
                                                                     "reduce",
                                                                     "replica",
                                                                     "send_forward",
                                                                     "recv_forward",
                                                                     "send_backward",
                                                                     "recv_backward",
                                                                     "context",
                                                                     "expert",
                                                                     "from_host",
                                                                     "to_host",
                                                                     "send_forward_back",
                                                                     "recv_forward_back",
                                                                     "send_backward_back",
                                                                     "recv_backward_back"};
constexpr std::size_t kMaxOperands = 12;

std::uint64_t hash_of(const Work& work) {
  std::uint64_t hash = static_cast<std::uint64_t>(work.kernel) * 0x9e3779b97f4a7c15ULL;
  for (const std::int64_t dim : work.dims) {
    hash = (hash ^ static_cast<std::uint64_t>(dim)) * 0x100000001b3ULL;
    hash ^= hash >> 29;
  }
  return hash ^ static_cast<std::uint64_t>(work.traffic.value);
}

bool writes(char access) {
  return access != 'r';
}

}  // namespace

ProgramBuilder::ProgramBuilder(const ElementWidths& widths, Program& program, MoreStreams more)
    : widths_(widths), program_(program) {
  const Stream end = more == MoreStreams::kNone   ? Stream::kFromHost
                     : more == MoreStreams::kHost ? Stream::kSendForwardBack
                                                  : Stream{kStreamCount};
  program_.streams.assign(kStreamNames.begin(),
                          kStreamNames.begin() + static_cast<std::ptrdiff_t>(end));
}

std::uint32_t ProgramBuilder::name_index(std::string_view name) {
  const auto found = names_.find(name);
  if (found != names_.end()) {
    return found->second;
  }
  // Names passed here are literals or live as long as the builder: the map's keys point at them.
  const auto index = static_cast<std::uint32_t>(program_.names.size());
  program_.names.emplace_back(name);
  names_.emplace(name, index);
  return index;
}

Operand ProgramBuilder::buffer(std::string_view name, std::int64_t elements, ElementType type) {
  program_.buffers.push_back(
      {name_index(name), origin.layer, origin.micro_batch, elements, type, false});
  buffer_uses_.emplace_back();
  return {static_cast<BufferId>(program_.buffers.size() - 1), kNoGroup, 0, elements};
}

Operand ProgramBuilder::persistent_buffer(std::string_view name, std::int64_t elements,
                                          ElementType type, std::int32_t layer) {
  program_.buffers.push_back({name_index(name), layer, -1, elements, type, true});
  buffer_uses_.emplace_back();
  return {static_cast<BufferId>(program_.buffers.size() - 1), kNoGroup, 0, elements};
}

Operand ProgramBuilder::host_buffer(std::string_view name, std::int64_t elements, ElementType type,
                                    std::int32_t layer) {
  const Operand whole = persistent_buffer(name, elements, type, layer);
  program_.buffers.back().host = true;
  return whole;
}

Work ProgramBuilder::make_work(Kernel kernel, std::initializer_list<std::int64_t> dims,
                               std::span<const OperandUse> uses) const {
  Work work{kernel, {}, Flop(0), Bytes(0)};
  std::copy(dims.begin(), dims.end(), work.dims.begin());
  Bytes traffic;
  for (const OperandUse& use : uses) {
    const Buffer& buffer = program_.buffers[index_of(use.operand->buffer)];
    const Bytes size(use.operand->count * width_of(widths_, buffer.type));
    traffic += use.access == 'u' ? size * 2 : size;
  }
  work.traffic = kernel_traffic(work, traffic, widths_);
  work.flop = kernel_flop(work);
  return work;
}

std::uint32_t ProgramBuilder::work_index(const Work& work) {
  std::vector<std::uint32_t>& candidates = works_[hash_of(work)];
  for (const std::uint32_t candidate : candidates) {
    if (program_.works[candidate] == work) {
      return candidate;
    }
  }
  program_.works.push_back(work);
  candidates.push_back(static_cast<std::uint32_t>(program_.works.size() - 1));
  return candidates.back();
}

OpId ProgramBuilder::compute(std::string_view name, Kernel kernel,
                             std::initializer_list<std::int64_t> dims,
                             std::initializer_list<Operand> operands, Stream stream) {
  const KernelSignature& signature = signature_of(kernel);
  const bool free_form = signature.access == "*";
  TRIREME_CHECK(dims.size() == signature.dims.size());
  TRIREME_CHECK(operands.size() <= kMaxOperands);
  TRIREME_CHECK(free_form || operands.size() == signature.access.size());
  const int accumulate = dim_index(kernel, "accumulate");
  const bool adds = accumulate >= 0 && dims.begin()[accumulate] == 1;
  std::array<OperandUse, kMaxOperands> uses{};
  std::size_t count = 0;
  for (const Operand& operand : operands) {
    // Free-form kernels read everything but their last operand.
    char access = 'r';
    if (!free_form) {
      access = signature.access[count];
    } else if (count + 1 == operands.size()) {
      access = 'w';
    }
    if (access == 'a') {
      access = adds ? 'u' : 'w';
    }
    uses[count++] = {&operand, access};
  }
  const std::span<const OperandUse> used(uses.data(), count);
  const Compute kind{work_index(make_work(kernel, dims, used))};
  return add(name, kind, used, stream);
}

OpId ProgramBuilder::all_reduce(std::string_view name, GroupId group, Reduction reduction,
                                const Operand& input, const Operand& output, Stream stream) {
  const std::array<OperandUse, 2> uses = {{{&input, 'r'}, {&output, 'w'}}};
  return add(name, AllReduce{group, reduction}, uses, stream);
}

OpId ProgramBuilder::all_gather(std::string_view name, GroupId group, const Operand& input,
                                const Operand& output, Stream stream) {
  const std::array<OperandUse, 2> uses = {{{&input, 'r'}, {&output, 'w'}}};
  return add(name, AllGather{group}, uses, stream);
}

OpId ProgramBuilder::reduce_scatter(std::string_view name, GroupId group, const Operand& input,
                                    const Operand& output, Stream stream) {
  const std::array<OperandUse, 2> uses = {{{&input, 'r'}, {&output, 'w'}}};
  return add(name, ReduceScatter{group}, uses, stream);
}

OpId ProgramBuilder::all_to_all(std::string_view name, GroupId group, const Operand& input,
                                const Operand& output, Stream stream) {
  const std::array<OperandUse, 2> uses = {{{&input, 'r'}, {&output, 'w'}}};
  return add(name, AllToAll{group}, uses, stream);
}

OpId ProgramBuilder::shift(std::string_view name, GroupId group, const Operand& input,
                           const Operand& output, Stream stream) {
  const std::array<OperandUse, 2> uses = {{{&input, 'r'}, {&output, 'w'}}};
  return add(name, Shift{group}, uses, stream);
}

OpId ProgramBuilder::exchange_rows(std::string_view name, const AllToAll& kind,
                                   const Operand& input, const Operand& output, const Operand& sent,
                                   const Operand& arriving, Stream stream) {
  const std::array<OperandUse, 4> uses = {
      {{&input, 'r'}, {&output, 'w'}, {&sent, 'r'}, {&arriving, 'r'}}};
  return add(name, kind, uses, stream);
}

OpId ProgramBuilder::modelled_pass(std::string_view name, std::int64_t kernels, Bytes traffic,
                                   std::initializer_list<Operand> operands, std::int64_t host) {
  return add_modelled(name, {Kernel::kModelledPass, {kernels, 0, host}, Flop(0), traffic},
                      operands);
}

OpId ProgramBuilder::state_pass(std::string_view name, std::int64_t kernels, Bytes traffic,
                                std::initializer_list<Operand> operands, std::int64_t host) {
  return add_modelled(name, {Kernel::kModelledPass, {kernels, 1, host}, Flop(0), traffic},
                      operands);
}

OpId ProgramBuilder::add_modelled(std::string_view name, const Work& work,
                                  std::initializer_list<Operand> operands) {
  std::array<OperandUse, kMaxOperands> uses{};
  std::size_t count = 0;
  for (const Operand& operand : operands) {
    uses[count] = {&operand, count + 1 == operands.size() ? 'w' : 'r'};
    ++count;
  }
  return add(name, Compute{work_index(work)}, {uses.data(), count}, Stream::kCompute);
}

OpId ProgramBuilder::send(std::string_view name, const Send& send, const Operand& operand,
                          Stream stream) {
  const std::array<OperandUse, 1> uses = {{{&operand, 'r'}}};
  return add(name, send, uses, stream);
}

OpId ProgramBuilder::recv(std::string_view name, const Recv& recv, const Operand& operand,
                          Stream stream) {
  const std::array<OperandUse, 1> uses = {{{&operand, 'w'}}};
  return add(name, recv, uses, stream);
}

OpId ProgramBuilder::copy(std::string_view name, const Operand& from, const Operand& to,
                          Stream stream) {
  const std::array<OperandUse, 2> uses = {{{&from, 'r'}, {&to, 'w'}}};
  return add(name, Copy{}, uses, stream);
}

void ProgramBuilder::also_wait(OpId op, Stream stream) {
  if (op != kNoOp) {
    extra_waits_[static_cast<std::size_t>(stream)].push_back(op);
  }
}

OpId ProgramBuilder::last_on(Stream stream) const {
  const std::vector<OpId>& ops = on_stream_[static_cast<std::size_t>(stream)];
  return ops.empty() ? kNoOp : ops.back();
}

// What must have ended before these uses: the last writer, for a writer also every reader, and
// before another stream takes new memory the compute that may have had it.
void ProgramBuilder::need(Clock& needed, std::span<const OperandUse> uses, Stream stream) const {
  for (const OperandUse& use : uses) {
    const Buffer& whole = program_.buffers[index_of(use.operand->buffer)];
    if (whole.host && use.operand->count < whole.elements) {
      continue;  // a part's copies are ordered by the place on the device that they share
    }
    const BufferUse& buffer = buffer_uses_[index_of(use.operand->buffer)];
    const bool first_use = buffer.write == 0 && buffer.read == Clock{} &&
                           !program_.buffers[index_of(use.operand->buffer)].persistent;
    if (first_use && stream != Stream::kCompute) {
      needed[0] = static_cast<std::uint32_t>(on_stream_[0].size());
    }
    if (buffer.write > 0) {
      needed[buffer.write_stream] = std::max(needed[buffer.write_stream], buffer.write);
    }
    if (writes(use.access)) {
      for (std::size_t s = 0; s < kStreamCount; ++s) {
        needed[s] = std::max(needed[s], buffer.read[s]);
      }
    }
  }
}

IndexRange ProgramBuilder::add_waits(const Clock& needed, std::size_t stream) {
  IndexRange range{static_cast<std::uint32_t>(program_.waits.size()), 0};
  std::array<OpId, kStreamCount> candidates{};
  std::size_t count = 0;
  for (std::size_t s = 0; s < kStreamCount; ++s) {
    if (s != stream && needed[s] > now_[stream][s]) {
      candidates[count++] = on_stream_[s][needed[s] - 1];
    }
  }
  // Latest first: what it waited for need not be waited for again.
  std::sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count),
            [](OpId a, OpId b) { return a > b; });
  for (std::size_t i = 0; i < count; ++i) {
    const Op& before = program_.ops[index_of(candidates[i])];
    const std::size_t s = index_of(before.stream);
    if (needed[s] <= now_[stream][s]) {
      continue;
    }
    program_.waits.push_back(candidates[i]);
    ++range.count;
    const Clock& ended = clocks_[index_of(candidates[i])];
    for (std::size_t q = 0; q < kStreamCount; ++q) {
      now_[stream][q] = std::max(now_[stream][q], ended[q]);
    }
  }
  return range;
}

OpId ProgramBuilder::add(std::string_view name, const OpKind& kind,
                         std::span<const OperandUse> uses, Stream stream) {
  const auto s = static_cast<std::size_t>(stream);
  Clock needed{};
  need(needed, uses, stream);
  for (const OpId op : extra_waits_[s]) {
    const std::size_t other = index_of(program_.ops[index_of(op)].stream);
    needed[other] = std::max(needed[other], clocks_[index_of(op)][other]);
  }
  extra_waits_[s].clear();
  Op op;
  op.kind = kind;
  op.waits = add_waits(needed, s);
  op.operands = {static_cast<std::uint32_t>(program_.operands.size()),
                 static_cast<std::uint32_t>(uses.size())};
  op.origin = origin;
  op.name = name_index(name);
  op.stream = static_cast<StreamId>(s);
  const auto id = static_cast<OpId>(program_.ops.size());
  on_stream_[s].push_back(id);
  const auto position = static_cast<std::uint32_t>(on_stream_[s].size());
  for (const OperandUse& use : uses) {
    program_.operands.push_back(*use.operand);
    BufferUse& buffer = buffer_uses_[index_of(use.operand->buffer)];
    if (writes(use.access)) {
      buffer.write = position;
      buffer.write_stream = static_cast<std::uint8_t>(s);
    }
    buffer.read[s] = position;
  }
  now_[s][s] = position;
  clocks_.push_back(now_[s]);
  program_.ops.push_back(op);
  return id;
}

}  // namespace trireme::planner::lowering
