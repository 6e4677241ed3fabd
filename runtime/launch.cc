#include "runtime/launch.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <thread>

#include "core/check.h"
#include "core/error.h"
#include "runtime/peer_watch.h"

namespace trireme::runtime {
namespace {

constexpr std::uint16_t kDefaultPort = 29500;  // torchrun's default too
constexpr const char* kLocal = "local";        // this program started the ranks itself

std::optional<std::int64_t> read_number(const ReadVariable& read, const char* name,
                                        std::int64_t low, std::int64_t high) {
  const char* text = read(name);
  if (text == nullptr || *text == '\0') {
    return std::nullopt;
  }
  std::int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end || value < low || value > high) {
    throw Error(name, fmt::format("\"{}\" is not a whole number from {} to {}", text, low, high));
  }
  return value;
}

struct Names {
  const char* launcher;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;  // how many there are on this host
  const char* job;
};
// torchrun's names are also what other launchers export; first match wins.
constexpr std::array<Names, 4> kLaunchers = {{
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ""},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", "SLURM_JOB_ID"},
}};

std::string text_of(const ReadVariable& read, const char* name) {
  const char* text = *name != '\0' ? read(name) : nullptr;
  return text == nullptr ? "" : text;
}

// srun speaks the protocol of Intel MPI's and MPICH's mpirun (--mpi=pmi2), but says the local rank
// in its own variable only.
bool is_srun(const ReadVariable& read, const Names& names) {
  return std::strcmp(names.rank, "PMI_RANK") == 0 && text_of(read, names.local_rank).empty() &&
         !text_of(read, "SLURM_PROCID").empty();
}

// One word, as short as greetings want it; a Slurm job has steps.
std::string job_of(const ReadVariable& read, const Names& names) {
  constexpr std::size_t kMost = 64;
  std::string job = text_of(read, names.job);
  if (std::strcmp(names.launcher, "srun") == 0) {
    job += "." + text_of(read, "SLURM_STEP_ID");
  }
  std::replace(job.begin(), job.end(), ' ', '_');
  return job.substr(0, kMost);
}

// Where rank 0 is. Of launchers that do not say, all ranks must be on one host.
std::string master_host(const ReadVariable& read, const Names& names, std::int64_t ranks) {
  if (std::string host = text_of(read, "MASTER_ADDR"); !host.empty()) {
    return host;
  }
  const bool mpirun = std::strcmp(names.launcher, "mpirun") == 0;  // its daemons' step, if any
  const std::string nodes = mpirun ? "" : text_of(read, "SLURM_STEP_NODELIST");
  if (!nodes.empty() && text_of(read, "SLURM_STEP_NUM_NODES") != "1") {
    return first_host(nodes);
  }
  const auto here =
      *names.local_ranks != '\0' ? read_number(read, names.local_ranks, 1, ranks) : std::nullopt;
  if (nodes.empty() && here.has_value() && *here < ranks) {
    throw Error(
        "MASTER_ADDR",
        fmt::format("is missing: {} of {} ranks are on this host, and {} does not say where "
                    "rank 0 is; give every rank MASTER_ADDR=HOST (mpirun -x MASTER_ADDR=HOST)",
                    *here, ranks, names.launcher));
  }
  return "127.0.0.1";
}

}  // namespace

std::string first_host(const std::string& node_list) {
  const std::size_t bracket = node_list.find('[');
  const std::size_t comma = node_list.find(',');
  if (bracket == std::string::npos || comma < bracket) {
    return node_list.substr(0, comma);
  }
  return node_list.substr(0, bracket) +
         node_list.substr(bracket + 1, node_list.find_first_of("-,]", bracket) - bracket - 1);
}

std::optional<RankEnvironment> rank_environment(const ReadVariable& read) {
  constexpr std::int64_t kRanksMax = 1 << 20;
  for (const Names& names : kLaunchers) {
    const auto rank = read_number(read, names.rank, 0, kRanksMax - 1);
    const auto ranks = read_number(read, names.ranks, 1, kRanksMax);
    if ((!rank.has_value() && !ranks.has_value()) || is_srun(read, names)) {
      continue;
    }
    if (!rank.has_value() || !ranks.has_value()) {
      throw Error(rank.has_value() ? names.ranks : names.rank,
                  fmt::format("is missing; {} and {} come together", names.rank, names.ranks));
    }
    if (*rank >= *ranks) {
      throw Error(names.rank, fmt::format("{} is not below {} {}", *rank, names.ranks, *ranks));
    }
    RankEnvironment result;
    result.rank = Rank(static_cast<std::uint32_t>(*rank));
    result.ranks = *ranks;
    result.local_rank = read_number(read, names.local_rank, 0, kRanksMax).value_or(*rank);
    result.launcher = names.launcher;
    result.master.host = master_host(read, names, *ranks);
    result.master.job = job_of(read, names);
    auto port = read_number(read, "MASTER_PORT", 1, 65534).value_or(kDefaultPort);
    // torchrun's agent may serve its own store at MASTER_PORT; ours then takes the next port.
    const char* agent = read("TORCHELASTIC_USE_AGENT_STORE");
    port += agent != nullptr && std::strcmp(agent, "True") == 0 ? 1 : 0;
    result.master.port = static_cast<std::uint16_t>(port);
    return result;
  }
  return std::nullopt;
}

