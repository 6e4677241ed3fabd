// Ops that meet those of other ranks: each is NCCL's call on the op's stream.
#include <numeric>
#include <string>

#include "runtime/cuda/backend_state.h"
#include "runtime/cuda/exchange.h"

namespace trireme::runtime::cuda {

void CudaBackend::all_reduce(OpId op, StreamId stream, GroupId group, Reduction reduction,
                             const View& input, const View& output) {
  const State& s = *state_;
  queue(op, stream, [&](cudaStream_t raw) {
    const ncclComm_t communicator = s.communicators->of_group(group, stream);
    check(ncclAllReduce(input.data, output.data, static_cast<std::size_t>(input.count),
                        nccl_type(input.type), reduction == Reduction::kMax ? ncclMax : ncclSum,
                        communicator, raw),
          "all_reduce");
  });
}

void CudaBackend::all_gather(OpId op, StreamId stream, GroupId group, const View& input,
                             const View& output) {
  const State& s = *state_;
  queue(op, stream, [&](cudaStream_t raw) {
    const ncclComm_t communicator = s.communicators->of_group(group, stream);
    check(ncclAllGather(input.data, output.data, static_cast<std::size_t>(input.count),
                        nccl_type(input.type), communicator, raw),
          "all_gather");
  });
}

void CudaBackend::reduce_scatter(OpId op, StreamId stream, GroupId group, const View& input,
                                 const View& output) {
  const State& s = *state_;
  queue(op, stream, [&](cudaStream_t raw) {
    const ncclComm_t communicator = s.communicators->of_group(group, stream);
    check(ncclReduceScatter(input.data, output.data, static_cast<std::size_t>(output.count),
                            nccl_type(input.type), ncclSum, communicator, raw),
          "reduce_scatter");
  });
}

void CudaBackend::all_to_all(OpId op, StreamId stream, const AllToAll& kind,
                             std::span<const View> operands) {
  const State& s = *state_;
  Exchange exchange{
      s.communicators->of_group(kind.group, stream), operands[0], operands[1], {}, {}};
  const std::int64_t members = group_size(s.program->groups[index_of(kind.group)]);
  if (kind.row == 0) {
    exchange.sent.assign(static_cast<std::size_t>(members), operands[0].count / members);
    exchange.arriving = exchange.sent;
  } else {
    exchange.sent = elements_of(s.counts->read(operands[2]), members, kind.row);
    exchange.arriving = elements_of(s.counts->read(operands[3]), members, kind.row);
    const std::int64_t all = std::reduce(exchange.arriving.begin(), exchange.arriving.end());
    if (all > operands[1].count) {
      throw Error("rank " + std::to_string(index_of(s.rank)),
                  describe_op(*s.role, op) + " brings " + std::to_string(all / kind.row) +
                      " rows, and there is room for " +
                      std::to_string(operands[1].count / kind.row) + "; give a larger expert_load");
    }
  }
  queue(op, stream, [&](cudaStream_t raw) {
    run_exchange(exchange, raw);
    s.counts->mirror(operands[1], raw);
  });
}

void CudaBackend::broadcast(OpId op, StreamId stream, GroupId group, std::uint32_t root,
                            const View& input, const View& output) {
  const State& s = *state_;
  queue(op, stream, [&](cudaStream_t raw) {
    const ncclComm_t communicator = s.communicators->of_group(group, stream);
    check(ncclBroadcast(input.data, output.data, static_cast<std::size_t>(input.count),
                        nccl_type(input.type), static_cast<int>(root), communicator, raw),
          "broadcast");
  });
}

// Both directions in one launch: each member would else wait for the next one to receive.
void CudaBackend::shift(OpId op, StreamId stream, GroupId group, const View& input,
                        const View& output) {
  const State& s = *state_;
  const auto members = static_cast<int>(group_size(s.program->groups[index_of(group)]));
  const auto place = static_cast<int>(index_in_group(*s.program, group, s.rank));
  queue(op, stream, [&](cudaStream_t raw) {
    const ncclComm_t communicator = s.communicators->of_group(group, stream);
    const auto count = static_cast<std::size_t>(input.count);
    check(ncclGroupStart(), "shift");
    check(ncclSend(input.data, count, nccl_type(input.type), (place + 1) % members, communicator,
                   raw),
          "shift");
    check(ncclRecv(output.data, count, nccl_type(output.type), (place + members - 1) % members,
                   communicator, raw),
          "shift");
    check(ncclGroupEnd(), "shift");
  });
}

void CudaBackend::send(OpId op, StreamId stream, const Send& message, const View& view) {
  const State& s = *state_;
  const auto peer = static_cast<Rank>(static_cast<std::int64_t>(index_of(s.rank)) + message.peer);
  queue(op, stream, [&](cudaStream_t raw) {
    const ncclComm_t communicator = s.communicators->of_message(s.rank, peer, message.channel);
    check(ncclSend(view.data, static_cast<std::size_t>(view.count), nccl_type(view.type), 1,
                   communicator, raw),
          "send");
  });
}

void CudaBackend::receive(OpId op, StreamId stream, const Recv& message, const View& view) {
  const State& s = *state_;
  const auto peer = static_cast<Rank>(static_cast<std::int64_t>(index_of(s.rank)) + message.peer);
  queue(op, stream, [&](cudaStream_t raw) {
    const ncclComm_t communicator = s.communicators->of_message(peer, s.rank, message.channel);
    check(ncclRecv(view.data, static_cast<std::size_t>(view.count), nccl_type(view.type), 0,
                   communicator, raw),
          "receive");
  });
}

}  // namespace trireme::runtime::cuda
