#include "runtime/cuda/communicators.h"

#include <chrono>
#include <cstring>
#include <future>
#include <set>
#include <thread>
#include <variant>

#include "core/check.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device_objects.h"

namespace trireme::runtime::cuda {
namespace {

// Multiprocessors of a message. A receive is posted ahead and spins until its sender comes; a
// product that just fills the GPU takes twice as long beside one that holds many (128 tiles on 132
// multiprocessors: mlp_down of Llama-3.2-1B took 320 us instead of 182, 2 H200).
constexpr int kMessageBlocks = 2;

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
      void operator()(const Shift& k) const { group(k.group); }
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
void connect(ncclComm_t communicator, CommunicatorUse use, int size, int place) {
  const Stream stream(0);
  const DeviceBytes element(sizeof(float) * static_cast<std::size_t>(size), "NCCL communicator");
  ncclResult_t status = ncclSuccess;
  if (use == CommunicatorUse::kCollectives) {
    status = ncclAllReduce(element.data(), element.data(), 1, ncclFloat32, ncclSum, communicator,
                           stream.raw());
  } else if (place == 0) {
    status = ncclSend(element.data(), 1, ncclFloat32, 1, communicator, stream.raw());
  } else if (place == 1) {
    status = ncclRecv(element.data(), 1, ncclFloat32, 0, communicator, stream.raw());
  }
  check(status, "NCCL connection");
  check(cudaStreamSynchronize(stream.raw()), "NCCL connection");
}

}  // namespace

ncclComm_t make_communicator(const ncclUniqueId& id, CommunicatorUse use, int size, int place,
                             Seconds timeout) {
  int device = 0;
  check(cudaGetDevice(&device), "GPU");
  std::packaged_task<ncclComm_t()> make([=] {
    check(cudaSetDevice(device), "GPU");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    if (use == CommunicatorUse::kMessages) {
      config.maxCTAs = kMessageBlocks;
    }
    ncclComm_t communicator = nullptr;
    check(ncclCommInitRankConfig(&communicator, size, id, place, &config), "NCCL communicator");
    connect(communicator, use, size, place);
    return communicator;
  });
  std::future<ncclComm_t> made = make.get_future();
  std::thread(std::move(make)).detach();  // nothing ends it early: the process must be able to
  if (made.wait_for(std::chrono::duration<double>(timeout.value)) != std::future_status::ready) {
    throw Error("NCCL communicator", "a peer did not answer in time", ErrorKind::kMissingMachine);
  }
  return made.get();
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
      made_[key] = make_communicator(
          id, key.is_message ? CommunicatorUse::kMessages : CommunicatorUse::kCollectives,
          static_cast<int>(key.members.size()), static_cast<int>(place), timeout);
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
    // A state, not the result of a call: a communicator may be in progress while it is polled.
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