namespace {

class StoreCoordinator final : public Coordinator {
 public:
  StoreCoordinator(const RankEnvironment& environment, Seconds timeout)
      : environment_(environment),
        timeout_(timeout),
        server_(environment.rank == Rank(0) ? serve(environment) : nullptr),
        client_(environment.master, environment.rank, environment.ranks, timeout) {
    client_.set(fmt::format("host/{}", index_of(environment.rank)), host_identity());
    // Who forked the ranks sees them end; those of a launcher have only each other.
    if (environment.launcher != kLocal) {
      watch_ = std::make_unique<PeerWatch>(
          environment.master, environment.rank, environment.ranks, timeout,
          [rank = index_of(environment.rank)](const std::string& reason) {
            fmt::print(stderr, "trireme: rank {}: stopped because {}\n", rank, reason);
            std::_Exit(3);
          },
          PeerWatch::Times{});
    }
  }
  StoreCoordinator(const StoreCoordinator&) = delete;
  StoreCoordinator& operator=(const StoreCoordinator&) = delete;
  StoreCoordinator(StoreCoordinator&&) = delete;
  StoreCoordinator& operator=(StoreCoordinator&&) = delete;
  ~StoreCoordinator() override {
    watch_.reset();  // before the store goes
    if (std::uncaught_exceptions() > exceptions_) {
      client_.fail(
          fmt::format("rank {} on {} has failed", index_of(environment_.rank), host_identity()));
      return;
    }
    // The store stays until everybody has said what they had to say; when that fails there is
    // nobody to tell.
    try {
      barrier();
      if (server_ == nullptr) {
        client_.set(fmt::format("left/{}", index_of(environment_.rank)), "");
      }
      for (std::int64_t other = 1; server_ != nullptr && other < environment_.ranks; ++other) {
        client_.get(fmt::format("left/{}", other), timeout_);
      }
    } catch (const Error&) {
      return;
    }
  }

  [[nodiscard]] Rank rank() const override { return environment_.rank; }
  [[nodiscard]] std::int64_t ranks() const override { return environment_.ranks; }
  void barrier() override {
    gather("");
    broadcast("");
  }
  std::vector<std::string> gather(const std::string& blob) override {
    const std::int64_t round = gathers_++;
    client_.set(fmt::format("gather/{}/{}", round, index_of(environment_.rank)), blob);
    std::vector<std::string> all;
    for (std::int64_t other = 0; environment_.rank == Rank(0) && other < environment_.ranks;
         ++other) {
      all.push_back(from(other, fmt::format("gather/{}/{}", round, other), 1));
    }
    return all;
  }
  std::string broadcast(const std::string& blob) override {
    const std::string key = fmt::format("broadcast/{}", broadcasts_++);
    if (environment_.rank == Rank(0)) {
      client_.set(key, blob);
    }
    return from(0, key, environment_.ranks);
  }
  std::string failure() override { return client_.failure(); }

 private:
  // What a rank has to say under `key`; when it does not, the error names it and its host.
  std::string from(std::int64_t rank, const std::string& key, std::int64_t readers) {
    try {
      return client_.get(key, timeout_, readers);
    } catch (const Error& error) {
      if (!client_.failure().empty()) {
        throw;
      }
      throw Error(
          fmt::format("rank {}", index_of(environment_.rank)),
          fmt::format("waited {:.3g} s for rank {} on {}", timeout_.value, rank, host_of(rank)),
          error.kind());
    }
  }
  // A rank that never came has told nobody.
  std::string host_of(std::int64_t rank) {
    constexpr Seconds kPatience(1);
    try {
      return client_.get(fmt::format("host/{}", rank), kPatience);
    } catch (const Error&) {
      return "a host that did not answer";
    }
  }

  static std::unique_ptr<TcpStoreServer> serve(const RankEnvironment& environment) {
    if (environment.listener < 0) {
      return std::make_unique<TcpStoreServer>(environment.master);
    }
    return std::make_unique<TcpStoreServer>(
        Listener{Descriptor(environment.listener), environment.master.port},
        environment.master.job);
  }

