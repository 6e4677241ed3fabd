// How ranks come to be: a launcher (torchrun, srun, mpirun) started this process as one of them and
// said so in its environment, or this process starts the local ranks itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/units.h"
#include "runtime/coordinator.h"
#include "runtime/tcp_store.h"

namespace trireme::runtime {

struct RankEnvironment {
  Rank rank{};
  std::int64_t ranks = 1;
  std::int64_t local_rank = 0;  // which of this host's devices
  StoreAddress master;
  std::string launcher;  // "torchrun", "srun", "mpirun", "local"
  int listener = -1;  // a socket that listens at `master` already, for rank 0 to serve on; -1: none
};

// Reads a variable of the environment; std::getenv in production.
using ReadVariable = std::function<const char*(const char*)>;

// RANK, WORLD_SIZE, LOCAL_RANK (torchrun and others); else SLURM_PROCID, SLURM_NTASKS,
// SLURM_LOCALID; else OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK or PMI_RANK, PMI_SIZE. MASTER_ADDR
// and MASTER_PORT say where rank 0 serves (default port 29500; the address may be left out on one
// host, and under srun). Nothing when no launcher started this process. Throws Error on half a set,
// a value that is not a number in range, or mpirun's ranks on several hosts without an address.
std::optional<RankEnvironment> rank_environment(const ReadVariable& read);

// The first host of a Slurm node list: "gpu[003-010,12],cpu1" gives "gpu003".
std::string first_host(const std::string& node_list);

// A coordinator between processes: rank 0 also runs the store. `timeout` bounds every wait.
std::unique_ptr<Coordinator> make_store_coordinator(const RankEnvironment& environment,
                                                    Seconds timeout);

// Where a rank's process says which op it is in, readable by the parent after the rank has died.
class OpBoard {
 public:
  explicit OpBoard(std::int64_t ranks);
  OpBoard(const OpBoard&) = delete;
  OpBoard& operator=(const OpBoard&) = delete;
  OpBoard(OpBoard&&) = delete;
  OpBoard& operator=(OpBoard&&) = delete;
  ~OpBoard();
  void set(Rank rank, OpId op);
  [[nodiscard]] OpId get(Rank rank) const;  // 0xffffffff: none yet

 private:
  std::uint32_t* slots_ = nullptr;
  std::size_t size_ = 0;
};

// Forks `ranks` processes that run `body` and exit with what it returns (Errors are printed by
// `report` and exit with 2 or 3). When one fails or is killed the others are ended. Returns the
// exit code of the first that failed, else 0; `describe` turns a rank and its op into words for the
// message. Call before any thread or CUDA context exists.
int run_local_processes(std::int64_t ranks, OpBoard& board,
                        const std::function<int(const RankEnvironment&)>& body,
                        const std::function<std::string(Rank, OpId)>& describe,
                        const std::function<void(const std::string&)>& report);

}  // namespace trireme::runtime
