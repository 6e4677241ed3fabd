// Writes one role's program op by op. Waits follow from what the ops read and write: the builder
// adds the fewest events that order every pair of conflicting uses of a buffer, so that the passes
// only say what is computed. An op on another stream that is the first to touch a buffer also waits
// for the compute issued so far, whose memory it may be given.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/program.h"

namespace trireme::planner::lowering {

// The streams of a role, in this order.
enum class Stream : std::uint8_t {
  kCompute,
  kTensor,
  kGather,
  kReduce,
  kReplica,
  kSendForward,
  kRecvForward,
  kSendBackward,
  kRecvBackward,
  kContext,
  kExpert,
  kFromHost,
  kToHost,
  // Of the second chunk in a V, whose messages go the other way: one stream for both would let
  // those to one neighbour wait for the other neighbour to take its own.
  kSendForwardBack,
  kRecvForwardBack,
  kSendBackwardBack,
  kRecvBackwardBack,
};
inline constexpr std::size_t kStreamCount = 17;

// What a program has beyond the streams of all, which are the first: kHost those of the optimizer's
// states that lie in the host's memory, kHostAndV these and those of the second chunk in a V.
enum class MoreStreams : std::uint8_t { kNone, kHost, kHostAndV };

inline constexpr OpId kNoOp = OpId(0xffffffffU);

inline bool present(const Operand& operand) {
  return operand.count > 0;
}
inline Operand part(const Operand& whole, std::int64_t offset, std::int64_t count) {
  return {whole.buffer, kNoGroup, whole.offset + offset, count};
}
// Of what may be the own shard.
inline Operand own_part(const Operand& own, std::int64_t offset, std::int64_t count) {
  const std::int64_t stride = own.shard == kNoGroup || count == own.count ? 0 : own.count;
  return {own.buffer, own.shard, own.offset + offset, count, stride};
}
// The own shard of a whole unit.
inline Operand own_shard(const Operand& whole, GroupId group, std::int64_t count) {
  return {whole.buffer, group, whole.offset, count};
}

class ProgramBuilder {
 public:
  ProgramBuilder(const ElementWidths& widths, Program& program,
                 MoreStreams more = MoreStreams::kNone);

  // Where the ops that follow come from.
  Origin origin;

  // A new buffer, named for the current origin unless persistent.
  Operand buffer(std::string_view name, std::int64_t elements, ElementType type);
  Operand persistent_buffer(std::string_view name, std::int64_t elements, ElementType type,
                            std::int32_t layer = -1);
  Operand host_buffer(std::string_view name, std::int64_t elements, ElementType type,
                      std::int32_t layer = -1);

  OpId compute(std::string_view name, Kernel kernel, std::initializer_list<std::int64_t> dims,
               std::initializer_list<Operand> operands, Stream stream = Stream::kCompute);
  OpId all_reduce(std::string_view name, GroupId group, Reduction reduction, const Operand& input,
                  const Operand& output, Stream stream);
  OpId all_gather(std::string_view name, GroupId group, const Operand& input, const Operand& output,
                  Stream stream);
  OpId reduce_scatter(std::string_view name, GroupId group, const Operand& input,
                      const Operand& output, Stream stream);
  OpId all_to_all(std::string_view name, GroupId group, const Operand& input, const Operand& output,
                  Stream stream);
  OpId shift(std::string_view name, GroupId group, const Operand& input, const Operand& output,
             Stream stream);
  // Rows of `row` elements, as many for each member as the counts say.
  OpId exchange_rows(std::string_view name, const AllToAll& kind, const Operand& input,
                     const Operand& output, const Operand& sent, const Operand& arriving,
                     Stream stream);
  // A kModelledPass op of this traffic; the last operand is written, the others are read. `host`:
  // thousandths of a plain launch.
  OpId modelled_pass(std::string_view name, std::int64_t kernels, Bytes traffic,
                     std::initializer_list<Operand> operands, std::int64_t host = 0);
  // The same over parameters and their states, which stream at the memory's own rate.
  OpId state_pass(std::string_view name, std::int64_t kernels, Bytes traffic,
                  std::initializer_list<Operand> operands, std::int64_t host = 0);
  OpId send(std::string_view name, const Send& send, const Operand& operand, Stream stream);
  OpId recv(std::string_view name, const Recv& recv, const Operand& operand, Stream stream);
  OpId copy(std::string_view name, const Operand& from, const Operand& to, Stream stream);

  [[nodiscard]] ElementType type_of(const Operand& operand) const {
    return program_.buffers[index_of(operand.buffer)].type;
  }

  // The next op on `stream` also waits for this one (kNoOp: nothing).
  void also_wait(OpId op, Stream stream = Stream::kCompute);
  // The last op issued on a stream, kNoOp when there is none.
  [[nodiscard]] OpId last_on(Stream stream) const;

 private:
  using Clock = std::array<std::uint32_t, kStreamCount>;  // ops of each stream known to have ended
  struct BufferUse {
    Clock read{};             // position + 1 of the last reader on each stream
    std::uint32_t write = 0;  // position + 1 of the last writer
    std::uint8_t write_stream = 0;
  };
  struct OperandUse {
    const Operand* operand;
    char access;
  };

  OpId add_modelled(std::string_view name, const Work& work,
                    std::initializer_list<Operand> operands);
  OpId add(std::string_view name, const OpKind& kind, std::span<const OperandUse> uses,
           Stream stream);
  void need(Clock& needed, std::span<const OperandUse> uses, Stream stream) const;
  IndexRange add_waits(const Clock& needed, std::size_t stream);
  std::uint32_t name_index(std::string_view name);
  std::uint32_t work_index(const Work& work);
  [[nodiscard]] Work make_work(Kernel kernel, std::initializer_list<std::int64_t> dims,
                               std::span<const OperandUse> uses) const;

  ElementWidths widths_;
  Program& program_;
  std::vector<BufferUse> buffer_uses_;
  std::array<std::vector<OpId>, kStreamCount> on_stream_;
  std::vector<Clock> clocks_;  // by op: what has ended when it has
  std::array<Clock, kStreamCount> now_{};
  std::array<std::vector<OpId>, kStreamCount> extra_waits_;
  std::unordered_map<std::string_view, std::uint32_t> names_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> works_;
};

}  // namespace trireme::planner::lowering