  RankEnvironment environment_;
  Seconds timeout_;
  std::unique_ptr<TcpStoreServer> server_;
  TcpStoreClient client_;
  std::unique_ptr<PeerWatch> watch_;
  int exceptions_ = std::uncaught_exceptions();
  std::int64_t gathers_ = 0;
  std::int64_t broadcasts_ = 0;
};

}  // namespace

std::unique_ptr<Coordinator> make_store_coordinator(const RankEnvironment& environment,
                                                    Seconds timeout) {
  return std::make_unique<StoreCoordinator>(environment, timeout);
}

OpBoard::OpBoard(std::int64_t ranks)
    : size_(static_cast<std::size_t>(ranks) * sizeof(std::uint32_t)) {
  void* page = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    throw Error("launch", "cannot share memory with the ranks");
  }
  slots_ = static_cast<std::uint32_t*>(page);
  std::fill_n(slots_, ranks, 0xffffffffU);
}
OpBoard::~OpBoard() {
  ::munmap(slots_, size_);
}
void OpBoard::set(Rank rank, OpId op) {
  std::atomic_ref<std::uint32_t>(slots_[index_of(rank)])
      .store(index_of(op), std::memory_order_relaxed);
}
OpId OpBoard::get(Rank rank) const {
  return OpId(
      std::atomic_ref<std::uint32_t>(slots_[index_of(rank)]).load(std::memory_order_relaxed));
}

namespace {

int run_child(const RankEnvironment& environment,
              const std::function<int(const RankEnvironment&)>& body,
              const std::function<void(const std::string&)>& report) {
  try {
    return body(environment);
  } catch (const Error& error) {
    report(error.what());
    return error.kind() == ErrorKind::kMissingMachine ? 3 : 2;
  } catch (const std::exception& error) {
    report(error.what());
    return 2;
  }
}

std::string ending_of(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  }
  return fmt::format("failed with exit code {}", WEXITSTATUS(status));
}

// After the first failure the others have this long to end by themselves.
constexpr std::chrono::seconds kGrace{5};

struct Ending {
  Rank rank{};
  int status = 0;
};

// A rank that a signal ended is why the others failed, whoever's end was seen first.
const Ending& culprit_of(const std::vector<Ending>& failures) {
  for (const Ending& ending : failures) {
    if (WIFSIGNALED(ending.status)) {
      return ending;
    }
  }
  return failures.front();
}

void end_processes(const std::map<pid_t, Rank>& alive) {
  for (const auto& [process, rank] : alive) {
    ::kill(process, SIGKILL);
  }
}

}  // namespace

int run_local_processes(std::int64_t ranks, OpBoard& board,
                        const std::function<int(const RankEnvironment&)>& body,
                        const std::function<std::string(Rank, OpId)>& describe,
                        const std::function<void(const std::string&)>& report) {
  Listener listener = listen_at({"127.0.0.1", 0});  // rank 0's, so that nobody else takes the port
  std::map<pid_t, Rank> alive;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const pid_t process = ::fork();
    if (process < 0) {
      end_processes(alive);
      throw Error("launch", fmt::format("cannot start rank {}: {}", rank, std::strerror(errno)));
    }
    if (process == 0) {
      RankEnvironment environment{.rank = Rank(rank),
                                  .ranks = ranks,
                                  .local_rank = rank,
                                  .master = {"127.0.0.1", listener.port},
                                  .launcher = kLocal};
      if (rank == 0) {
        environment.listener = listener.socket.release();
      } else {
        listener.socket = {};
      }
      std::_Exit(run_child(environment, body, report));
    }
    alive[process] = Rank(rank);
  }
  listener.socket = {};
  std::vector<Ending> failures;
  auto deadline = std::chrono::steady_clock::time_point::max();
  bool killed = false;
  while (!alive.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended <= 0) {
      if (!killed && std::chrono::steady_clock::now() > deadline) {
        killed = true;
        end_processes(alive);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    const auto found = alive.find(ended);
    if (found == alive.end()) {
      continue;
    }
    if (status != 0 && !killed) {
      failures.push_back({found->second, status});
      deadline = std::min(deadline, std::chrono::steady_clock::now() + kGrace);
    }
    alive.erase(found);
  }
  if (failures.empty()) {
    return 0;
  }
  const Ending& culprit = culprit_of(failures);
  std::string line =
      fmt::format("rank {} {} in {}", index_of(culprit.rank), ending_of(culprit.status),
                  describe(culprit.rank, board.get(culprit.rank)));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (Rank(rank) != culprit.rank) {
      line += fmt::format("; rank {} was in {}", rank, describe(Rank(rank), board.get(Rank(rank))));
    }
  }
  report(line);
  return WIFEXITED(culprit.status) ? WEXITSTATUS(culprit.status) : 2;
}

}  // namespace trireme::runtime
