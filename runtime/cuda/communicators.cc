#include "runtime/cuda/communicators.h"

#include <chrono>
#include <cstring>
#include <set>
#include <thread>
#include <variant>

#include "core/check.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device_objects.h"

namespace trireme::runtime::cuda {
namespace {

Rank shifted(Rank rank, std::int32_t by) {
  return Rank(static_cast<std::uint32_t>(static_cast<std::int64_t>(index_of(rank)) + by));
}

// Every communicator that any rank uses, in an order that all ranks agree on.
std::set<CommunicatorKey> all_keys(const StepProgram& program) {
  std::set<CommunicatorKey> keys;
  for (std::int64_t r = 0; r < program.ranks; ++r) {
    const auto rank = static_cast<Rank>(r);
    const Program& role = program.roles[index_of(role_of(program, rank))];
    std::set<std::pair<std::uint32_t, std::uint32_t>> seen;  // (group, stream)
    struct Collect {
      const StepProgram& program;
      Rank rank;
      std::uint32_t stream;
      std::set<std::pair<std::uint32_t, std::uint32_t>>& seen;
      std::set<CommunicatorKey>& keys;
      void group(GroupId id) const {
        if (seen.emplace(index_of(id), stream).second) {
          keys.insert({false, stream, members_of(program, id, rank)});
        }
      }
      void operator()(const Compute&) const {}
      void operator()(const Copy&) const {}
      void operator()(const AllReduce& k) const { group(k.group); }
      void operator()(const AllGather& k) const { group(k.group); }
      void operator()(const ReduceScatter& k) const { group(k.group); }
      void operator()(const AllToAll& k) const { group(k.group); }
      void operator()(const Broadcast& k) const { group(k.group); }
      void operator()(const Send& k) const {
        keys.insert({true, k.channel, {rank, shifted(rank, k.peer)}});
      }
      void operator()(const Recv& k) const {
        keys.insert({true, k.channel, {shifted(rank, k.peer), rank}});
      }
    };
    for (const Op& op : role.ops) {
      std::visit(Collect{program, rank, index_of(op.stream), seen, keys}, op.kind);
    }
  }
  std::erase_if(keys, [](const CommunicatorKey& key) { return key.members.size() < 2; });
  return keys;
}

// A first exchange of one element. What NCCL sets up at first use would otherwise be set up while
// kernels of this rank wait for the very peer that is setting it up.
void connect(const CommunicatorKey& key, ncclComm_t communicator, std::size_t place,
             Seconds timeout) {
  const Stream stream(0);
  const DeviceBytes element(sizeof(float) * key.members.size(), "NCCL communicator");
  if (!key.is_message) {
    settle(communicator,
           ncclAllReduce(element.data(), element.data(), 1, ncclFloat32, ncclSum, communicator,
                         stream.raw()),
           "NCCL connection", timeout);
  } else if (place == 0) {
    settle(communicator, ncclSend(element.data(), 1, ncclFloat32, 1, communicator, stream.raw()),
           "NCCL connection", timeout);
  } else {
    settle(communicator, ncclRecv(element.data(), 1, ncclFloat32, 0, communicator, stream.raw()),
           "NCCL connection", timeout);
  }
  check(cudaStreamSynchronize(stream.raw()), "NCCL connection");
}

}  // namespace

void settle(ncclComm_t communicator, ncclResult_t status, const char* what, Seconds timeout) {
  check(status, what);
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout.value);
  ncclResult_t state = status;
  while (state == ncclInProgress) {
    if (ncclCommGetAsyncError(communicator, &state) != ncclSuccess) {
      break;
    }
    if (state == ncclInProgress) {
      if (std::chrono::steady_clock::now() > until) {
        throw Error(what, "a peer did not answer in time", ErrorKind::kMissingMachine);
      }
      std::this_thread::yield();
    }
  }
  check(state, what);
}

Communicators::Communicators(const StepProgram& program, Rank rank, const BroadcastBlob& broadcast,
                             Seconds timeout)
    : program_(&program), rank_(rank) {
  const std::set<CommunicatorKey> keys = all_keys(program);
  if (keys.empty()) {
    return;
  }
  std::string ids(keys.size() * sizeof(ncclUniqueId), '\0');
  if (index_of(rank) == 0) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ncclUniqueId id{};
      check(ncclGetUniqueId(&id), "NCCL unique id");
      std::memcpy(ids.data() + i * sizeof(id), &id, sizeof(id));
    }
  }
  ids = broadcast(ids);
  TRIREME_CHECK(ids.size() == keys.size() * sizeof(ncclUniqueId));
  std::size_t i = 0;
  for (const CommunicatorKey& key : keys) {
    ncclUniqueId id{};
    std::memcpy(&id, ids.data() + i * sizeof(id), sizeof(id));
    ++i;
    for (std::size_t place = 0; place < key.members.size(); ++place) {
      if (key.members[place] != rank) {
        continue;
      }
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t communicator = nullptr;
      const ncclResult_t status =
          ncclCommInitRankConfig(&communicator, static_cast<int>(key.members.size()), id,
                                 static_cast<int>(place), &config);
      settle(communicator, status, "NCCL communicator", timeout);
      made_[key] = communicator;
      connect(key, communicator, place, timeout);
    }
  }
}

Communicators::~Communicators() {
  for (auto& [key, communicator] : made_) {
    ncclCommAbort(communicator);
  }
}

ncclComm_t Communicators::of_group(GroupId group, StreamId stream) const {
  return made_.at({false, index_of(stream), members_of(*program_, group, rank_)});
}

ncclComm_t Communicators::of_message(Rank sender, Rank receiver, std::uint16_t channel) const {
  return made_.at({true, channel, {sender, receiver}});
}

std::string Communicators::failure() const {
  for (const auto& [key, communicator] : made_) {
    ncclResult_t state = ncclSuccess;
    if (ncclCommGetAsyncError(communicator, &state) == ncclSuccess && state != ncclSuccess &&
        state != ncclInProgress) {
      return std::string("NCCL says: ") + ncclGetErrorString(state);
    }
  }
  return {};
}

void Communicators::abort() {
  for (auto& [key, communicator] : made_) {
    ncclCommAbort(communicator);
  }
  made_.clear();
}

}  // namespace trireme::runtime::cuda
