#include "runtime/cpu/threads.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "core/error.h"

namespace trireme::runtime::cpu {
namespace {

// What the threads' coordinators share.
struct MeetingPlace {
  std::mutex mutex;
  std::condition_variable change;
  std::int64_t arrived = 0;
  std::uint64_t generation = 0;
  std::vector<std::string> blobs;
};

class ThreadCoordinator : public Coordinator {
 public:
  ThreadCoordinator(Rank rank, std::int64_t ranks, Seconds timeout, MeetingPlace& place,
                    Exchange& exchange)
      : rank_(rank), ranks_(ranks), timeout_(timeout), place_(&place), exchange_(&exchange) {}

  [[nodiscard]] Rank rank() const override { return rank_; }
  [[nodiscard]] std::int64_t ranks() const override { return ranks_; }

  void barrier() override {
    std::unique_lock lock(place_->mutex);
    const std::uint64_t generation = place_->generation;
    if (++place_->arrived == ranks_) {
      place_->arrived = 0;
      ++place_->generation;
      place_->change.notify_all();
      return;
    }
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_.value);
    while (place_->generation == generation) {
      place_->change.wait_for(lock, std::chrono::milliseconds(50));
      if (exchange_->failed()) {
        throw Error(fmt::format("rank {}", index_of(rank_)), "stopped at a barrier");
      }
      if (std::chrono::steady_clock::now() > deadline) {
        throw Error(fmt::format("rank {}", index_of(rank_)),
                    fmt::format("waited {:.3g} s at a barrier for {} of {} ranks", timeout_.value,
                                ranks_ - place_->arrived, ranks_));
      }
    }
  }

  std::vector<std::string> gather(const std::string& blob) override {
    {
      const std::lock_guard lock(place_->mutex);
      place_->blobs.resize(static_cast<std::size_t>(ranks_));
      place_->blobs[index_of(rank_)] = blob;
    }
    barrier();
    std::vector<std::string> all;
    if (rank_ == Rank(0)) {
      all = place_->blobs;
    }
    barrier();
    return all;
  }

  std::string broadcast(const std::string& blob) override {
    if (rank_ == Rank(0)) {
      const std::lock_guard lock(place_->mutex);
      place_->blobs.assign(1, blob);
    }
    barrier();
    std::string result = place_->blobs[0];
    barrier();
    return result;
  }

  std::string failure() override {
    return exchange_->failed() ? exchange_->failure() : std::string();
  }

 private:
  Rank rank_;
  std::int64_t ranks_;
  Seconds timeout_;
  MeetingPlace* place_;
  Exchange* exchange_;
};

struct Failure {
  Rank rank{};
  std::string reason;
  ErrorKind kind = ErrorKind::kBadInput;
};

[[noreturn]] void throw_failure(const StepProgram& program, const Exchange& exchange,
                                const Failure& first) {
  std::string others;
  for (std::uint32_t rank = 0; rank < program.ranks; ++rank) {
    if (Rank(rank) != first.rank) {
      const Program& role = program.roles[index_of(role_of(program, Rank(rank)))];
      others +=
          fmt::format("; rank {} was in {}", rank, describe_op(role, exchange.current(Rank(rank))));
    }
  }
  throw Error(fmt::format("rank {} failed", index_of(first.rank)), first.reason + others,
              first.kind);
}

}  // namespace

void run_on_threads(const StepProgram& program, const CpuOptions& options, Seconds timeout,
                    const std::function<void(ThreadRank&)>& body) {
  Exchange exchange(program.ranks);
  MeetingPlace place;
  std::mutex failure_mutex;
  std::optional<Failure> first;
  const auto fail = [&](Rank rank, const std::string& reason, ErrorKind kind) {
    const std::lock_guard lock(failure_mutex);
    if (!first.has_value()) {
      first = Failure{rank, reason, kind};
    }
    exchange.fail(reason);
  };
  // A rank that fails leaves its memory to those that are still reading it.
  std::vector<std::unique_ptr<Backend>> backends(static_cast<std::size_t>(program.ranks));
  const auto run_rank = [&](Rank rank) {
    try {
      std::unique_ptr<Backend>& backend = backends[index_of(rank)];
      backend = make_cpu_backend(program, rank, exchange, options);
      RankExecutor executor(program, rank, *backend);
      ThreadCoordinator coordinator(rank, program.ranks, timeout, place, exchange);
      ThreadRank self{executor, *backend, coordinator};
      body(self);
    } catch (const Error& error) {
      fail(rank, error.what(), error.kind());
    } catch (const std::bad_alloc&) {
      fail(rank, "ran out of memory", ErrorKind::kMissingMachine);
    } catch (const std::exception& error) {
      fail(rank, error.what(), ErrorKind::kBadInput);
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(program.ranks));
  try {
    while (static_cast<std::int64_t>(threads.size()) < program.ranks) {
      threads.emplace_back(run_rank, Rank(static_cast<std::uint32_t>(threads.size())));
    }
  } catch (const std::system_error& error) {
    fail(Rank(static_cast<std::uint32_t>(threads.size())),
         fmt::format("the system gives no thread for it ({})", error.what()),
         ErrorKind::kMissingMachine);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (first.has_value()) {
    throw_failure(program, exchange, *first);
  }
}

}  // namespace trireme::runtime::cpu
